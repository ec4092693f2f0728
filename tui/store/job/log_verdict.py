"""Why a job failed, from its service and from the log of every replica."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Sequence
from copy import deepcopy

from tui.backends.interface import Backend, LogQuery
from tui.domain.core.job import Job
from tui.domain.core.log_entry import LogEntry
from tui.domain.core.states import JobState
from tui.domain.diagnosis.decide import decide
from tui.domain.diagnosis.line import JobFacts, LogLine
from tui.domain.diagnosis.novelty import Novelty, with_new
from tui.domain.diagnosis.platform import with_message
from tui.domain.diagnosis.reader import Reader
from tui.domain.diagnosis.rules import Rules
from tui.domain.diagnosis.verdict import Verdict
from tui.domain.jobs.facts import facts_of, log_line

MOST_READ = 40_000
"""Number of last entries of a log that are read."""
MOST_START = 4_000
"""Number of first entries that are read of a longer log."""
PART = 250
"""Number of lines that are judged at once, so that a screen stays quick."""


async def judge(
    job: Job,
    parts: Iterable[Sequence[LogLine]],
    rules: Rules,
    good: Collection[str] = (),
    *,
    local: bool = False,
) -> Verdict:
    """Return why a job failed, from its log in small parts. `good` has the templates of a run that succeeded;
    with `local` the job runs on this machine."""
    judged = LogJudge(rules)
    for lines in parts:
        await judged.read(lines)
    return judged.verdict(facts_of(job, local=local), good)


class LogJudge:
    """Reads a growing log once; each verdict judges the lines so far."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._reader = Reader(rules)
        self._novelty = Novelty()

    async def read(self, lines: Sequence[LogLine]) -> None:
        """Read a small part that follows the parts before."""
        self._reader.read(lines)
        self._novelty.read(lines)
        await asyncio.sleep(0)

    def verdict(self, facts: JobFacts, good: Collection[str] = ()) -> Verdict:
        """Return what the lines so far and the service tell."""
        # A verdict ends open tracebacks, so a copy of the reader ends.
        reader = deepcopy(self._reader, {id(self._rules): self._rules})
        return with_new(decide(with_message(reader, facts), facts, self._rules), self._novelty, good)


async def read_lines(
    backend: Backend, job: Job, most: int = MOST_READ, start: int = MOST_START
) -> list[LogLine]:
    """Return the `most` last lines of a log, and the `start` first lines of a longer log; of a composite job
    the lines of its failed tasks. Raises BackendError."""
    created = job.create_time if job.logged_as == job.name else None
    query = LogQuery(job.logged_as, include_service=False, created=created, tasks=job.composite)
    entries: dict[tuple[object, ...], LogEntry] = {}
    for newest, limit in ((True, most), (False, start)):
        if limit and (newest or len(entries) >= most):
            async for batch in backend.logs.read(query, newest_first=newest, limit=limit):
                entries |= {entry.key: entry for entry in batch.entries if isinstance(entry, LogEntry)}
    ordered = sorted(entries.values(), key=lambda entry: entry.key)
    if failed := {task.id for task in job.tasks if job.composite and task.state is JobState.FAILED}:
        ordered = [entry for entry in ordered if entry.replica.partition("/")[0] in failed]
    return [log_line(index, entry) for index, entry in enumerate(ordered)]


def in_parts(lines: Sequence[LogLine]) -> Iterable[Sequence[LogLine]]:
    """Return lines in the parts of `judge`."""
    return (lines[at : at + PART] for at in range(0, len(lines), PART))
