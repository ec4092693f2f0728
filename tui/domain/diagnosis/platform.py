"""The service's message within a diagnosis: the user's traceback in it is read as lines of the replica."""

from __future__ import annotations

from tui.domain.diagnosis.evidence import Findings
from tui.domain.diagnosis.exits import REPLICA
from tui.domain.diagnosis.line import JobFacts, LogLine
from tui.domain.diagnosis.reader import Reader

IN_MESSAGE = -1
"""Index of a line that only the service's message has."""


def with_message(reader: Reader, facts: JobFacts) -> Findings:
    """Return what the log and the message tell. A traceback that the log has too counts once."""
    match = REPLICA.search(facts.error)
    replica = match["replica"] if match is not None else ""
    if facts.traceback:
        last = max(
            (a.last.time for a in reader.findings.replicas.values() if a.last and a.last.time), default=None
        )
        texts = facts.traceback.split("\n")
        reader.read([LogLine(IN_MESSAGE, last, replica, 0, text) for text in texts])
    findings = reader.finish()
    if not facts.traceback:
        return findings
    logged = {(e.exception, e.message) for e in findings.evidence if e.line.index >= 0 and e.exception}
    findings.evidence = [
        e for e in findings.evidence if e.line.index >= 0 or (e.exception, e.message) not in logged
    ]
    return findings
