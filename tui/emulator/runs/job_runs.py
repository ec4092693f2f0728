"""Base of the runners of one kind of job: one task per job, resumed at the start, cancelled at the end."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Generic

from tui.emulator.messages import Pb
from tui.emulator.rpc.methods import failed_precondition
from tui.emulator.vertex.resource_table import CancellableResource, R, ResourceTable


class JobRuns(ABC, Generic[R]):
    """One task per unfinished job, until `close` is called."""

    def __init__(self, table: ResourceTable[R]) -> None:
        self._known = table
        self._tasks: set[asyncio.Task[None]] = set()

    def adopt(self) -> None:
        """Resume every job that was unfinished when the last server stopped."""
        for job in self._known.active():
            self.resume(job)

    @abstractmethod
    def resume(self, job: R) -> None:
        """Resume a job of the last server."""

    async def close(self) -> None:
        """End the tasks. Processes and jobs that they started continue."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _begin(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Run the work of one job in a task."""
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def first_of(*waits: Awaitable[Any], within: float | None = None) -> None:
    """Wait until one of the awaitables is done, or `within` seconds have passed. Cancel the others."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, timeout=within, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()


async def request_end(
    job: CancellableResource, title: str, update: Callable[[Callable[[Pb], None]], Awaitable[object]]
) -> None:
    """Store CANCELLING by `update`, unless it is already stored.

    Raises WireError when the job has ended in the meantime, or the request could not be stored.
    """

    def change(pb: Pb) -> None:
        if pb.state in job.TERMINAL:
            raise failed_precondition(pb.name, f"The {title} {pb.name} has just ended ({job.state_name}).")
        pb.state = job.CANCELLING

    if not job.cancelled.is_set():
        await update(change)
        job.cancelled.set()
