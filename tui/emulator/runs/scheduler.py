"""Every job's coroutine, and what a user may ask of a job that runs."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from tui.emulator.database import Pb
from tui.emulator.rpc.methods import failed_precondition, invalid
from tui.emulator.runner.plan import AttemptPlan
from tui.emulator.runs.job_run import JobRun, Parts
from tui.emulator.vertex.job_table import TERMINAL, Job, State

QUICK = 2.0
"""Seconds that a cancel waits for a job without processes to be CANCELLED."""


class Scheduler:
    """Runs jobs until `close`, which leaves their runners alone."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._runs: dict[str, JobRun] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def adopt(self) -> None:
        """Take up every job that had not ended when the last server went away."""
        for job in self._parts.table.active():
            self.admit(job)

    def admit(self, job: Job) -> None:
        """Take a new or adopted job through its life."""
        job_id = job.record.id
        run = JobRun(self._parts, job)
        self._runs[job_id] = run
        task = asyncio.create_task(run.live(), name=f"job {job_id}")
        self._tasks[job_id] = task

        def forget(_: asyncio.Task[None]) -> None:
            self._tasks.pop(job_id, None)
            self._runs.pop(job_id, None)

        task.add_done_callback(forget)

    async def cancel(self, job: Job) -> None:
        """Make it CANCELLING on disk; a job without processes is CANCELLED when this returns.

        Raises:
            WireError: when the job ended meanwhile, or the request could not be stored.
        """

        def change(pb: Pb) -> None:
            if pb.state in TERMINAL:
                raise failed_precondition(
                    pb.name, f"The job {pb.name} has just ended ({State(pb.state).name})."
                )
            pb.state = State.JOB_STATE_CANCELLING

        if not job.cancelled.is_set():
            await self._parts.table.update(job, change)
            job.cancelled.set()
        run = self._runs.get(job.record.id)
        if run is not None and not run.started:
            await _within(job.ended, QUICK)

    def preempt(self, job: Job, replicas: Sequence[str]) -> Sequence[str]:
        """Take machines away, as Spot does; an empty list means all. Returns the replicas hit.

        Raises:
            WireError: when the job has no running processes, or no such replica.
        """
        run = self._runs.get(job.record.id)
        if run is None or not run.started:
            name = State(job.pb.state).name
            raise failed_precondition(
                job.record.name, f"The job {job.record.name} has no running replicas ({name})."
            )
        known = [replica.id for replica in AttemptPlan.load(run.attempt.plan).replicas]
        wrong = [name for name in replicas if name not in known]
        if wrong:
            raise invalid(("replica", f"{', '.join(wrong)}: the job has {', '.join(known)}"))
        self._parts.runner.command(run.attempt, {"do": "preempt", "replicas": list(replicas)})
        return list(replicas) or known

    async def close(self) -> None:
        """Stop watching. Runners and their replicas go on."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _within(event: asyncio.Event, wait: float) -> None:
    try:
        await asyncio.wait_for(event.wait(), wait)
    except TimeoutError:
        return
