"""All data of one job, updated while `run` runs: the job, its log, its figures and its steps."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import Flag, auto
from pathlib import Path
from time import monotonic
from typing import Any

from tui.backends.interface import BackendError, LogQuery, NotFound
from tui.domain.attempts.history import AttemptHistory
from tui.domain.attempts.milestones import Milestone
from tui.domain.core.job import Job, known_replicas, logged_replicas
from tui.domain.core.log_entry import LogEntry, LogGap
from tui.domain.core.training_progress import Progress, Silence, TrainingStep
from tui.domain.progress.pattern import progress_pattern
from tui.domain.training.training_steps import History
from tui.kinds.registry import kind_of
from tui.session import Session
from tui.store.failures import broken
from tui.store.job.data_source import DataSource
from tui.store.job.events import JobEvents
from tui.store.job.figures import JobFigures
from tui.store.job.line_facts import Lifted, LineFacts, may_tell
from tui.store.job.pending_batches import PendingBatches
from tui.store.job.series import SeriesStore
from tui.store.job.since_end import SinceEnd
from tui.store.job.training import JobTraining
from tui.store.log.read_position import OlderLines, ReadPosition, oldest_of
from tui.store.log.retention import begin_log, prune_logs, remove_logs
from tui.store.log.store import MEGABYTE, LogStore

LOG = logging.getLogger(__name__)
TICK = 0.1
RECENT = 20_000
"""Number of newest lines read before the tail starts. Older lines are read on request."""
OLDER = 5_000
SAVE_EVERY = 1.0
"""Seconds between writes of the read position."""
OVERLAP = timedelta(seconds=60)
"""Time before the newest line at which the tail starts, because entries may arrive late."""
METRICS_OVERLAP = timedelta(minutes=6)
"""Overlap of metric reads: cloud samples arrive up to five minutes late (docs/facts/vertex.md 6.3)."""
LOCAL_OVERLAP = timedelta(seconds=10)
SILENT_LOCAL, SILENT_CLOUD = timedelta(seconds=20), timedelta(seconds=150)
"""Maximum silence of a followed log. Its heartbeats are more frequent."""
ENDED_LOCAL, ENDED_CLOUD = 10.0, 60.0
"""Seconds between reads of an ended job, which another program may still delete."""
FIRST_ANSWER = 3.0
"""Seconds to wait for the job before showing the stored log, which an earlier job of that name may own."""
CAUGHT_UP = 5.0
"""Seconds of reading the log after which older lines have arrived."""
MOST_BACK_OFF = 30.0
RECALLED = 50_000
"""Number of newest lines of the stored log from which events and progress are restored."""


class Changed(Flag):
    """Changes since the last call."""

    JOB = auto()
    LOGS = auto()
    METRICS = auto()
    TRAINING_STEPS = auto()
    EVENTS = auto()
    SOURCES = auto()


@dataclass(frozen=True, slots=True)
class SpecReading:
    """The job's complete resource in REST format, or why it could not be read."""

    spec: dict[str, Any]
    problem: BackendError | None = None


