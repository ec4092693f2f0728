"""Training progress from the ends of pods' logs: of a list of jobs the one pod of each that tells it.

A read is one request for a job, of its newest lines since the last read. Where many jobs run, those whose
reading is oldest come first, and the others keep what is known of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from time import monotonic

from tui.backends.errors import BackendError, InvalidRequest, NotFound
from tui.backends.interface import ProgressService
from tui.backends.kubernetes.job_pods import JobPods
from tui.backends.kubernetes.logs.lines.entries import ContainerName, entries_of
from tui.backends.kubernetes.logs.lines.stamped import SECOND, StampedLine
from tui.backends.kubernetes.logs.newest import NewestReader
from tui.domain.core.job import Job
from tui.domain.core.log_entry import LogEntry
from tui.domain.core.replica import Replica
from tui.domain.core.states import JobState
from tui.domain.core.training_progress import NO_PROGRESS, Progress, TrainingStep
from tui.domain.progress.job_progress import JobProgress
from tui.domain.progress.pattern import progress_pattern
from tui.domain.training.collected_steps import CollectedSteps

TAIL = 200
"""Newest lines of a job that are read at first, and at most in a later read."""
HEAD = 64 * 1024
"""Bytes of the oldest lines, which have the first loss."""
MOST_JOBS_LOCAL, MOST_JOBS = 100, 40
"""Jobs that one `read` asks for: on this machine, and of a cluster elsewhere."""
FIRST_LOSSES = 4
"""Jobs whose first loss one `read` requests."""
MOST_LINES = 200_000
"""Lines of a log that are searched for training steps."""
GLANCE = 8.0
"""Seconds for the log of one job of a list: that of a node that is gone takes the API server half a minute.

