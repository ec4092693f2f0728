"""Converts the report of a job's service to input of the diagnosis."""

from __future__ import annotations

from tui.domain.core.job import Job, known_replicas
from tui.domain.core.log_entry import LogEntry
from tui.domain.core.states import JobState
from tui.domain.diagnosis.inputs import entry_line, split_message
from tui.domain.diagnosis.line import JobFacts, LogLine, ReplicaEnd


def facts_of(job: Job, *, local: bool = False) -> JobFacts:
    """Return the service's report on a job and its replicas. With `local`, they run on this machine."""
    words, traceback = split_message(job.error.message if job.error is not None else job.reason)
    ends = {
        replica.id: ReplicaEnd(
            "" if replica.state is JobState.UNKNOWN else replica.state.name, replica.exit_code, replica.reason
        )
        for replica in known_replicas(job)
    }
    place = "local" if local else "cluster" if job.in_cluster else "vertex"
    code = job.error.code if job.error is not None else None
    return JobFacts(job.state.name, words, traceback, code, ends, place)


def log_line(index: int, entry: LogEntry) -> LogLine:
    """Convert a log entry to a line for the diagnosis."""
    text = entry.message
    if entry.json is not None:
        more = entry_line(index, {"message": text, **entry.json})
        text = more.text if more is not None else text
    return LogLine(index, entry.timestamp.timestamp(), entry.replica, int(entry.severity), text)
