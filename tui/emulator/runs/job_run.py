"""The lifecycle of one job in one coroutine: QUEUED, PENDING, RUNNING, its restarts, its end.

Every decision is on disk before it takes effect, so the next server can resume the job at any point. During a
restart the native state is PENDING, as during the first provisioning; Vertex does not document this state.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from google.protobuf import duration_pb2
from google.rpc import code_pb2, status_pb2

from tui.emulator.config import EmulatorConfig
from tui.emulator.database import StorageFull
from tui.emulator.faults import clock
from tui.emulator.faults.scarcity import ActiveScarcity
from tui.emulator.interfaces import Runner
from tui.emulator.logging.ingest import LogCollector
from tui.emulator.messages import Pb, current_time
from tui.emulator.paths import AttemptDir, StateDir
from tui.emulator.resources.capacity import Capacity
from tui.emulator.rpc.methods import WireError
from tui.emulator.runner.plan import AttemptPlan, AttemptStatus
from tui.emulator.runs import environment
from tui.emulator.runs.exit_text import exit_text
from tui.emulator.runs.images import CannotRun
from tui.emulator.runs.job_runs import first_of
from tui.emulator.runs.ports import NoPorts, Ports
from tui.emulator.runs.restart_policy import CANCELLED, EXPIRED, AttemptContext, EndOfAttempt, Restart, decide
from tui.emulator.services.check_faults import ActiveCheckFaults
from tui.emulator.shells.access_uris import access_uris
from tui.emulator.vertex.job_table import CustomJob, CustomJobTable, State
from tui.emulator.vertex.quota import TrainingQuotas, demand, describe_lack, strategy

log = logging.getLogger(__name__)

POLL_SECONDS = 0.1
"""Time between reads of a runner's record, in seconds."""
RUNNER_EXIT_SECONDS = 10.0
"""Maximum wait for a runner to exit after it recorded its outcome, in seconds."""
DRAIN_SECONDS = 120.0
"""Maximum wait until a job's last output is stored, in seconds."""
DEFAULT_TIMEOUT = 7 * 86400.0
DEFAULT_MAX_WAIT = 86400.0
"""Default seconds of scheduling.timeout and of Flex-start's max_wait_duration (docs/facts/vertex.md 1.6)."""

# The service's messages in their order (docs/facts/vertex.md 5.1 and 16).
_PROVISIONING = (
    "Waiting for job to be provisioned.",
    "Vertex AI is provisioning job running framework. First time usage might take couple of minutes, "
    "and subsequent runs can be much faster.",
)
_SETTING_UP = "Vertex AI is setting up this job."
_STARTING = ("Waiting for training program to start.", "Job is preparing.")
_RUNNING = "Job is running."
_TEARING_DOWN = ("Tearing down training program.", "Finished tearing down training program.")
_ENDS = {
    State.JOB_STATE_SUCCEEDED: "Job completed successfully.",
    State.JOB_STATE_FAILED: "Job failed.",
}


@dataclass(frozen=True, slots=True)
class Dependencies:
    """The parts of the emulator that a running job uses."""

    state: StateDir
    config: EmulatorConfig
    table: CustomJobTable
    quotas: TrainingQuotas
    capacity: Capacity
    ports: Ports
    runner: Runner
    sink: LogCollector
    checks: ActiveCheckFaults
    scarcity: ActiveScarcity = field(default_factory=ActiveScarcity)


def seconds(duration: duration_pb2.Duration) -> float:
    return float(duration.seconds + duration.nanos / 1e9)