class JobFeed:
    """The job, log, figures and steps of one job. `on_change` runs on the event loop; cancel `run` to
    stop."""

    def __init__(
        self,
        session: Session,
        job_name: str,
        on_change: Callable[[Changed], None] = lambda _: None,
        log_folder: Path | None = None,
    ) -> None:
        """Store the log in `log_folder`, or in a temporary folder for the lifetime of the feed."""
        self.session = session
        self.job_name = job_name
        self.job: Job | None = None
        self.gone = False
        """Whether the job was deleted or never existed."""
        self.runner_gone = False
        """Whether the job that runs this job was deleted, so that its log and figures are unreadable."""
        self._log_folder = log_folder
        room = session.settings.job_log_megabytes * MEGABYTE
        self.buffer = LogStore(log_folder, max_bytes=room, opened=False)
        self.series = SeriesStore()
        self._facts = LineFacts()
        self.older_left = False
        """Whether the service may hold lines older than the first line in the buffer."""
        self.sources = {name: DataSource(name) for name in ("job", "logs", "metrics", "steps")}
        self.sources["logs"].heartbeat = SILENT_LOCAL if self.local else SILENT_CLOUD
        self._on_change = on_change
        self._pending = PendingBatches()
        self._position = ReadPosition()
        self._save_at = 0.0
        self._since_end = SinceEnd()
        self._known = asyncio.Event()
        self._kick = {name: asyncio.Event() for name in self.sources}

    def know(self, job: Job | None, read_at: datetime | None = None) -> None:
        """Show this job until the service replies. Logs and metrics are read even without the job."""
        if self.job is None and job is not None:
            self.job = replace(job, replicas=known_replicas(job))
            self.sources["job"].listed_at = read_at
            self._known.set()

    # Facts for the screens

    @property
    def events(self) -> JobEvents:
        """Events of the job, from its log and its states."""
        return self._facts.events

    @property
    def figures(self) -> JobFigures:
        """Figures of the job, from its log."""
        return self._facts.figures

    @property
    def training(self) -> JobTraining:
        """Training progress of the job, from its log."""
        return self._facts.training

    @property
    def local(self) -> bool:
        """Whether the service runs on this machine, so that reading is cheap."""
        return self.session.backend.info.local

    @property
    def trouble(self) -> DataSource | None:
        """The first source that can't be read now."""
        return next((s for s in self.sources.values() if s.error is not None), None)

    def now(self) -> datetime:
        """Return the session's time."""
        return self.session.clock()

    def silent_for(self) -> timedelta | None:
        """Return the time since the last line of a silent log; `None` if the log is not silent."""
        return self.sources["logs"].silent_for(self.session.monotonic())

    def as_of(self, name: str = "job") -> datetime:
        """Return the time of one source's data, which stands still while the source can't be read."""
        return self.sources[name].as_of(self.now())

    @property
    def replicas(self) -> list[str]:
        """Replicas that write the log."""
        return logged_replicas(self.job) if self.job is not None else []

    @property
    def runner(self) -> str:
        """Name of the job that writes this job's log and figures: this job, or the job of its only task."""
        return self.job.runner if self.job is not None else self.job_name

    @property
    def logged_as(self) -> str:
        """Name of the job under which the log is stored."""
        return self.job.logged_as if self.job is not None else self.job_name

    @property
    def progress(self) -> Progress:
        """Progress of the training."""
        return self.training.progress

    @property
    def silence(self) -> Silence | None:
        """The running job's silence, detected in its log."""
        return replace(self.job, progress=self.progress).silence if self.job is not None else None

    @property
    def training_steps(self) -> Mapping[tuple[datetime, int], TrainingStep]:
        """Reported steps by their time and number."""
        return self.training.steps

    def samples(self) -> Sequence[TrainingStep]:
        """Return the reported steps, oldest first."""
        return self.training.samples()

    def history(self) -> History:
        """Return the steps that led to the current state, and the repeated steps."""
        return self.training.history()

    def use(self, session: Session) -> None:
        """Read through a new session. The earlier session may be closed."""
        self.session = session
        self.kick()

    def kick(self, *, failing: bool = False) -> None:
        """Read all sources now; with `failing`, only the sources that can't be read, because the service may
        be available again."""
        for name, source in self.sources.items():
            if source.error is not None or not failing:
                source.failures = 0
                self._kick[name].set()

    def attempts(self) -> AttemptHistory | None:
        """Return the job's attempts up to now; `None` while the job is unknown."""
        if self.job is None:
            return None
        return self._facts.milestones.history(self.job, self.samples(), self.as_of())

    def restarts(self) -> list[datetime]:
        """Return the times at which the job's attempts began, except the first."""
        history = self.attempts()
        return [attempt.begin for attempt in history.attempts[1:]] if history is not None else []

    @property
    def service_milestones(self) -> Sequence[Milestone]:
        """Milestones from the service's messages about the job, in any order."""
        return self._facts.milestones.of_service

    # Running

    async def run(self) -> None:
        """Read until cancelled. Failures of the service are retried, never raised."""
        async with asyncio.TaskGroup() as group:
            every = 1.0 if self.local or self.session.backend.info.watched else 10.0
            ended = ENDED_LOCAL if self.local else ENDED_CLOUD
            group.create_task(self._repeat("job", self._read_job, every, once_done=ended))
            if self.job is None:
                with suppress(TimeoutError):
                    async with asyncio.timeout(FIRST_ANSWER):
                        await self._known.wait()
            await asyncio.to_thread(self._open_log)
            if len(self.buffer):
                self._position = self.buffer.position
                self.older_left = True
                await self._recall()
            group.create_task(self._drain())
            # Which sources are read depends on the job.
            await self._known.wait()
            if self.gone:
                return
            backend, kind = self.session.backend, kind_of(self.job)
            if backend.offers("logs") and kind.has("logs"):
                group.create_task(self._repeat("logs", self._read_logs, 1.0))
            if backend.offers("progress") and kind.has("logs"):
                group.create_task(self._repeat("steps", self._read_training_steps, 1.0))
            if backend.offers("metrics") and kind.has("metrics"):
                every = 2.0 if self.local else 60.0
                group.create_task(self._repeat("metrics", self._read_metrics, every))

    def close(self) -> None:
        """Close the log. The feed is unusable afterwards."""
        self.buffer.keep_position(self._position)
        self.buffer.close()
        if self.gone and self._log_folder is not None:
            remove_logs(self._log_folder.parent.parent, self.job_name)

    def _open_log(self) -> None:
        if self._log_folder is not None and self.job is not None:
            begin_log(self._log_folder, self.job.create_time)
        self.buffer.open()
        if self._log_folder is not None:
            room = self.session.settings.all_logs_megabytes * MEGABYTE
            prune_logs(self._log_folder.parent, max_bytes=room)

    async def _recall(self) -> None:
        """Restore events and progress from the newest lines that an earlier console stored."""
        for _, lines in [*self.buffer.columns(self.buffer.end - RECALLED, self.buffer.end)]:
            lines_with_facts = [lines.line(at) for at in range(len(lines)) if may_tell(lines, at)]
            await self._facts.add([line for line in lines_with_facts if isinstance(line, LogEntry)])
            await asyncio.sleep(0)
        self._on_change(Changed.LOGS)

    async def _repeat(
        self,
        name: str,
        read: Callable[[], Awaitable[None]],
        every: float,
        *,
        once_done: float | None = None,
    ) -> None:
        """Call `read` every `every` seconds until its source is done, with exponential backoff while it
        fails.

        With `once_done`, read a source that is done every `once_done` seconds until it is deleted.
        """
        source, kick = self.sources[name], self._kick[name]
        while once_done is not None or not source.done:
            kick.clear()
            try:
                await read()
            except NotFound as error:
                if source.name != "job" and self.logged_as != self.job_name:
                    self._lost_runner(source)
                else:
                    self._failed(source, error)
                    self._lost(source)
                return
            except BackendError as error:
                self._failed(source, error)
            except Exception as error:
                # A bug in one source must not end other sources. Retry it like any other failure.
                LOG.exception("reading the %s of %s failed", name, self.job_name)
                self._failed(source, broken(error))
            else:
                self._fine(source)
            pause = every
            if source.done and not source.failures:
                if once_done is None:
                    return
                pause = once_done
            if source.failures:
                later = max(1.0, every) * 2 ** min(source.failures - 1, 6)
                pause = max(every, min(MOST_BACK_OFF, later)) * random.uniform(0.8, 1.2)
            try:
                async with asyncio.timeout(pause):
                    await kick.wait()
            except TimeoutError:
                continue

    def _failed(self, source: DataSource, error: BackendError) -> None:
        source.failures += 1
        source.failing_since = source.failing_since or self.session.clock()
        source.began_at = None
        source.error = error
        self._on_change(Changed.SOURCES)

    def _fine(self, source: DataSource) -> None:
        source.heard(self.now(), self.session.monotonic())
        if source.error is not None or source.done:
            if source.error is not None:
                # The service is back: retry the other sources now.
                self.kick(failing=True)
            source.error, source.failing_since, source.failures = None, None, 0
            self._on_change(Changed.SOURCES)

    def _lost(self, source: DataSource) -> None:
        source.done = True
        if source.name == "job":
            self.gone = True
            self._known.set()
            self._on_change(Changed.JOB)

    def _lost_runner(self, source: DataSource) -> None:
        source.error, source.failing_since, source.done = None, None, True
        self.runner_gone = True
        self._on_change(Changed.SOURCES | Changed.LOGS | Changed.METRICS)

    # The job

    async def _read_job(self) -> None:
        job = await self.session.backend.job_service(self.job_name).get(self.job_name)
        before = self.job.create_time if self.job is not None else None
        if before is not None and job.create_time not in {before, None}:
            raise NotFound(f"{job.display_name} was deleted, and another job now has its name.")
        if self.job is not None and not job.parent:
            # Only a listing of both jobs reveals the parent; the resource does not.
            job = replace(job, parent=self.job.parent)
        self._since_end.look(job)
        changed = Changed(0)
        if self.events.observe(job, self.session.clock()):
            changed |= Changed.EVENTS
        if job != self.job:
            changed |= Changed.JOB | Changed.EVENTS
        self.training.pattern = progress_pattern(job.progress_pattern)
        if self.sources["logs"].current_for(self.session.monotonic()) > CAUGHT_UP:
            before_silence = self.progress.silence
            self.training.observe(job, self.session.clock())
            changed |= Changed.TRAINING_STEPS if self.progress.silence != before_silence else Changed(0)
        self.job = job
        self._known.set()
        if changed:
            self._on_change(changed)
        # An ended job changes only by its deletion.
        self.sources["job"].done = job.state.terminal and job.end_time is not None and _settled(job)

    async def read_spec(self) -> SpecReading:
        """Read the specification from the service."""
        try:
            return SpecReading(await self.session.backend.job_service(self.job_name).spec(self.job_name))
        except BackendError as error:
            return SpecReading({}, error)

    # The log

    async def _read_logs(self) -> None:
        backend, source = self.session.backend, self.sources["logs"]
        if not self.logged_as:
            return
        if self._position.received is None:
            await self._read_recent()
        async for batch in backend.logs.tail(self._newer()):
            source.heard(self.now(), self.session.monotonic())
            if source.error is not None:
                self._fine(source)
            if batch.note is not None:
                source.note = batch.note
                self._on_change(Changed.SOURCES)
            await self._pending.put(batch)
        await self._pending.wait_until_stored()
        # The tail ends by itself only when the job has ended and everything was delivered.
        source.done = bool(self.job and self.job.state.terminal)
        if source.done:
            self._on_change(Changed.LOGS)

    def _newer(self) -> LogQuery:
        """Return the query for unread lines: by receive time, or else by the lines' own times."""
        if self._position.received is not None:
            return self._query(received=self._position.received)
        newest = self.buffer.newest
        overlap = LOCAL_OVERLAP if self.local else OVERLAP
        return self._query(since=newest - overlap if newest is not None else None)

    def _query(self, **fields: Any) -> LogQuery:
        """Return the query of this job's log, including the logs of tasks that have jobs."""
        return LogQuery(self.logged_as, tasks=bool(self.job and self.job.composite), **fields)

    async def _read_recent(self) -> None:
        count, oldest, received = 0, self._position.oldest, None
        query = self._query()
        async for batch in self.session.backend.logs.read(query, newest_first=True, limit=RECENT):
            count += len(batch.entries)
            oldest, received = oldest_of(batch.entries, oldest), batch.received
            await self._pending.put(replace(batch, received=None))
        self.older_left = count >= RECENT
        self._position = ReadPosition(None, oldest)
        # Only lines stored on disk count as read.
        await self._pending.wait_until_stored()
        self._position = replace(self._position, received=received)

    async def read_older(self) -> OlderLines:
        """Read lines older than the lines read so far. The first line's time is not a limit, because a
        replica whose clock is behind writes such lines at any time."""
        before, added, read = len(self.buffer), 0, 1
        if not before or not self.older_left or self.buffer.full:
            return OlderLines(0)
        while read and not added:
            # After a killed console, a full page may already be known.
            read, oldest = 0, self._position.oldest
            query = self._query(until=oldest)
            pages = self.session.backend.logs.read(query, newest_first=True, limit=OLDER)
            try:
                async for batch in pages:
                    await self._apply(batch.entries, batch.gaps)
                    read, oldest = read + len(batch.entries), oldest_of(batch.entries, oldest)
            except BackendError as error:
                return OlderLines(len(self.buffer) - before, error.message)
            added = len(self.buffer) - before
            read = 0 if oldest == self._position.oldest else read
            self._position = replace(self._position, oldest=oldest)
        self.older_left = added > 0
        self._on_change(Changed.LOGS)
        return OlderLines(added)

    async def _drain(self) -> None:
        """Store pending batches in the buffer, at most once per `TICK`."""
        while True:
            batches = await self._pending.take()
            entries = [entry for batch in batches for entry in batch.entries]
            await self._apply(entries, [gap for batch in batches for gap in batch.gaps])
            received = [batch.received for batch in batches if batch.received is not None]
            if received:
                self._position = replace(self._position, received=max(received))
                if monotonic() >= self._save_at:
                    self._save_at = monotonic() + SAVE_EVERY
                    self.buffer.keep_position(self._position)
            self._pending.mark_stored()
            await asyncio.sleep(TICK)

    async def _apply(self, entries: Sequence[LogEntry], gaps: Sequence[LogGap]) -> None:
        if not self.buffer.append(entries, gaps):
            return
        # Show the lines before their facts are extracted.
        self._on_change(Changed.LOGS)
        lifted = await self._facts.add(entries, gaps)
        changed = Changed.EVENTS if Lifted.EVENTS in lifted else Changed(0)
        if Lifted.TRAINING_STEPS in lifted:
            changed |= Changed.TRAINING_STEPS
        if changed:
            self._on_change(changed)

    # Training progress

    async def _read_training_steps(self) -> None:
        """Read the history that is older than the stored lines, once."""
        backend, runner = self.session.backend, self.runner
        if not runner:
            return
        progress = None
        if self.job is not None:
            # Read progress first, because it reveals whether the job has structured lines or its own pattern.
            progress = (await backend.progress.read([self.job.as_runner()])).get(runner)
            self._facts.milestones.add(await backend.progress.milestones(self.job.as_runner()))
        self.training.merge(await backend.progress.training_steps(runner), progress)
        self.sources["steps"].done = True
        self._on_change(Changed.TRAINING_STEPS)

    # Figures

    async def _read_metrics(self) -> None:
        if not self.runner:
            return
        newest = self.series.newest
        overlap = LOCAL_OVERLAP if self.local else METRICS_OVERLAP
        # After a clock was set back, samples may be in the future.
        since = min(newest, self.now()) - overlap if newest else None
        reading = await self.session.backend.metrics.read(self.runner, since=since)
        self.series.add(reading)
        self.figures.add_reading(reading, local=self.local)
        self._on_change(Changed.METRICS)
        if self.job is not None and self.job.state.terminal:
            over = self._since_end.seconds(self.job, self.now(), self.session.monotonic())
            self.sources["metrics"].done = over > overlap.total_seconds()


def _settled(job: Job) -> bool:
    # The error of a failed job is filled in about a minute after its end (docs/facts/vertex.md 1.2).
    return job.error is not None or job.state.value != "FAILED"
