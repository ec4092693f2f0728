"""Training progress from log lines, in as few log reads as possible."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import Any

from tui.backends.interface import InvalidRequest, LogQuery, ProgressService
from tui.backends.vertex.logs import convert
from tui.backends.vertex.logs.filters import MAX_LOG_FILTER, RETENTION, any_of, job_id, stamp
from tui.backends.vertex.logs.filters import quote as quoted
from tui.backends.vertex.logs.progress_filter import KINDS, ProgressGroup, group_lines, job_lines
from tui.backends.vertex.logs.reader import PAGE, LogReader
from tui.domain.attempts.milestones import SCRIPT_EXPRESSION
from tui.domain.core.job import Job
from tui.domain.core.log_entry import SERVICE, LogEntry
from tui.domain.core.training_progress import Progress, TrainingStep
from tui.domain.progress.job_progress import JobProgress
from tui.domain.progress.pattern import progress_pattern
from tui.domain.training.collected_steps import CollectedSteps

JOBS_PER_READ = 500
"""Maximum number of job ids of one filter: they fit in 20,000 characters with a margin."""
PER_JOB = 40
"""Number of entries read for each job at first. The newest few are enough."""
ONE_JOB = 400
"""Number of entries read for a single job, whose replicas' own steps are read too."""
ALONE = 10
"""Maximum number of jobs that one `read` reads individually."""
FIRST_LOSSES = 4
"""Number of jobs whose first loss is read in one `read`. The next `read` continues with the other jobs,
because reads are limited."""
BEFORE = timedelta(days=1)
"""Maximum time by which a line may be dated before its job's creation: another time zone, or a clock set
back. Reads of many jobs' progress go no further back."""
ALONE_OVERLAP = timedelta(minutes=5)
"""Maximum difference between the clocks of a job and of the service."""
STEP_PAGES = 20
"""Maximum number of pages of one `training_steps`. The next call continues."""
STEP_KINDS = ("step", "eval")
MILESTONE_KINDS = ("phase", "resumed", "checkpoint", "preempted", "guard", "eval", "done")


@dataclass(slots=True)
class _Known:
    """Results of earlier reads of one job."""

    reader: JobProgress = field(default_factory=JobProgress)
    first_loss: float | None = None
    whole: bool = True
    """Whether no read has left out an entry, so that the first loss read is the job's first."""
    read_until: datetime | None = None
    """Time by the service's clock before which there are no unread entries. The time starts at the job's
    creation and advances with the time since the first read."""
    first_read: float = field(default_factory=monotonic)
    pattern: str = ""
    """The job's own pattern in the service's syntax."""