class JobRun:
    """Runs one job from its current state to its end."""

    def __init__(self, deps: Dependencies, job: CustomJob) -> None:
        self._deps = deps
        self.job = job
        self.started = False
        """Whether a runner was started for the current attempt."""
        self._running_since = 0.0
        """Time of the last "Job is running." in the log."""
        self._started_at: float | None = None
        """Monotonic time of the first attempt's start in seconds, because the wall clock may be set in
        between."""
        if job.pb.HasField("start_time"):
            age = clock.time() - job.pb.start_time.ToNanoseconds() / 1e9
            self._started_at = time.monotonic() - max(0.0, age)

    @property
    def attempt(self) -> AttemptDir:
        return self._deps.state.attempt(self.job.record.id, self.job.control.attempt)

    async def run(self) -> None:
        """Return when the job has ended."""
        try:
            end = await self._run_attempts()
        except Exception:
            log.exception("job %s", self.job.record.name)
            self._stop_runner()
            end = EndOfAttempt(
                State.JOB_STATE_FAILED,
                code_pb2.INTERNAL,
                "Internal error: the emulator failed on this job; `vxtui emulator logs` shows the reason.",
            )
        await self._end(end)
        self._deps.ports.release(self.job.record.id)
        self._deps.quotas.release(self.job)
        self._deps.capacity.release(self.job)
        # The check reaps the ended process, which otherwise stays a zombie.
        for _ in range(round(RUNNER_EXIT_SECONDS / POLL_SECONDS)):
            if not self._deps.runner.alive(self.attempt):
                return
            await asyncio.sleep(POLL_SECONDS)

    async def _run_attempts(self) -> EndOfAttempt:
        if self.job.pb.state == State.JOB_STATE_QUEUED:
            early = await self._queue()
            if early is not None:
                return early
        else:
            self._deps.quotas.hold(self.job)
        if self.job.pb.job_spec.persistent_resource_id and not await self._take_replicas():
            return CANCELLED
        while True:
            decision = await self._run_attempt()
            if isinstance(decision, EndOfAttempt):
                return decision
            await self._restart(decision)

    async def _queue(self) -> EndOfAttempt | None:
        job, quotas = self.job, self._deps.quotas
        refusal = quotas.refusal(job.record.location, job.pb)
        refusal = refusal or self._deps.scarcity.quota_error(demand(job.pb))
        if refusal:
            return EndOfAttempt(State.JOB_STATE_FAILED, code_pb2.RESOURCE_EXHAUSTED, refusal)
        granted = quotas.queue(job)
        if not granted.is_set():
            lacking = quotas.lacking(job)
            if lacking:
                await self._log_once(describe_lack(lacking, job.record.location), "WARNING")
        await first_of(granted.wait(), job.cancelled.wait(), within=self._longest_wait())
        if job.cancelled.is_set():
            return CANCELLED
        if not granted.is_set():
            return EXPIRED
        await self._store(_to_pending)
        return None

    async def _take_replicas(self) -> bool:
        """Wait for replicas of the persistent resource. Return False when the job is cancelled first."""
        job = self.job
        granted = self._deps.capacity.queue(job)
        if granted.is_set():
            return True
        resource = job.pb.job_spec.persistent_resource_id
        await self._log_once(f"The job waits for replicas of the persistent resource {resource}.")
        await first_of(granted.wait(), job.cancelled.wait())
        return granted.is_set()

    def _longest_wait(self) -> float | None:
        """Return the longest time in the queue: Flex-start jobs are documented to expire there."""
        pb = self.job.pb
        if strategy(pb) != "FLEX_START":
            return None
        scheduling = pb.job_spec.scheduling
        limited = scheduling.HasField("max_wait_duration")
        limit = seconds(scheduling.max_wait_duration) if limited else DEFAULT_MAX_WAIT
        return max(0.0, pb.create_time.seconds + limit - clock.time()) if limit else None

    async def _run_attempt(self) -> EndOfAttempt | Restart:
        if await self._adopt():
            self._watch([r.id for r in AttemptPlan.load(self.attempt.plan).replicas])
        else:
            early = await self._begin()
            if early is not None:
                return early
        self.started = True
        status = await self._follow()
        await self._drain()
        pb, control = self.job.pb, self.job.control
        context = AttemptContext(
            self._exit_text,
            spot=strategy(pb) == "SPOT",
            disable_retries=pb.job_spec.scheduling.disable_retries,
            cancelling=self.job.cancelled.is_set(),
            timeout=self._timeout(),
            control=control,
        )
        # The message of a failure needs the replica's output.
        return await asyncio.to_thread(decide, status, context)

    def _exit_text(self, status: AttemptStatus) -> str:
        return exit_text(status, self.attempt, self.job.record)

    async def _adopt(self) -> bool:
        """Return whether an earlier server started a runner for this attempt."""
        if not self.attempt.plan.exists():
            return False
        control = self.job.control
        self._deps.ports.hold(self.job.record.id, control.port, control.ports)
        # A runner that has just started has written nothing yet. If there is no runner, the job skips this
        # attempt's number: two runners must never use the same directory.
        while not self.attempt.database.exists():
            if self._deps.runner.status(self.attempt).outcome == "lost":
                await self._store(None, attempt=control.attempt + 1, events=0)
                return False
            await asyncio.sleep(POLL_SECONDS)
        return True

    async def _begin(self) -> EndOfAttempt | None:
        """Provision, plan, start the runner. Return an `EndOfAttempt` after a failure or cancellation."""
        deps, job = self._deps, self.job
        for text in _PROVISIONING:
            await self._log_once(text)
        # Machines of a persistent resource exist already, except those that an autoscaled pool adds.
        waits = not job.pb.job_spec.persistent_resource_id or deps.capacity.grew(job)
        if waits:
            ended = await self._provision()
            if ended is not None:
                return ended
        await self._log_once(_SETTING_UP)
        try:
            ports = deps.ports.take(job.record.id, environment.ports_needed(job.pb))
            await self._store(None, port=ports.start, ports=len(ports))
            self.attempt.root.mkdir(parents=True, exist_ok=True)
            plan = environment.build_plan(
                job.pb, job.record, job.control.attempt, self.attempt, deps.state, deps.config, ports
            )
            for text in _STARTING:
                await self._log_once(text)
            if job.cancelled.is_set():
                return CANCELLED
            deps.runner.start(self.attempt, replace(plan, timeout=self._time_left()))
        except (CannotRun, NoPorts) as error:
            return EndOfAttempt(State.JOB_STATE_FAILED, code_pb2.FAILED_PRECONDITION, str(error))
        except OSError as error:
            return EndOfAttempt(
                State.JOB_STATE_FAILED, code_pb2.INTERNAL, f"The job could not be started: {error}"
            )
        self._watch([replica.id for replica in plan.replicas])
        return None

    def _watch(self, replicas: Sequence[str]) -> None:
        """Log the replicas' output, unless the job's account may not write logs (docs/facts/vertex.md 16)."""
        if not self._deps.checks.denies("logging.logEntries.create"):
            self._deps.sink.watch(self.job.record, self.attempt, replicas)

    async def _provision(self) -> EndOfAttempt | None:
        """Wait for machines; a Flex-start job waits as long as a stockout lasts."""
        deps, pb = self._deps, self.job.pb
        scarcity = deps.scarcity
        longest = self._longest_wait()
        until = None if longest is None else time.monotonic() + longest
        while until is not None and scarcity.current.stockout:
            if await self._cancelled_within(POLL_SECONDS):
                return CANCELLED
            if time.monotonic() >= until:
                return EXPIRED
        if await self._cancelled_within(deps.config.provisioning_seconds + scarcity.current.delay):
            return CANCELLED
        image = pb.job_spec.worker_pool_specs[0].container_spec.image_uri
        error = scarcity.provisioning_error(self.job.record.location, image)
        return error and EndOfAttempt(State.JOB_STATE_FAILED, *error)

    def _timeout(self) -> float:
        scheduling = self.job.pb.job_spec.scheduling
        return seconds(scheduling.timeout) if scheduling.HasField("timeout") else DEFAULT_TIMEOUT

    def _time_left(self) -> float:
        """Return the remaining time of the job's timeout, which covers all attempts."""
        if self._started_at is None:
            return self._timeout()
        return max(0.1, self._timeout() - (time.monotonic() - self._started_at))

    async def _follow(self) -> AttemptStatus:
        """Watch the runner until it has recorded an outcome."""
        stop_sent = False
        while True:
            read_at = time.time()
            status = self._deps.runner.status(self.attempt)
            up = bool(status.replicas) and all(r.state != "starting" for r in status.replicas)
            # A replica's event can be recorded before the replica's state.
            begun = up or status.outcome is not None or bool(status.events)
            if begun and self.job.pb.state == State.JOB_STATE_PENDING:
                await self._store(self._to_running)
                if self._started_at is None:
                    self._started_at = time.monotonic()
                # A replica may have ended before this read, and "Job is running." must precede its events by
                # two microseconds, because the log rounds to full microseconds. A replica may also end while
                # the state is being stored, so the time of the read is the latest possible time.
                first = min((at for at, _, _ in status.events), default=read_at)
                self._running_since = min(first - 2e-6, read_at)
                await self._log(_RUNNING, at=self._running_since)
            await self._forward(status)
            if status.outcome is not None:
                return status
            if self.job.cancelled.is_set():
                if not stop_sent:
                    stop_sent = self._stop_runner()
                await asyncio.sleep(POLL_SECONDS)
            else:
                await self._cancelled_within(POLL_SECONDS)

    def _to_running(self, pb: Pb) -> None:
        if pb.state != State.JOB_STATE_PENDING:
            return
        pb.state = State.JOB_STATE_RUNNING
        if not pb.HasField("start_time"):
            pb.start_time.CopyFrom(current_time())
        control = self.job.control
        pb.web_access_uris.update(access_uris(pb, range(control.port, control.port + control.ports)))

    def _stop_runner(self) -> bool:
        try:
            if self.attempt.plan.exists():
                self._deps.runner.command(self.attempt, {"do": "stop", "reason": "cancel"})
        except OSError as error:
            log.warning("can't stop the runner of %s: %s", self.job.record.name, error)
            return False
        return True

    async def _forward(self, status: AttemptStatus) -> None:
        """Log the runner's new events, each once unless the server crashes in between."""
        known = self.job.control.events
        for at, source, text in status.events[known:]:
            # An event may be older than the last read but must follow "Job is running."
            message = text if source == "service" else f"{source}: {text}"
            await self._log(message, at=max(at, self._running_since + 2e-6))
        if len(status.events) > known:
            await self._store(None, events=len(status.events))

    async def _restart(self, restart: Restart) -> None:
        control = self.job.control
        self.started = False
        await self._log(restart.reason, "ERROR")
        await self._store(
            _to_pending,
            attempt=control.attempt + 1,
            preemptions=restart.preemptions,
            crashes=restart.crashes,
            events=0,
        )
        await self._log(f"The job restarts: attempt {self.job.control.attempt}.", "WARNING")
        await self._cancelled_within(self._deps.config.restart_delay_seconds)

    async def _end(self, end: EndOfAttempt) -> None:
        # A client that reads the end of the job must find the complete log, so the state is stored last.
        await self._drain()
        labels = {
            "ml.googleapis.com/endpoint": "",
            "ml.googleapis.com/job_state": State(end.state).name.removeprefix("JOB_STATE_"),
        }
        if end.message:
            await self._log(end.message, "INFO" if end.code == code_pb2.CANCELLED else "ERROR")
        if end.state in _ENDS:
            for text in _TEARING_DOWN:
                await self._log(text)
            await asyncio.sleep(self._deps.config.end_delay_seconds)
            await self._log(_ENDS[end.state], labels=labels)

        def change(pb: Pb) -> None:
            pb.state = end.state
            pb.end_time.CopyFrom(current_time())
            if end.code:
                pb.error.CopyFrom(status_pb2.Status(code=end.code, message=end.message))

        await self._store(change)

    async def _drain(self) -> None:
        try:
            async with asyncio.timeout(DRAIN_SECONDS):
                await self._deps.sink.drain(self.job.record)
        except TimeoutError:
            log.error("the output of %s was not stored within %g s", self.job.record.name, DRAIN_SECONDS)
        except (OSError, sqlite3.Error, WireError) as error:
            log.error("the output of %s could not be stored: %s", self.job.record.name, error)

    async def _log(
        self,
        text: str,
        severity: str = "INFO",
        at: float | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> None:
        try:
            await self._deps.sink.service_message(self.job.record, text, severity, at, labels)
        except (OSError, sqlite3.Error, WireError) as error:
            log.error("the log of %s could not be written: %s", self.job.record.name, error)

    async def _log_once(self, text: str, severity: str = "INFO") -> None:
        """Log a text once per attempt, even when several servers prepare the attempt."""
        file, line = self.attempt.messages, " ".join(text.split())
        try:
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if file.exists() and line in file.read_text().splitlines():
                return
            with file.open("a") as messages:
                messages.write(line + "\n")
        except OSError as error:
            log.error("%s could not be written: %s", file, error)
        await self._log(text, severity)

    async def _store(self, change: Callable[[Pb], None] | None, **control: int) -> None:
        await store_with_retry(
            lambda: self._deps.table.update(self.job, change, **control), self.job.record.name
        )

    async def _cancelled_within(self, wait: float) -> bool:
        try:
            async with asyncio.timeout(wait):
                await self.job.cancelled.wait()
        except TimeoutError:
            return False
        return True


async def store_with_retry(store: Callable[[], Awaitable[None]], name: str) -> None:
    """Call `store` until it succeeds. `name` is the resource in the log. A full disk does not stop a job."""
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
