"""Several contexts as one: jobs of all of them in one list, each job asked where it lives.

A context that can't be reached, or not yet, holds up nobody: its regions are pages with its error, and it is
tried again behind the scenes. Nothing can be launched here, as nobody could say where.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from datetime import datetime
from typing import Any, TypeVar

from tui.backends.interface import (
    Backend,
    BackendError,
    Capability,
    ContextInfo,
    InvalidRequest,
    JobPage,
    LaunchRequest,
    LiveLine,
    LogBatch,
    LogQuery,
    NotFound,
    Reach,
    Unavailable,
)
from tui.domain.job import Job
from tui.domain.metric import MetricsReading
from tui.domain.progress import Progress, TrainingStep
from tui.domain.quota import Quota

T = TypeVar("T")
AT_ONCE = 4
"""Contexts read at the same time; each of them reads several regions."""
AGAIN_AFTER = 15.0
"""Seconds until a context that could not be reached is tried again."""


def _closing(iterator: AsyncIterator[T]) -> aclosing[Any]:
    """A backend's iterators are generators by contract; who leaves one ends its calls."""
    return aclosing(iterator)  # type: ignore[type-var]


class GroupBackend(Backend):
    """The backends of `members`, which keep their own names: a job's `context` is its member's."""

    capabilities = ~Capability(0) & ~Capability.LAUNCH

    def __init__(self, name: str, members: Sequence[Backend]) -> None:
        regions = tuple(f"{m.info.name}/{region}" for m in members for region in m.info.regions)
        self.info = ContextInfo(name, "several", regions, local=all(m.info.local for m in members))
        self.members = tuple(members)
        self._gate = asyncio.Semaphore(AT_ONCE)
        self._errors: dict[str, BackendError] = {}
        self._connecting: dict[str, asyncio.Task[None]] = {}
        self._owners: dict[str, Backend] = {}

    # The way there

    async def connect(self) -> None:
        """Return when one of them can be used; the others go on. Raises when none can."""
        for member in self.members:
            self._begin(member, 0.0)
        while not self._ready():
            waiting = [task for task in self._connecting.values() if not task.done()]
            if not waiting or len(self._errors) == len(self.members):
                raise next(iter(self._errors.values()))
            await asyncio.wait(waiting, timeout=0.1, return_when=asyncio.FIRST_COMPLETED)

    def _ready(self) -> list[Backend]:
        """Members that are connected."""
        ready = []
        for member in self.members:
            task = self._connecting.get(member.info.name)
            if task is not None and task.done() and not task.cancelled():
                ready.append(member)
        return ready

    def _begin(self, member: Backend, after: float) -> None:
        old = self._connecting.get(member.info.name)
        if old is None or old.done():
            self._connecting[member.info.name] = asyncio.create_task(self._connect(member, after))

    async def _connect(self, member: Backend, after: float) -> None:
        """Try until it is there."""
        while True:
            await asyncio.sleep(after)
            try:
                await member.connect()
            except BackendError as error:
                self._errors[member.info.name] = error
                after = AGAIN_AFTER
            else:
                self._errors.pop(member.info.name, None)
                return

    async def aclose(self) -> None:
        tasks = list(self._connecting.values())
        self._connecting.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*(member.aclose() for member in self.members))

    # Jobs

    async def list_jobs(self, *, filter: str = "") -> AsyncIterator[JobPage]:
        ready = self._ready()
        for member in self.members:
            if member not in ready:
                name = member.info.name
                error = self._errors.get(name) or Unavailable(f"{name} is being connected to.")
                for region in member.info.regions:
                    yield JobPage(region, error=error, context=name)
        pages: asyncio.Queue[JobPage | None] = asyncio.Queue(maxsize=AT_ONCE * 2)
        tasks = [asyncio.create_task(self._list(member, filter, pages)) for member in ready]
        try:
            waiting = len(tasks)
            while waiting:
                page = await pages.get()
                if page is None:
                    waiting -= 1
                else:
                    yield page
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _list(self, member: Backend, filter: str, pages: asyncio.Queue[JobPage | None]) -> None:
        name = member.info.name
        try:
            async with self._gate, _closing(member.list_jobs(filter=filter)) as found:
                async for page in found:
                    self._owners |= dict.fromkeys([job.name for job in page.jobs], member)
                    await pages.put(replace(page, context=name))
        except BackendError as error:
            for region in member.info.regions:
                await pages.put(JobPage(region, error=error, context=name))
        finally:
            await pages.put(None)

    def _owner(self, job_name: str) -> Backend:
        """The member that has the job: where it was listed, else by its project.

        Raises:
            NotFound: when it is of none of them.
        """
        found = self._owners.get(job_name)
        if found is None:
            project = job_name.removeprefix("projects/").partition("/")[0]
            found = next((m for m in self.members if m.info.project == project), None)
        if found is None:
            known = ", ".join(member.info.name for member in self.members)
            raise NotFound(f"{job_name} is of none of the contexts {known}.", fix="`vxtui jobs` lists them.")
        return found

    async def get_job(self, name: str) -> Job:
        return await self._owner(name).get_job(name)

    async def job_spec(self, name: str) -> dict[str, Any]:
        return await self._owner(name).job_spec(name)

    async def find_jobs(self, reference: str) -> list[Job]:
        async def find(member: Backend) -> Sequence[Job]:
            found = await member.find_jobs(reference)
            self._owners |= dict.fromkeys([job.name for job in found], member)
            return found

        return [job for _, jobs in await self._each(find) for job in jobs]

    async def create_job(self, request: LaunchRequest) -> Job:
        names = ", ".join(member.info.name for member in self.members)
        raise InvalidRequest(
            f"{self.info.name} stands for several contexts; a job is launched in one of them.",
            fix=f"Go to one of {names}.",
        )

    async def cancel_job(self, name: str) -> None:
        await self._owner(name).cancel_job(name)

    async def delete_job(self, name: str) -> None:
        await self._owner(name).delete_job(name)

    # What jobs say

    async def read_logs(
        self, query: LogQuery, *, newest_first: bool = False, limit: int | None = None
    ) -> AsyncIterator[LogBatch]:
        owner = self._owner(query.job_name)
        reading = owner.read_logs(query, newest_first=newest_first, limit=limit)
        async with _closing(reading) as batches:
            async for batch in batches:
                yield batch

    async def tail_logs(self, query: LogQuery) -> AsyncIterator[LogBatch]:
        async with _closing(self._owner(query.job_name).tail_logs(query)) as batches:
            async for batch in batches:
                yield batch

    async def read_metrics(
        self, name: str, *, since: datetime | None = None, metrics: Sequence[str] = ()
    ) -> MetricsReading:
        return await self._owner(name).read_metrics(name, since=since, metrics=metrics)

    async def read_progress(self, jobs: Sequence[Job]) -> Mapping[str, Progress]:
        shares = self._shares(jobs)

        async def read(member: Backend) -> Mapping[str, Progress]:
            return await member.read_progress(shares[member.info.name])

        found: dict[str, Progress] = {}
        for _, progress in await self._each(read, [m for m in self._ready() if m.info.name in shares]):
            found |= progress
        return found

    async def read_training_steps(self, name: str) -> Sequence[TrainingStep]:
        return await self._owner(name).read_training_steps(name)

    async def read_live(self, jobs: Sequence[Job], since: datetime) -> Sequence[LiveLine]:
        shares = self._shares(jobs)

        async def read(member: Backend) -> Sequence[LiveLine]:
            return await member.read_live(shares[member.info.name], since)

        members = [m for m in self._ready() if m.info.name in shares]
        return [line for _, lines in await self._each(read, members) for line in lines]

    def _shares(self, jobs: Sequence[Job]) -> dict[str, list[Job]]:
        shares: dict[str, list[Job]] = {}
        for job in jobs:
            shares.setdefault(self._owner(job.name).info.name, []).append(job)
        return shares

    # The rest

    async def read_quotas(self, regions: Sequence[str] = ()) -> Sequence[Quota]:
        async def read(member: Backend) -> Sequence[Quota]:
            return await member.read_quotas(regions)

        return [
            replace(quota, region=f"{member.info.name}/{quota.region}")
            for member, quotas in await self._each(read)
            for quota in quotas
        ]

    async def check(self) -> Sequence[Reach]:
        async def check(member: Backend) -> Sequence[Reach]:
            return await member.check()

        found = await self._each(check, self.members)
        return [replace(one, what=f"{m.info.name}: {one.what}") for m, reach in found for one in reach]

    async def _each(
        self, ask: Callable[[Backend], Awaitable[T]], members: Sequence[Backend] | None = None
    ) -> list[tuple[Backend, T]]:
        """The answers of these members, or of all that are connected. Raises when none has one."""
        asked = self._ready() if members is None else members

        async def one(member: Backend) -> T:
            async with self._gate:
                return await ask(member)

        answers = await asyncio.gather(*(one(member) for member in asked), return_exceptions=True)
        found: list[tuple[Backend, T]] = []
        errors: list[BackendError] = []
        for member, answer in zip(asked, answers, strict=True):
            if isinstance(answer, BackendError):
                errors.append(answer)
            elif isinstance(answer, BaseException):
                raise answer
            else:
                found.append((member, answer))
        if errors and not found:
            raise errors[0]
        return found
