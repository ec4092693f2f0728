"""Training progress from the ends of pods' logs: one pod of each job is read.

A read sends one request per job, for the newest lines since the last read. If many jobs run, jobs whose
reading is oldest are read first, and the others keep their known progress.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from time import monotonic

from tui.backends.errors import BackendError, InvalidRequest, NotFound
from tui.backends.interface import LogQuery, LogService, ProgressService
from tui.backends.kubernetes.job_pods import JobPods
from tui.backends.kubernetes.logs.lines.entries import ContainerName, entries_of
from tui.backends.kubernetes.logs.lines.stamped import SECOND, StampedLine
from tui.backends.kubernetes.logs.newest import NewestReader
from tui.domain.attempts.milestones import milestone_of
from tui.domain.core.job import Job
from tui.domain.core.log_entry import SERVICE, LogEntry
from tui.domain.core.states import JobState
from tui.domain.core.training_progress import NO_PROGRESS, Progress, TrainingStep
from tui.domain.log.judge import SeverityJudge
from tui.domain.progress.job_progress import JobProgress
from tui.domain.progress.pattern import progress_pattern
from tui.domain.training.collected_steps import CollectedSteps

TAIL = 200
"""Number of newest lines in the first read of a job, and most lines of a later read."""
HEAD = 64 * 1024
"""Number of bytes read from the start of a log, which contain the first loss."""
MOST_JOBS_LOCAL, MOST_JOBS = 100, 40
"""Maximum number of jobs of one `read`, on this machine and in a remote cluster."""
FIRST_LOSSES = 4
"""Number of jobs whose first loss is read in one `read`."""
MOST_LINES = 200_000
"""Maximum number of lines of a log that are searched for training steps."""
GLANCE = 8.0
"""Timeout in seconds of reading one log for a list. For a lost node the API server takes 30 s.

A failed read is not repeated, because the list is read again soon.
"""
FORGET = timedelta(hours=1)
PRIMARY = ("master", "chief", "launcher", "node", "worker")
"""Replica groups in the order of preference for reading a job's progress."""


@dataclass(slots=True)
class _Known:
    """Results of earlier reads of one job."""

    created: datetime | None
    reader: JobProgress = field(default_factory=JobProgress)
    first_loss: float | None = None
    read_at: float = 0.0
    pod: ContainerName | None = None
    since: int | None = None
    """Time at which the next read begins, in whole seconds since the epoch."""
    whole: bool = False
    """Whether the job's first lines were read."""
    final: bool = False
    """Whether the job's lines were read after its end."""
    lost: bool = False
    """Whether the pods were deleted before the last read, so that the known progress is not final."""


