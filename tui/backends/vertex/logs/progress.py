"""Training progress from the trainer's structured log lines, in as few log reads as possible."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from tui.backends.interface import LogQuery, NotFound, ProgressService
from tui.backends.vertex.logs import convert
from tui.backends.vertex.logs.filters import any_of, job_entries, job_id, stamp
from tui.backends.vertex.logs.filters import quote as quoted
from tui.backends.vertex.logs.reader import BEFORE, PAGE, RETENTION, LogReader
from tui.domain.job import Job
from tui.domain.log_entry import LogEntry
from tui.domain.training.progress import Progress, TrainingStep, advance, training_step

KINDS = ("step", "checkpoint", "phase", "resumed", "preempted", "done")
"""Kinds of lines that change a job's progress; `gpu` lines would fill the page."""
JOBS_PER_READ = 500
"""Job ids that fit in one filter of 20,000 characters with room to spare."""
PER_JOB = 40
"""Entries requested for each job at first; the newest few are enough."""
ALONE = 10
"""Most jobs that one `read` requests one by one."""
FIRST_LOSSES = 4
"""Jobs whose first loss one `read` requests: reads are limited, and the next one continues."""
ALONE_OVERLAP = timedelta(minutes=5)
"""How much the clocks of a job and of this machine may differ."""
MOST_TRAINING_STEPS = 2000
STEP_PAGES = 20
"""Most pages of one `read_training_steps`; the next call continues where it ended."""


@dataclass(slots=True)
class _Known:
    """Results of earlier reads of one job."""

    progress: Progress = field(default_factory=Progress)
    last: tuple[datetime, int, str, str] | None = None
    first_loss: float | None = None
    alone: datetime | None = None
    """When it was read on its own; earlier entries need not be read again."""


@dataclass(slots=True)
class _Steps:
    """Samples of one job's reporting replica. Every `stride`-th is kept."""

    replica: str = ""
    samples: list[TrainingStep] = field(default_factory=list)
    last: tuple[datetime, int, str, str] | None = None
    newest: TrainingStep | None = None
    stride: int = 1
    count: int = 0


class ProgressReader(ProgressService):
    """Progress reads of one context; nothing is read twice."""

    def __init__(self, logs: LogReader, overlap: float) -> None:
        self._logs = logs
        self._overlap = timedelta(seconds=overlap)
        self._known: dict[str, _Known] = {}
        self._steps: dict[str, _Steps] = {}

    async def read(self, jobs: Sequence[Job]) -> Mapping[str, Progress]:
        """Progress by job name: one read for all jobs, and for a few one more for the first loss."""
        if not jobs:
            return {}
        by_id = {job.id: job for job in jobs}
        ids = list(by_id)
        for start in range(0, len(ids), JOBS_PER_READ):
            await self._advance([by_id[i] for i in ids[start : start + JOBS_PER_READ]])
        asked = 0
        for job in jobs:
            asked += await self._first_loss(job, may_read=asked < FIRST_LOSSES)
        return {job.name: self._known[job.name].progress for job in jobs}

    async def _advance(self, jobs: Sequence[Job]) -> None:
        known = {job.id: self._known.setdefault(job.name, _Known()) for job in jobs}
        now = datetime.now(UTC)
        new = [job for job in jobs if known[job.id].last is None and known[job.id].alone is None]
        lower = min(self._begin(job, known[job.id], now) for job in jobs)
        text = " AND ".join(
            [
                job_entries(known),
                any_of("jsonPayload.vxtui.kind", KINDS),
                f"timestamp>={quoted(stamp(lower))}",
            ]
        )
        reply = await self._logs.page(text, newest_first=True, size=min(PAGE, PER_JOB * len(jobs)))
        for entry in sorted(map(convert.entry, reply.entries), key=lambda entry: entry.key):
            k = known.get(entry.job_id)
            if k is None or (k.last is not None and entry.key <= k.last):
                continue
            k.last = entry.key
            k.progress = advance(k.progress, entry.timestamp, entry.json)
        if not reply.next_page_token:
            # The page held all entries, including the first losses.
            for job in new:
                known[job.id].first_loss = known[job.id].progress.first_loss
        elif len(jobs) > 1:
            # Busy jobs filled the page; read the quiet ones on their own, once.
            for job in [job for job in new if known[job.id].last is None][:ALONE]:
                await self._advance([job])
                known[job.id].alone = now

    def _begin(self, job: Job, known: _Known, now: datetime) -> datetime:
        if known.last is None and known.alone is not None:
            return known.alone - ALONE_OVERLAP
        return self._lower(job, known.last, now)

    def _lower(self, job: Job, last: tuple[datetime, int, str, str] | None, now: datetime) -> datetime:
        if last is not None:
            return last[0] - self._overlap
        return (job.create_time - BEFORE) if job.create_time is not None else now - RETENTION

    async def _first_loss(self, job: Job, *, may_read: bool) -> bool:
        """The first loss of the job, which users compare with; the newest lines do not contain it.

        Whether it took a read of its own.
        """
        known = self._known[job.name]
        asks = may_read and known.first_loss is None and known.progress.last_loss is not None
        if asks:
            known.first_loss = await self._oldest_loss(job)
        if known.first_loss is not None:
            known.progress = replace(known.progress, first_loss=known.first_loss)
        return asks

    async def _oldest_loss(self, job: Job) -> float | None:
        text = self._step_filter(job.id, self._lower(job, None, datetime.now(UTC)))
        reply = await self._logs.page(text, size=PER_JOB)
        for entry in map(convert.entry, reply.entries):
            sample = training_step(entry.timestamp, entry.json)
            if sample is not None and sample.loss is not None:
                return sample.loss
        return None

    async def training_steps(self, name: str) -> Sequence[TrainingStep]:
        """Steps of one replica (each may report the same ones), thinned evenly, the newest kept."""
        known = self._steps.setdefault(name, _Steps())
        token = ""
        lower = await self._start(name, known)
        text = self._step_filter(job_id(name), lower)
        for _page in range(STEP_PAGES):
            reply = await self._logs.page(text, token=token)
            _collect(known, map(convert.entry, reply.entries))
            token = reply.next_page_token
            if not token:
                break
        tail = [] if known.newest is None or known.newest in known.samples[-1:] else [known.newest]
        return (*known.samples, *tail)

    async def _start(self, name: str, known: _Steps) -> datetime:
        if known.last is not None:
            return known.last[0]
        try:
            bound = await self._logs.lower_bound(LogQuery(name))
        except NotFound:
            bound = None
        return bound or datetime.now(UTC) - RETENTION

    def _step_filter(self, number: str, lower: datetime) -> str:
        return (
            f'{job_entries([number])} AND jsonPayload.vxtui.kind="step" AND timestamp>={quoted(stamp(lower))}'
        )


def _collect(known: _Steps, entries: Iterable[LogEntry]) -> None:
    for entry in entries:
        if known.last is not None and entry.key <= known.last:
            continue
        sample = training_step(entry.timestamp, entry.json)
        known.last = entry.key
        if sample is None:
            continue
        known.replica = known.replica or entry.replica
        if entry.replica != known.replica:
            continue
        if known.count % known.stride == 0:
            known.samples.append(sample)
        known.newest = sample
        known.count += 1
        if len(known.samples) >= MOST_TRAINING_STEPS:
            known.samples = known.samples[::2]
            known.stride *= 2