class ProgressReader(ProgressService):
    """Reads the progress of one context's jobs. No line is read twice."""

    def __init__(self, logs: LogReader, overlap: float) -> None:
        self._logs = logs
        self._overlap = timedelta(seconds=overlap)
        self._known: dict[str, _Known] = {}
        self._steps: dict[str, CollectedSteps] = {}

    async def read(self, jobs: Sequence[Job]) -> Mapping[str, Progress]:
        """Return the progress by job name. One read covers all jobs; some need one more for the first
        loss."""
        if not jobs:
            return {}
        by_id = {job.id: job for job in jobs}
        for job in by_id.values():
            if job.name not in self._known:
                self._known[job.name] = _unread(job)
        every = list(by_id.values())
        chunks = [every[start : start + JOBS_PER_READ] for start in range(0, len(every), JOBS_PER_READ)]
        # For a single job, the oldest lines are read together with the newest. Many jobs would need one read
        # each. If the service refuses the job's own pattern, another pattern is used, but only after the
        # first reply.
        at_once = [job for job in every if len(every) == 1 and self._is_unread(job)]
        losses = asyncio.gather(*(self._oldest_loss(job) for job in at_once))
        missed, oldest = await asyncio.gather(self._advance_all(chunks), losses)
        for job, loss in zip(at_once, oldest, strict=True):
            self._keep_first_loss(job, loss)
        new = [job for job in missed if _is_new(self._known[job.name])][:ALONE]
        unknown = [job for job in every if self._wants_first_loss(self._known[job.name])]
        await asyncio.gather(
            self._read_alone(new),
            self._read_others([job for job in missed if not _is_new(self._known[job.name])]),
            *(self._read_first_loss(job) for job in [*unknown, *new][:FIRST_LOSSES]),
        )
        for job in jobs:
            known = self._known[job.name]
            if known.first_loss is not None:
                known.reader.progress = replace(known.reader.progress, first_loss=known.first_loss)
        return {job.name: self._known[job.name].reader.progress for job in jobs}

    async def _advance_all(self, chunks: Iterable[Sequence[Job]]) -> list[Job]:
        answers = await asyncio.gather(*(self._advance(chunk) for chunk in chunks))
        return [job for missed in answers for job in missed]

    async def _advance(self, jobs: Sequence[Job]) -> list[Job]:
        """Read the newest lines of these jobs. Return the jobs without a line on a full page."""
        known = {job.id: self._known[job.name] for job in jobs}
        now, at = datetime.now(UTC), monotonic()
        text = self._filter(jobs, now)
        if len(text) > MAX_LOG_FILTER and len(jobs) > 1:
            # The jobs' own patterns make the filter long.
            half = len(jobs) // 2
            return await self._advance_all((jobs[:half], jobs[half:]))
        reply = await self._page(jobs, text, now)
        shown = set()
        for entry in sorted(convert.entries(reply.entries), key=lambda entry: entry.key):
            shown.add(entry.job_id)
            k = known.get(entry.job_id)
            if k is not None and (k.reader.last is None or entry.key > k.reader.last):
                k.reader.add(entry)
        left_out = bool(reply.next_page_token)
        for job in jobs:
            k = known[job.id]
            k.whole = k.whole and not left_out
            if k.whole:
                k.first_loss = k.reader.progress.first_loss
            if not left_out or job.id in shown:
                k.reader.observe(job, now)
            if not left_out:
                k.read_until = _service_time(job, k, now, at)
        if not left_out or len(jobs) == 1:
            return []
        return [job for job in jobs if job.id not in shown]

    async def _read_alone(self, jobs: Sequence[Job]) -> None:
        """Read each new job without a line on a full page once, individually."""
        now, at = datetime.now(UTC), monotonic()
        for job in jobs:
            self._known[job.name].whole = True
        await asyncio.gather(*(self._advance([job]) for job in jobs))
        for job in jobs:
            known = self._known[job.name]
            known.read_until = _service_time(job, known, now, at)

    async def _read_others(self, jobs: Sequence[Job]) -> None:
        """Read the other jobs without a line on a full page together.

        Otherwise a job that was read before its first line would be missed as long as the others print.
        """
        if jobs:
            await self._advance(jobs)

    async def _page(self, jobs: Sequence[Job], text: str, now: datetime) -> Any:
        """Return the newest lines; without the jobs' own patterns if the service refuses the patterns."""
        size = min(PAGE, PER_JOB * len(jobs) if len(jobs) > 1 else ONE_JOB)
        names = [job.name for job in jobs]
        try:
            return await self._logs.page(text, names, newest_first=True, size=size)
        except InvalidRequest:
            known = [self._known[job.name] for job in jobs]
            if not any(k.pattern for k in known):
                raise
            for k in known:
                k.pattern = ""
            return await self._logs.page(self._filter(jobs, now), names, newest_first=True, size=size)

    def _filter(self, jobs: Sequence[Job], now: datetime) -> str:
        """Return one filter for all jobs. The lines of a structured job are selected only by kind.

        Jobs that have printed get their own lower bound: with the bound of silent jobs, their old lines would
        fill each page.
        """
        ids: dict[tuple[bool, str, bool], list[Job]] = {}
        for job in jobs:
            k = self._known[job.name]
            pattern = "" if k.reader.structured else k.pattern
            ids.setdefault((k.reader.structured, pattern, k.reader.last is not None), []).append(job)
        begins = {key: min(self._begin(job, now) for job in members) for key, members in ids.items()}
        lower = min(begins.values())
        groups = []
        for key, members in ids.items():
            since = stamp(begins[key]) if begins[key] > lower else ""
            groups.append(ProgressGroup(tuple(job.id for job in members), key[0], key[1], since))
        kinds = KINDS if len(jobs) > 1 else (*KINDS, "rank")
        return f"{group_lines(groups, kinds)} AND timestamp>={quoted(stamp(lower))}"

    def _begin(self, job: Job, now: datetime) -> datetime:
        known = self._known[job.name]
        last = known.reader.last
        if last is None and known.read_until is not None:
            return known.read_until - ALONE_OVERLAP
        return self._lower(job, last, now)

    def _lower(self, job: Job, last: tuple[datetime, int, str, str] | None, now: datetime) -> datetime:
        if last is not None:
            return last[0] - self._overlap
        return (job.create_time - BEFORE) if job.create_time is not None else now - RETENTION

    def _wants_first_loss(self, known: _Known) -> bool:
        """Return whether the first loss must be read: users compare with it, and the newest lines lack it."""
        return known.first_loss is None and known.reader.progress.last_loss is not None

    def _is_unread(self, job: Job) -> bool:
        known = self._known[job.name]
        return job.start_time is not None and _is_new(known) and not known.pattern

    async def _read_first_loss(self, job: Job) -> None:
        self._keep_first_loss(job, await self._oldest_loss(job))

    def _keep_first_loss(self, job: Job, oldest: float | None) -> None:
        known = self._known[job.name]
        # If the oldest lines contain no loss, they are not read again.
        known.first_loss = known.reader.progress.first_loss if oldest is None else oldest

    async def _oldest_loss(self, job: Job) -> float | None:
        text = self._step_filter(job.name, self._lower(job, None, datetime.now(UTC)))
        reply = await self._logs.page(text, (job.name,), size=PER_JOB)
        reader = JobProgress(self._known[job.name].reader.pattern)
        for entry in convert.entries(reply.entries):
            reader.add(entry)
        return reader.progress.first_loss

    async def training_steps(self, name: str, created: datetime | None = None) -> Sequence[TrainingStep]:
        """Return the steps of one replica (each may report the same steps), thinned evenly, including the
        newest."""
        known = self._steps.get(name)
        if known is None:
            before = self._known.get(name)
            known = self._steps[name] = CollectedSteps(before.reader.pattern if before else None)
        async for entries in self._pages(
            name, self._step_filter(name, await self._start(name, known, created))
        ):
            known.add(entries)
        return known.thinned()

    async def milestones(self, job: Job) -> Sequence[LogEntry]:
        lower = self._lower(job, None, datetime.now(UTC))
        lines = (
            f"{any_of('resource.labels.job_id', (job.id,))} AND timestamp>={quoted(stamp(lower))} AND "
            f"({any_of('jsonPayload.vxtui.kind', MILESTONE_KINDS)} OR "
            f"resource.labels.task_name={quoted(SERVICE)} OR textPayload=~{quoted(SCRIPT_EXPRESSION)})"
        )
        pages = [entries async for entries in self._pages(job.name, f'resource.type="ml_job" AND {lines}')]
        return [entry for entries in pages for entry in entries]

    async def _pages(self, name: str, text: str) -> AsyncIterator[Sequence[LogEntry]]:
        """Read up to `STEP_PAGES` pages of the entries that the filter selects, oldest first."""
        token = ""
        for _page in range(STEP_PAGES):
            reply = await self._logs.page(text, (name,), token=token)
            yield convert.entries(reply.entries)
            token = reply.next_page_token
            if not token:
                break

    async def _start(self, name: str, known: CollectedSteps, created: datetime | None) -> datetime:
        if known.reader.last is not None:
            return known.reader.last[0]
        return await self._logs.lower_bound(LogQuery(name, created=created))

    def _step_filter(self, name: str, lower: datetime) -> str:
        known, steps = self._known.get(name), self._steps.get(name)
        structured = any(reader.reader.structured for reader in (known, steps) if reader is not None)
        pattern = known.pattern if known is not None else ""
        group = ProgressGroup((job_id(name),), structured, "" if structured else pattern)
        lines = job_lines(group, STEP_KINDS)
        return f'resource.type="ml_job" AND {lines} AND timestamp>={quoted(stamp(lower))}'


def _is_new(known: _Known) -> bool:
    """Return whether no lines of the job have been read."""
    return known.reader.last is None and known.read_until is None


def _service_time(job: Job, known: _Known, now: datetime, at: float) -> datetime:
    """Return a time that the service's clock has reached at `at` (monotonic); this machine's clock may be
    wrong."""
    if job.create_time is None:
        return now
    return job.create_time + timedelta(seconds=at - known.first_read)


def _unread(job: Job) -> _Known:
    """Return the state of a job that has not been read."""
    pattern = progress_pattern(job.progress_pattern)
    return _Known(JobProgress(pattern), pattern=pattern.text if pattern is not None else "")
