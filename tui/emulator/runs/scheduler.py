"""Runs custom jobs, each in a coroutine; cancels and preempts them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial

from tui.emulator.rpc.methods import failed_precondition, invalid
from tui.emulator.runner.plan import AttemptPlan
from tui.emulator.runs.job_run import Dependencies, JobRun
from tui.emulator.runs.job_runs import request_end
from tui.emulator.vertex.job_table import CustomJob, State

CANCEL_SECONDS = 2.0
"""Longest wait of a cancellation for a job without processes to end, in seconds."""


class CustomJobRuns:
    """Runs custom jobs until `close`, which leaves their runners alone."""

    def __init__(self, deps: Dependencies) -> None:
        self._deps = deps
        self._runs: dict[str, JobRun] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def adopt(self) -> None:
        """Resume every job that was unfinished when the last server stopped."""
        for job in self._deps.table.active():
            self.admit(job)

    def admit(self, job: CustomJob) -> None:
        """Run a new or adopted job to its end."""
        job_id = job.record.id
        job_run = JobRun(self._deps, job)
        self._runs[job_id] = job_run
        task = asyncio.create_task(job_run.run(), name=f"job {job_id}")
        self._tasks[job_id] = task

        def forget(_: asyncio.Task[None]) -> None:
            self._tasks.pop(job_id, None)
            self._runs.pop(job_id, None)

        task.add_done_callback(forget)

    async def cancel(self, job: CustomJob) -> None:
        """Store CANCELLING; a job without processes is CANCELLED when this returns.

        Raises WireError when the job ended meanwhile, or the request could not be stored.
        """
        await request_end(job, "job", partial(self._deps.table.update, job))
        run = self._runs.get(job.record.id)
        if run is not None and not run.started:
            await _within(job.ended, CANCEL_SECONDS)

    def preempt(self, job: CustomJob, replicas: Sequence[str]) -> Sequence[str]:
        """Reclaim machines, as for Spot; an empty list means all. Return the preempted replicas.

        Raises WireError when the job has no running processes, or no such replica.
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
        self._deps.runner.command(run.attempt, {"do": "preempt", "replicas": list(replicas)})
        return list(replicas) or known

    async def close(self) -> None:
        """Stop watching. Runners and their replicas continue."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _within(event: asyncio.Event, wait: float) -> None:
    try:
        async with asyncio.timeout(wait):
            await event.wait()
    except TimeoutError:
        return
