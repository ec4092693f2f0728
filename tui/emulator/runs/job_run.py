"""One job's life: QUEUED, PENDING, RUNNING, its restarts, its end. One coroutine each.

Everything it must remember is on disk before it acts on it, so a server that died anywhere in here can
take up the job again. During a restart the native state is PENDING, as for a first provisioning; what
Vertex shows then is not documented.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from google.protobuf import duration_pb2
from google.rpc import code_pb2, status_pb2

from tui.emulator.config import EmulatorConfig
from tui.emulator.database import Pb, StorageFull
from tui.emulator.interfaces import JobRecord, LogSink, Runner
from tui.emulator.paths import AttemptDir, StateDir
from tui.emulator.rpc.methods import WireError
from tui.emulator.runner.plan import AttemptPlan, AttemptStatus
from tui.emulator.runs.images import CannotRun
from tui.emulator.runs.ports import NoPorts, Ports
from tui.emulator.runs.restart_policy import CANCELLED, Circumstances, End, Restart, judge
from tui.emulator.vertex.job_table import Job, JobTable, State
from tui.emulator.vertex.quota import Quotas, describe_lack, strategy
from tui.emulator.vertex.resource_table import timestamp

log = logging.getLogger(__name__)

POLL = 0.1
"""Seconds between two looks at a runner's record."""
LEAVE = 10.0
"""Seconds that a runner has to go once it has recorded its outcome."""
DRAIN = 120.0
"""Longest wait for a job's last output to be stored, in seconds."""
DEFAULT_TIMEOUT = 7 * 86400.0
DEFAULT_MAX_WAIT = 86400.0
"""Seconds: scheduling.timeout, and max_wait_duration of Flex-start (vertex facts 1.6)."""

# What the service writes, in its order (vertex facts 5.1).
_PROVISIONING = (
    "Waiting for job to be provisioned.",
    "Vertex AI is provisioning job running framework. First time usage might take couple of minutes, "
    "and subsequent runs can be much faster.",
)
_SETTING_UP = "Vertex AI is setting up this job."
_STARTING = ("Waiting for training program to start.", "Job is preparing.")
_RUNNING = "Job is running."
_SUCCEEDED = "Job completed successfully."


class Planner(Protocol):
    """Turns a job's resource into what to run."""

    def ports_needed(self, job: Pb) -> int: ...

    def build_plan(  # noqa: PLR0917
        self,
        job: Pb,
        record: JobRecord,
        attempt: int,
        attempt_dir: AttemptDir,
        state: StateDir,
        config: EmulatorConfig,
        ports: Sequence[int],
    ) -> AttemptPlan:
        """Raises CannotRun."""


@dataclass(frozen=True, slots=True)
class Parts:
    """What every job's life needs."""

    state: StateDir
    config: EmulatorConfig
    table: JobTable
    quotas: Quotas
    ports: Ports
    runner: Runner
    sink: LogSink
    planner: Planner


def seconds(duration: duration_pb2.Duration) -> float:
    return float(duration.seconds + duration.nanos / 1e9)


