"""Starts the runs of schedules when they are due.

A run's pipeline job is stored together with the change of its schedule (its count, its next run). Therefore,
a server that is killed at any point neither loses nor duplicates a run.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from time import monotonic

from google.rpc import code_pb2

from tui.emulator.database import Change, StorageFull
from tui.emulator.experiments.kinds import SCHEDULE
from tui.emulator.experiments.resource_service import touched
from tui.emulator.experiments.store import ResourceStore
from tui.emulator.messages import Pb, copied, timestamp
from tui.emulator.pipelines.service import PipelineServer
from tui.emulator.pipelines.table import ScheduledRun
from tui.emulator.rpc.methods import WireError, internal
from tui.emulator.schedules.due import (
    Complete,
    Skip,
    Start,
    State,
    WaitUntil,
    next_step,
    seconds,
    set_next,
    spent,
)

log = logging.getLogger(__name__)

POLL_SECONDS = 0.5
"""Seconds between checks while a schedule is active: in the meantime, a clock may be set or a queued run may
become ready."""
AFTER_ERROR_SECONDS = 60.0
"""Seconds before the next check of a schedule on which the emulator itself failed."""
STARTED = "OK"
"""Response of a started run."""


class ScheduleRuns:
    """Runs every schedule from `start` until `close`. `now` returns seconds since the epoch.

    A caller that changes a schedule holds `lock`, and calls `changed` afterwards.
    """

    def __init__(
        self,
        store: ResourceStore,
        pipelines: PipelineServer,
        active_runs: Callable[[str], int],
        now: Callable[[], float],
    ) -> None:
        self._store, self._pipelines, self._active_runs = store, pipelines, active_runs
        self.now = now
        self.lock = asyncio.Lock()
        self._woken = asyncio.Event()
        self._not_before: dict[str, float] = {}
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start in the background."""
        self._task = asyncio.create_task(self._run(), name="schedules")

    def changed(self) -> None:
        """Check the schedules again."""
        self._woken.set()

    async def close(self) -> None:
        """Stop. Started runs continue."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            self._woken.clear()
            busy = False
            for schedule in self._store.all(SCHEDULE):
                if monotonic() < self._not_before.get(schedule.name, 0.0):
                    continue
                try:
                    busy |= await self.step(schedule.name)
                except Exception:
                    log.exception("schedule %s", schedule.name)
                    self._not_before[schedule.name] = monotonic() + AFTER_ERROR_SECONDS
            if busy:
                continue
            active = any(schedule.state == State.ACTIVE for schedule in self._store.all(SCHEDULE))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(POLL_SECONDS if active else None):
                    await self._woken.wait()

    async def step(self, name: str) -> bool:
        """Perform the next step of one schedule. Return whether there was one."""
        async with self.lock:
            schedule = self._store.get(name)
            if schedule is None:
                return False
            step = next_step(schedule, self.now(), self._active_runs(name))
            if isinstance(step, WaitUntil):
                return False
            try:
                await self._make(schedule, step)
            except StorageFull as error:
                # No data was written, so the next check tries again.
                log.warning("schedule %s: %s", name, error.message)
                return False
            return True

    async def _make(self, schedule: Pb, step: Start | Skip | Complete) -> None:
        pb = copied(schedule)
        if isinstance(step, Complete):
            pb.state = State.COMPLETED
        elif isinstance(step, Skip):
            if step.because:
                _respond(pb, seconds(pb.next_run_time), step.because)
            set_next(pb, step.after)
        else:
            await self._start(schedule, step.due)
            return
        await self._store.put(touched(pb))

    async def _start(self, schedule: Pb, due: float) -> None:
        run = ScheduledRun(schedule.name, due, self._after(schedule, due, STARTED))
        try:
            await self._pipelines.create_scheduled(schedule.create_pipeline_job_request, run)
        except StorageFull:
            raise
        except WireError as error:
            await self._refuse(schedule, due, error)
        except Exception:
            log.exception("a run of %s", schedule.name)
            await self._refuse(schedule, due, internal())

    async def _refuse(self, schedule: Pb, due: float, error: WireError) -> None:
        log.warning("schedule %s: a run was refused: %s", schedule.name, error.message)
        change = self._after(schedule, due, f"{code_pb2.Code.Name(error.code)}: {error.message}")
        await self._store.make(change)

    def _after(self, schedule: Pb, due: float, response: str) -> Change:
        """Prepare the change of a schedule after a run."""
        pb = copied(schedule)
        pb.started_run_count += response == STARTED
        _respond(pb, due, response)
        set_next(pb, due)
        if spent(pb):
            pb.state = State.COMPLETED
        return self._store.change([touched(pb)])


def _respond(pb: Pb, due: float, response: str) -> None:
    pb.last_scheduled_run_response.scheduled_run_time.CopyFrom(timestamp(due))
    pb.last_scheduled_run_response.run_response = response