@dataclass(slots=True)
class _ReadSteps:
    """The steps and milestones of a job's primary replica that were read."""

    created: datetime | None
    steps: CollectedSteps
    milestones: dict[tuple[datetime, int, str, str], LogEntry] = field(default_factory=dict)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class KubernetesProgress(ProgressService):
    """Progress of the jobs of one cluster."""

    def __init__(self, pods: JobPods, newest: NewestReader, logs: LogService, *, local: bool) -> None:
        self._pods = pods
        self._logs = logs
        self._newest = newest
        self._most = MOST_JOBS_LOCAL if local else MOST_JOBS
        self._known: dict[str, _Known] = {}
        self._steps: dict[str, _ReadSteps] = {}

    async def read(self, jobs: Sequence[Job]) -> Mapping[str, Progress]:
        """Return the progress by job name. Raises BackendError if no job can be read."""
        known = {job.name: self._known_of(job) for job in jobs}
        due = [job for job in jobs if _has_pods(job)]
        due.sort(key=lambda job: known[job.name].read_at)
        due = due[: self._most]
        outcomes = await asyncio.gather(*(self._advance(job, known[job.name]) for job in due))
        errors = [error for error in outcomes if error is not None]
        if errors and len(errors) == len(due) and not isinstance(errors[0], NotFound):
            raise errors[0]
        unknown = [job for job in due if _wants_first_loss(known[job.name])][:FIRST_LOSSES]
        await asyncio.gather(*(self._read_first_loss(known[job.name]) for job in unknown))
        self._forget()
        return {name: _progress(known) for name, known in known.items()}

    async def training_steps(self, name: str, created: datetime | None = None) -> Sequence[TrainingStep]:
        del created
        return (await self._read_steps(name)).steps.thinned()

    async def milestones(self, job: Job) -> Sequence[LogEntry]:
        """Return the cluster's entries about the job, and the milestones of its primary replica."""
        query = LogQuery(job.name, replicas=(SERVICE,))
        read = await self._read_steps(job.name)
        batches = [batch async for batch in self._logs.read(query, newest_first=True)]
        return [*read.milestones.values(), *(entry for batch in batches for entry in batch.entries)]

    async def _read_steps(self, name: str) -> _ReadSteps:
        """Read the new lines of the job's primary replica."""
        job = await self._pods.job(name)
        read = self._steps.get(name)
        if read is None or read.created != job.create_time:
            # The job was deleted and created again.
            read = _ReadSteps(job.create_time, CollectedSteps(progress_pattern(job.progress_pattern)))
            self._steps[name] = read
        async with read.lock:
            await self._read_lines(job, read)
        return read

    async def _read_lines(self, job: Job, read: _ReadSteps) -> None:
        steps = read.steps
        try:
            pod = await self._container(job, self._known_of(job))
            last = steps.reader.last
            since = None if last is None else int(last[0].timestamp())
            lines: list[StampedLine] = []
            if last is None and any(replica.restarts for replica in job.replicas):
                lines += await self._previous(pod)
            lines += await self._newest.last(pod, MOST_LINES, since=since)
        except NotFound:
            return
        except InvalidRequest as error:
            if not _is_waiting(error):
                raise
            return
        entries = _entries(pod, lines)
        steps.add(entries)
        read.milestones |= {entry.key: entry for entry in entries if milestone_of(entry) is not None}

    def _known_of(self, job: Job) -> _Known:
        known = self._known.get(job.name)
        if known is None or known.created != job.create_time:
            pattern = progress_pattern(job.progress_pattern)
            known = self._known[job.name] = _Known(job.create_time, JobProgress(pattern))
        return known

    async def _advance(self, job: Job, known: _Known) -> BackendError | None:
        """Read the newest lines of the job's primary replica. Return the error of a failed read."""
        known.read_at = monotonic()
        try:
            pod = await self._container(job, known)
            lines = await self._newest.last(pod, TAIL, since=known.since, within=GLANCE, patience=0.0)
        except BackendError as error:
            known.lost = job.state.terminal and isinstance(error, NotFound) and not known.final
            return None if isinstance(error, InvalidRequest) else error
        known.final = job.state.terminal
        known.whole = known.whole or (known.since is None and len(lines) < TAIL)
        for entry in _entries(pod, lines):
            if known.reader.last is None or entry.key > known.reader.last:
                known.reader.add(entry)
        known.reader.observe(job, datetime.now(UTC))
        if lines:
            known.since = max(known.since or 0, lines[-1].stamp // SECOND)
        if known.whole:
            known.first_loss = known.reader.progress.first_loss
        return None

    async def _container(self, job: Job, known: _Known) -> ContainerName:
        """Return the container that reports the job's progress, looked up again for a new pod. Raises
        NotFound."""
        replicas = (replica for replica in job.replicas if replica.pod)
        shown = min(replicas, key=lambda replica: _rank_of(replica.id), default=None)
        if known.pod is not None and (shown is None or shown.pod == known.pod.pod):
            return known.pod
        pods = [pod for pod in await self._pods.pods(job.name, job) if pod.replica]
        if not pods:
            raise NotFound(f"{job.display_name} currently has no pods.")
        first = min(_rank_of(pod.replica) for pod in pods)
        newest = [pod for pod in pods if _rank_of(pod.replica) == first][-1]
        known.pod, known.since = newest.container(newest.main), None
        return known.pod

    async def _previous(self, pod: ContainerName) -> list[StampedLine]:
        try:
            return await self._newest.last(pod, MOST_LINES, previous=True)
        except (InvalidRequest, NotFound):
            return []

    async def _read_first_loss(self, known: _Known) -> None:
        """Read the oldest lines: users compare with the first loss, which the newest lines don't contain."""
        assert known.pod is not None
        try:
            lines = await self._newest.last(known.pod, TAIL, most_bytes=HEAD, within=GLANCE, patience=0.0)
        except BackendError:
            # The next read retries.
            return
        reader = JobProgress(known.reader.pattern)
        for entry in _entries(known.pod, lines):
            reader.add(entry)
        first = reader.progress.first_loss
        known.first_loss = known.reader.progress.first_loss if first is None else first

    def _forget(self) -> None:
        """Drop the jobs that were not read for a long time."""
        limit = monotonic() - FORGET.total_seconds()
        for name in [name for name, known in self._known.items() if 0 < known.read_at < limit]:
            del self._known[name]


def _is_waiting(error: InvalidRequest) -> bool:
    """Return whether a log is refused because its container has not run yet, e.g. while its image is
    pulled."""
    return "is waiting to start" in error.message


def _has_pods(job: Job) -> bool:
    return job.state not in {JobState.QUEUED, JobState.PENDING, JobState.SUSPENDED}


def _rank_of(replica: str) -> tuple[int, int]:
    """Return the rank of a replica for reading a job's progress."""
    group, _, index = replica.rpartition("-")
    known = PRIMARY.index(group) if group in PRIMARY else len(PRIMARY)
    return known, int(index) if index.isascii() and index.isdigit() else 0


def _wants_first_loss(known: _Known) -> bool:
    return known.pod is not None and known.first_loss is None and known.reader.progress.last_loss is not None


def _progress(known: _Known) -> Progress:
    progress = known.reader.progress
    if known.lost and progress.fraction != 1.0:
        # An old step would be mistaken for the step at which the job ended.
        return NO_PROGRESS
    if known.first_loss is not None and progress.first_loss != known.first_loss:
        return replace(progress, first_loss=known.first_loss)
    return progress


def _entries(name: ContainerName, lines: Iterable[StampedLine]) -> list[LogEntry]:
    """Convert lines in file order to entries. Lines of one time are numbered from 0."""
    entries: list[LogEntry] = []
    last, ordinal, judge = -1, 0, SeverityJudge()
    for line in lines:
        ordinal = ordinal + 1 if line.stamp == last else 0
        last = line.stamp
        entries += entries_of(name, line.stamp, ordinal, line.text, judge)
    entries.sort(key=lambda entry: entry.key)
    return entries
