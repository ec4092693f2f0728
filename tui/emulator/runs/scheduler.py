"""Runs custom jobs, each in a coroutine; cancels and preempts them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial

from tui.emulator.rpc.methods import failed_precondition, invalid
from tui.emulator.runner.plan import AttemptPlan
from tui.emulator.runs.job_run import Dependencies, JobRun
from tui.emulator.runs.job_runs import JobRuns, request_end
from tui.emulator.vertex.job_table import CustomJob, State

CANCEL_SECONDS = 2.0
"""Maximum wait of a cancellation for a job without processes to end, in seconds."""


class CustomJobRuns(JobRuns[CustomJob]):
    """Runs custom jobs until `close` is called. Their runners continue after that."""

    def __init__(self, deps: Dependencies) -> None:
        super().__init__(deps.table)
        self._deps = deps
        self._runs: dict[str, JobRun] = {}

    def resume(self, job: CustomJob) -> None:
        self.admit(job)

    def admit(self, job: CustomJob) -> None:
        """Run a new or adopted job to its end."""
        self._runs[job.record.id] = JobRun(self._deps, job)
        self._begin(self._run(job.record.id), f"job {job.record.id}")

    async def _run(self, job_id: str) -> None:
        try:
            await self._runs[job_id].run()
        finally:
            del self._runs[job_id]

    async def cancel(self, job: CustomJob) -> None:
        """Store CANCELLING. A job without processes is CANCELLED when this returns.

        Raises WireError when the job has ended in the meantime, or the request could not be stored.
        """
        await request_end(job, "job", partial(self._deps.table.update, job))
        run = self._runs.get(job.record.id)
        if run is not None and not run.started:
            await _within(job.ended, CANCEL_SECONDS)

    def command(self, job: CustomJob, replicas: Sequence[str], do: str) -> Sequence[str]:
        """Give the job's runner a command for these replicas, all for an empty list. Return the replicas.

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
            raise invalid(("replica", f"{', '.join(wrong)} must be a replica of the job: {', '.join(known)}"))
        self._deps.runner.command(run.attempt, {"do": do, "replicas": list(replicas) or known})
        return list(replicas) or known


async def _within(event: asyncio.Event, wait: float) -> None:
    try:
        async with asyncio.timeout(wait):
            await event.wait()
    except TimeoutError:
        return