class JobRun:
    """Takes one job from where it stands to its end."""

    def __init__(self, parts: Parts, job: Job) -> None:
        self._parts = parts
        self.job = job
        self.started = False
        """A runner was started for the present attempt."""
        self._ran = 0.0
        """Date of the last word that the job runs."""

    @property
    def attempt(self) -> AttemptDir:
        return self._parts.state.attempt(self.job.record.id, self.job.control.attempt)

    async def live(self) -> None:
        """Return when the job has ended, and not before."""
        try:
            verdict = await self._verdict()
        except Exception:
            log.exception("job %s", self.job.record.name)
            self._tell_runner_to_stop()
            verdict = End(
                State.JOB_STATE_FAILED,
                code_pb2.INTERNAL,
                "Internal error: the emulator failed on this job; `vxtui emulator logs` has the reason.",
            )
        await self._end(verdict)
        self._parts.ports.release(self.job.record.id)
        self._parts.quotas.release(self.job)
        # Asking is what collects the ended process; otherwise it stays behind as a zombie.
        for _ in range(round(LEAVE / POLL)):
            if not self._parts.runner.alive(self.attempt):
                return
            await asyncio.sleep(POLL)

    async def _verdict(self) -> End:
        if self.job.pb.state == State.JOB_STATE_QUEUED:
            early = await self._queue()
            if early is not None:
                return early
        else:
            self._parts.quotas.hold(self.job)
        while True:
            verdict = await self._run_attempt()
            if isinstance(verdict, End):
                return verdict
            await self._restart(verdict)

    async def _queue(self) -> End | None:
        job, quotas = self.job, self._parts.quotas
        granted = quotas.queue(job)
        if not granted.is_set():
            lacking = quotas.lacking(job)
            if lacking:
                await self._say(describe_lack(lacking, job.record.location), "WARNING")
        waits = [asyncio.ensure_future(e.wait()) for e in (granted, job.cancelled)]
        try:
            await asyncio.wait(waits, timeout=self._longest_wait(), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        if job.cancelled.is_set():
            return CANCELLED
        if not granted.is_set():
            return End(
                State.JOB_STATE_EXPIRED,
                code_pb2.DEADLINE_EXCEEDED,
                "No machines were found within scheduling.max_wait_duration.",
            )
        await self._store(_to_pending)
        return None

    def _longest_wait(self) -> float | None:
        """Flex-start jobs expire in the queue; what state Vertex gives them then is not documented."""
        pb = self.job.pb
        if strategy(pb) != "FLEX_START":
            return None
        scheduling = pb.job_spec.scheduling
        given = scheduling.HasField("max_wait_duration")
        limit = seconds(scheduling.max_wait_duration) if given else DEFAULT_MAX_WAIT
        return max(0.0, pb.create_time.seconds + limit - time.time()) if limit else None

    async def _run_attempt(self) -> End | Restart:
        if await self._adopt():
            replicas = [r.id for r in AttemptPlan.load(self.attempt.plan).replicas]
            self._parts.sink.watch(self.job.record, self.attempt, replicas)
        else:
            early = await self._begin()
            if early is not None:
                return early
        self.started = True
        status = await self._follow()
        await self._drain()
        pb, control = self.job.pb, self.job.control
        return judge(
            status,
            Circumstances(
                self.job.record.id,
                spot=strategy(pb) == "SPOT",
                disable_retries=pb.job_spec.scheduling.disable_retries,
                cancelling=self.job.cancelled.is_set(),
                timeout=self._timeout(),
                control=control,
            ),
        )

    async def _adopt(self) -> bool:
        """Whether this attempt has a runner already, started before this server was."""
        if not self.attempt.plan.exists():
            return False
        control = self.job.control
        self._parts.ports.hold(self.job.record.id, control.port, control.ports)
        # A runner that was only just started has written nothing yet. If none ever came, the attempt's
        # number is given up: two runners must never meet in one directory.
        while not self.attempt.database.exists():
            if self._parts.runner.status(self.attempt).outcome == "lost":
                await self._store(None, attempt=control.attempt + 1, events=0)
                return False
            await asyncio.sleep(POLL)
        return True

    async def _begin(self) -> End | None:
        """Provision, plan, start the runner. An `End` when it does not come to that."""
        parts, job = self._parts, self.job
        for text in _PROVISIONING:
            await self._say(text)
        if await self._cancelled_within(parts.config.provisioning_seconds):
            return CANCELLED
        await self._say(_SETTING_UP)
        try:
            ports = parts.ports.take(job.record.id, parts.planner.ports_needed(job.pb))
            await self._store(None, port=ports.start, ports=len(ports))
            self.attempt.root.mkdir(parents=True, exist_ok=True)
            plan = parts.planner.build_plan(
                job.pb, job.record, job.control.attempt, self.attempt, parts.state, parts.config, ports
            )
            for text in _STARTING:
                await self._say(text)
            if job.cancelled.is_set():
                return CANCELLED
            parts.runner.start(self.attempt, replace(plan, timeout=self._time_left()))
        except (CannotRun, NoPorts) as error:
            return End(State.JOB_STATE_FAILED, code_pb2.FAILED_PRECONDITION, str(error))
        except OSError as error:
            return End(State.JOB_STATE_FAILED, code_pb2.INTERNAL, f"The job could not be started: {error}")
        parts.sink.watch(job.record, self.attempt, [r.id for r in plan.replicas])
        return None

    def _timeout(self) -> float:
        scheduling = self.job.pb.job_spec.scheduling
        return seconds(scheduling.timeout) if scheduling.HasField("timeout") else DEFAULT_TIMEOUT

    def _time_left(self) -> float:
        """The timeout is the whole job's: a later attempt has what the earlier ones left."""
        if not self.job.pb.HasField("start_time"):
            return self._timeout()
        return max(0.1, float(self._timeout() - time.time() + self.job.pb.start_time.ToNanoseconds() / 1e9))

    async def _follow(self) -> AttemptStatus:
        """Watch the runner until it has recorded an outcome."""
        told = False
        while True:
            looked = time.time()
            status = self._parts.runner.status(self.attempt)
            up = bool(status.replicas) and all(r.state != "starting" for r in status.replicas)
            # What is told of a replica can be on record before the replica's own state is.
            begun = up or status.outcome is not None or bool(status.events)
            if begun and self.job.pb.state == State.JOB_STATE_PENDING:
                await self._store(_to_running)
                # A replica may have died before we looked; it was running all the same, and that came first:
                # by two microseconds, as one would be lost where the log rounds to whole ones.
                # And it may die while its state is being stored: the time of the look counts.
                first = min((at for at, _, _ in status.events), default=looked)
                self._ran = min(first - 2e-6, looked)
                await self._say(_RUNNING, at=self._ran)
            await self._forward(status)
            if status.outcome is not None:
                return status
            if self.job.cancelled.is_set():
                if not told:
                    told = self._tell_runner_to_stop()
                await asyncio.sleep(POLL)
            else:
                await self._cancelled_within(POLL)

    def _tell_runner_to_stop(self) -> bool:
        try:
            if self.attempt.plan.exists():
                self._parts.runner.command(self.attempt, {"do": "stop", "reason": "cancel"})
        except OSError as error:
            log.warning("can't tell the runner of %s to stop: %s", self.job.record.name, error)
            return False
        return True

    async def _forward(self, status: AttemptStatus) -> None:
        """Write what the runner reported since the last look; once each, but for a crash in between."""
        known = self.job.control.events
        for at, who, text in status.events[known:]:
            # Dated before we looked, on record only after it: still, the job was running.
            words = text if who == "service" else f"{who}: {text}"
            await self._say(words, at=max(at, self._ran + 2e-6))
        if len(status.events) > known:
            await self._store(None, events=len(status.events))

    async def _restart(self, verdict: Restart) -> None:
        control = self.job.control
        self.started = False
        await self._say(verdict.why, "ERROR")
        await self._store(
            _to_pending,
            attempt=control.attempt + 1,
            preemptions=verdict.preemptions,
            crashes=verdict.crashes,
            events=0,
        )
        await self._say(f"The job is restarted: attempt {self.job.control.attempt}.", "WARNING")
        await self._cancelled_within(self._parts.config.restart_delay_seconds)

    async def _end(self, end: End) -> None:
        # A client that sees the end must find the whole log: the state comes last.
        await self._drain()
        if end.state == State.JOB_STATE_SUCCEEDED:
            await self._say(_SUCCEEDED)
        else:
            await self._say(end.message, "INFO" if end.code == code_pb2.CANCELLED else "ERROR")

        def change(pb: Pb) -> None:
            pb.state = end.state
            pb.end_time.CopyFrom(timestamp(time.time()))
            if end.code:
                pb.error.CopyFrom(status_pb2.Status(code=end.code, message=end.message))

        await self._store(change)

    async def _drain(self) -> None:
        try:
            await asyncio.wait_for(self._parts.sink.drain(self.job.record), DRAIN)
        except TimeoutError:
            log.error("the output of %s was not stored within %g s", self.job.record.name, DRAIN)
        except (OSError, sqlite3.Error, WireError) as error:
            log.error("the output of %s could not be stored: %s", self.job.record.name, error)

    async def _say(self, text: str, severity: str = "INFO", at: float | None = None) -> None:
        try:
            await self._parts.sink.service_message(self.job.record, text, severity, at)
        except (OSError, sqlite3.Error, WireError) as error:
            log.error("the log of %s could not be written: %s", self.job.record.name, error)

    async def _store(self, change: Callable[[Pb], None] | None, **control: int) -> None:
        await store_at_last(
            lambda: self._parts.table.update(self.job, change, **control), self.job.record.name
        )

    async def _cancelled_within(self, wait: float) -> bool:
        try:
            await asyncio.wait_for(self.job.cancelled.wait(), wait)
        except TimeoutError:
            return False
        return True


async def store_at_last(store: Callable[[], Awaitable[None]], name: str) -> None:
    """Call `store` until it succeeds: on a full disk the work of `name` goes on all the same."""
    pause = 0.5
    while True:
        try:
            return await store()
        except StorageFull as error:
            log.error("%s: %s", name, error.message)
            await asyncio.sleep(pause)
            pause = min(pause * 2, 10.0)


def _to_pending(pb: Pb) -> None:
    if pb.state != State.JOB_STATE_CANCELLING:
        pb.state = State.JOB_STATE_PENDING


def _to_running(pb: Pb) -> None:
    if pb.state != State.JOB_STATE_PENDING:
        return
    pb.state = State.JOB_STATE_RUNNING
    if not pb.HasField("start_time"):
        pb.start_time.CopyFrom(timestamp(time.time()))
