"""Adds the service's message to a diagnosis: the user's traceback in the message is read as lines of the
replica."""

from __future__ import annotations

from tui.domain.diagnosis.evidence import Findings
from tui.domain.diagnosis.exits import REPLICA
from tui.domain.diagnosis.line import JobFacts, LogLine
from tui.domain.diagnosis.reader import Reader

IN_MESSAGE = -1
"""Index of a line that exists only in the service's message."""


def with_message(reader: Reader, facts: JobFacts) -> Findings:
    """Return the findings in the log and in the service's message. A traceback in both counts once."""
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