A read that fails is not repeated: the next one of the list is soon."""
FORGET = timedelta(hours=1)
PRIMARY = ("master", "chief", "launcher", "node", "worker")
"""Groups in the order in which they tell the progress of a job."""


@dataclass(slots=True)
class _Known:
    """Results of earlier reads of one job."""

    created: datetime | None
    reader: JobProgress = field(default_factory=JobProgress)
    first_loss: float | None = None
    read_at: float = 0.0
    pod: ContainerName | None = None
    since: int | None = None
    """Second since 1970 that the next read begins at."""
    whole: bool = False
    """Its first lines were read."""
    final: bool = False
    """Its lines were read after its end."""
    lost: bool = False
    """Its pods went before that: what is known of it is not its last."""


class KubernetesProgress(ProgressService):
    """Progress of the jobs of one cluster."""

    def __init__(self, pods: JobPods, newest: NewestReader, *, local: bool) -> None:
        self._pods = pods
        self._newest = newest
        self._most = MOST_JOBS_LOCAL if local else MOST_JOBS
        self._known: dict[str, _Known] = {}
        self._steps: dict[str, tuple[datetime | None, CollectedSteps]] = {}

    async def read(self, jobs: Sequence[Job]) -> Mapping[str, Progress]:
        """Progress by job name. Raises BackendError where no job can be read."""
        found = {job.name: self._known_of(job) for job in jobs}
        due = [job for job in jobs if _has_pods(job)]
        due.sort(key=lambda job: found[job.name].read_at)
        due = due[: self._most]
        said = await asyncio.gather(*(self._advance(job, found[job.name]) for job in due))
        errors = [error for error in said if error is not None]
        if errors and len(errors) == len(due) and not isinstance(errors[0], NotFound):
            raise errors[0]
        unknown = [job for job in due if _wants_first_loss(found[job.name])][:FIRST_LOSSES]
        await asyncio.gather(*(self._read_first_loss(found[job.name]) for job in unknown))
        self._forget()
        return {name: _progress(known) for name, known in found.items()}

    async def training_steps(self, name: str) -> Sequence[TrainingStep]:
        job = await self._pods.job(name)
        created, steps = self._steps.get(name, (None, None))
        if steps is None or created != job.create_time:
            # A job that was deleted and created again is another one.
            steps = CollectedSteps(progress_pattern(job.progress_pattern))
            self._steps[name] = (job.create_time, steps)
        try:
            pod = await self._container(job, self._known_of(job))
            last = steps.reader.last
            since = None if last is None else int(last[0].timestamp())
            lines: list[StampedLine] = []
            if last is None and any(replica.restarts for replica in job.replicas):
                lines += await self._previous(pod)
            lines += await self._newest.last(pod, MOST_LINES, since=since)
        except NotFound:
            return steps.thinned()
        except InvalidRequest as error:
            if not _is_waiting(error):
                raise
            return steps.thinned()
        steps.add(_entries(pod, lines))
        return steps.thinned()

    def _known_of(self, job: Job) -> _Known:
        known = self._known.get(job.name)
        if known is None or known.created != job.create_time:
            pattern = progress_pattern(job.progress_pattern)
            known = self._known[job.name] = _Known(job.create_time, JobProgress(pattern))
        return known

    async def _advance(self, job: Job, known: _Known) -> BackendError | None:
        """Read the newest lines of the job's primary replica; why that could not be done."""
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
        if lines:
            known.since = max(known.since or 0, lines[-1].stamp // SECOND)
        if known.whole:
            known.first_loss = known.reader.progress.first_loss
        return None

    async def _container(self, job: Job, known: _Known) -> ContainerName:
        """The container that tells the job's progress, asked for when its pod is new. Raises NotFound."""
        shown = min((each for each in job.replicas if each.pod), key=_rank, default=None)
        if known.pod is not None and (shown is None or shown.pod == known.pod.pod):
            return known.pod
        pods = [pod for pod in await self._pods.pods(job.name, job) if pod.replica]
        if not pods:
            raise NotFound(f"{job.display_name} has no pods now.")
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
        """Users compare with it, and the newest lines do not have it."""
        assert known.pod is not None
        try:
            lines = await self._newest.last(known.pod, TAIL, most_bytes=HEAD, within=GLANCE, patience=0.0)
        except BackendError:
            # The next read asks again.
            return
        reader = JobProgress(known.reader.pattern)
        for entry in _entries(known.pod, lines):
            reader.add(entry)
        first = reader.progress.first_loss
        known.first_loss = known.reader.progress.first_loss if first is None else first

    def _forget(self) -> None:
        """Jobs that nobody has asked for in a long time."""
        limit = monotonic() - FORGET.total_seconds()
        for name in [name for name, known in self._known.items() if 0 < known.read_at < limit]:
            del self._known[name]


def _is_waiting(error: InvalidRequest) -> bool:
    """Whether a log is refused because its container has not run yet: its image is pulled, for one."""
    return "is waiting to start" in error.message


def _has_pods(job: Job) -> bool:
    return job.state not in {JobState.QUEUED, JobState.PENDING, JobState.SUSPENDED}


def _rank(replica: Replica) -> tuple[int, int]:
    return _rank_of(replica.id)


def _rank_of(replica: str) -> tuple[int, int]:
    """The order in which replicas tell the progress of a job."""
    group, _, index = replica.rpartition("-")
    known = PRIMARY.index(group) if group in PRIMARY else len(PRIMARY)
    return known, int(index) if index.isascii() and index.isdigit() else 0


def _wants_first_loss(known: _Known) -> bool:
    return known.pod is not None and known.first_loss is None and known.reader.progress.last_loss is not None


def _progress(known: _Known) -> Progress:
    progress = known.reader.progress
    if known.lost and progress.fraction != 1.0:
        # A step of some time before the end would be read as the one at which it ended.
        return NO_PROGRESS
    if known.first_loss is not None and progress.first_loss != known.first_loss:
        return replace(progress, first_loss=known.first_loss)
    return progress


def _entries(name: ContainerName, lines: Iterable[StampedLine]) -> list[LogEntry]:
    """Entries of lines in the order of the file; those of one time are counted from 0."""
    found: list[LogEntry] = []
    last, ordinal = -1, 0
    for line in lines:
        ordinal = ordinal + 1 if line.stamp == last else 0
        last = line.stamp
        found += entries_of(name, line.stamp, ordinal, line.text)
    found.sort(key=lambda entry: entry.key)
    return found
