"""Several contexts as one: their jobs form one list, and each call on a job goes to the job's own context.

An unreachable context does not delay the others: its regions are pages with an error, and the group retries
the connection in the background. A group can't launch jobs, because the target context would be ambiguous.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import replace
from typing import Any, TypeVar

from tui.backends.group_services import GroupQuotas, GroupResources, GroupSchedules, GroupServing
from tui.backends.interface import (
    EVERY_KIND,
    Backend,
    BackendError,
    ContextInfo,
    JobPage,
    JobReader,
    JobService,
    LaunchRequest,
    NotFound,
    NotOffered,
    ServiceHealth,
    Services,
    Stopped,
    Unavailable,
)
from tui.backends.merge import answers_of, merged
from tui.domain.core.job import Job

T = TypeVar("T")
Read = Callable[[JobService], AsyncGenerator[JobPage, None]]
AT_ONCE = 4
"""Number of contexts read at the same time. Each context reads several regions."""
AGAIN_AFTER = 15.0
"""Seconds before the group retries a context that could not be reached."""
_SERVICES: Mapping[str, Callable[[Any], Any]] = {
    "quotas": GroupQuotas,
    "resources": GroupResources,
    "schedules": GroupSchedules,
    "serving": GroupServing,
}
"""Services over all members, by their attribute names in `Services`."""


class GroupBackend(Backend):
    """The backends of `members`, which keep their own names: a job's `context` is the name of its member.

    The group offers the services of its connected members: jobs by kind, every `JobReader`, quotas, models,
    endpoints, persistent resources and schedules. Other services, such as storage, belong to one context.
    """

    def __init__(self, name: str, members: Sequence[Backend]) -> None:
        regions = tuple(f"{m.info.name}/{region}" for m in members for region in m.info.regions)
        local, family = all(m.info.local for m in members), members[0].info.family
        self.info = ContextInfo(name, "several", regions, local=local, family=family)
        self.members = tuple(members)
        self.owners: dict[str, Backend] = {}
        """The member that listed a job, by the job's full name."""
        self.stopped: set[str] = set()
        """Members whose service was stopped at the last read. Only `connect` restarts the service."""
        self._gate = asyncio.Semaphore(AT_ONCE)
        self._errors: dict[str, BackendError] = {}
        self._connecting: dict[str, asyncio.Task[None]] = {}

    @property
    def services(self) -> Services:
        ready = self.ready()
        if not ready:
            raise Unavailable(f"Not connected to {self.info.name}.", fix="Connect first.")
        kinds = dict.fromkeys(kind for member in ready for kind in member.services.jobs)
        services: dict[str, Any] = {"jobs": {kind: GroupJobs(self, kind) for kind in kinds}}
        for member in ready:
            for name in Services.__dataclass_fields__:
                if isinstance(getattr(member.services, name), JobReader):
                    services[name] = RoutedReader(self, name)
        for name, service in _SERVICES.items():
            if any(getattr(member.services, name) is not None for member in ready):
                services[name] = service(self)
        return Services(**services)

    # Connecting

    async def connect(self) -> None:
        """Return as soon as one member is connected; the others continue. Raise if no member can be
        connected.

        If some members are stopped, the other members keep their connections.
        """
        ready = self.ready()
        due = [member for member in self.members if member not in ready or member.info.name in self.stopped]
        for member in due if self.stopped else self.members:
            self._begin(member, 0.0)
        self.stopped.clear()
        while not self.ready():
            waiting = [task for task in self._connecting.values() if not task.done()]
            if not waiting or len(self._errors) == len(self.members):
                raise next(iter(self._errors.values()))
            await asyncio.wait(waiting, timeout=0.1, return_when=asyncio.FIRST_COMPLETED)

    async def settle(self) -> None:
        while len(self.ready()) + len(self._errors) < len(self.members):
            waiting = [task for task in self._connecting.values() if not task.done()]
            if not waiting:
                return
            await asyncio.wait(waiting, timeout=0.1, return_when=asyncio.FIRST_COMPLETED)

    def ready(self) -> list[Backend]:
        """Return the connected members."""
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

    async def check_health(self) -> Sequence[ServiceHealth]:
        answers = await self.ask(lambda member: member.check_health(), self.members)
        return [replace(line, name=f"{m.info.name}: {line.name}") for m, lines in answers for line in lines]

    # Asking members

    def owner(self, job_name: str) -> Backend:
        """Return the member that listed the job, or the member of the job's project if no member listed the
        job. Raises NotFound."""
        member = self.owners.get(job_name)
        if member is None:
            member = next(iter(self._of_project(job_name)), None)
        if member is None:
            known = ", ".join(member.info.name for member in self.members)
            raise NotFound(
                f"{job_name} is not in any of the contexts {known}.", fix="`vxtui jobs` lists the jobs."
            )
        return member

    def offers_for(self, job_name: str, need: str, kind: str = "", *, anybody: bool = False) -> bool:
        try:
            return self.owner(job_name).offers(need, kind, anybody=anybody)
        except NotFound:
            return False
        except Unavailable:
            # A member is not connected: the operation itself reports the reason.
            return need.startswith("jobs.")

    def runs_here(self, job_name: str) -> bool:
        try:
            return self.owner(job_name).info.local
        except NotFound:
            return False

    def unreachable(self) -> list[JobPage]:
        """Return a page with an error for each region of the members that are not connected."""
        pages = []
        ready = self.ready()
        for member in [member for member in self.members if member not in ready]:
            name, error = member.info.name, self._error_of(member)
            # The kinds of the member are unknown: its first page of any kind clears this error.
            pages += [
                JobPage(region, error=error, context=name, kind=EVERY_KIND) for region in member.info.regions
            ]
        return pages

    def _error_of(self, member: Backend) -> BackendError:
        name = member.info.name
        return self._errors.get(name) or Unavailable(f"vxtui is connecting to {name}.")

    async def find_jobs(self, reference: str) -> list[Job]:
        """Return the jobs of every member that match a user's reference. A matching id or full resource name
        is unique.

        Raises:
            BackendError: a member can't be read, and may have a job of this name too.
        """
        ready = self.ready()
        members = self._of_project(reference) or self.members
        answers, errors = await self._answers(
            lambda member: member.find_jobs(reference), [member for member in members if member in ready]
        )
        errors |= {member: self._error_of(member) for member in members if member not in ready}
        for member, jobs in answers:
            self.owners |= dict.fromkeys([job.name for job in jobs], member)
        jobs_found = [job for _, jobs in answers for job in jobs]
        if errors and not (jobs_found and all(job.is_named(reference) for job in jobs_found)):
            raise _not_asked(reference, jobs_found, errors, [member for member, _ in answers])
        return jobs_found

    def _of_project(self, job_name: str) -> list[Backend]:
        """Return the members that may have the job of this full resource name; none for an id or a display
        name."""
        return [member for member in self.members if member.may_have(job_name)]

    async def ask(
        self, question: Callable[[Backend], Awaitable[T]], members: Sequence[Backend] | None = None
    ) -> list[tuple[Backend, T]]:
        """Return the answers of these members, by default of the connected members. Raises if no member
        answers."""
        answers, errors = await self._answers(question, self.ready() if members is None else members)
        if errors and not answers:
            raise next(iter(errors.values()))
        return answers

    async def _answers(
        self, question: Callable[[Backend], Awaitable[T]], members: Sequence[Backend]
    ) -> tuple[list[tuple[Backend, T]], dict[Backend, BackendError]]:
        """Return the answers of these members and the errors of the members that failed."""

        async def ask_member(member: Backend) -> T:
            async with self._gate:
                return await question(member)

        return await answers_of(ask_member, members)


def _not_asked(
    reference: str, jobs: Sequence[Job], errors: Mapping[Backend, BackendError], answered: Sequence[Backend]
) -> BackendError:
    """Return the first of these errors, extended with the names of the members that could not be read."""
    first = next(iter(errors.values()))
    names = ", ".join(member.info.name for member in errors)
    elsewhere = " or ".join(f"--context {member.info.name}" for member in answered)
    choose = f"{'Use the id, or choose' if jobs else 'Choose'} one context: {elsewhere}."
    message = f"{names} can't be queried for the job {reference}: {first.message}"
    return type(first)(message, fix=choose if elsewhere else first.fix)


class RoutedReader(JobReader):
    """A `JobReader` of the members. Each operation runs in the members of the jobs in its first argument.

    Jobs of several members are read at the same time. The results, mappings or sequences, are joined.
    """

    def __init__(self, group: GroupBackend, name: str) -> None:
        self._group = group
        self._name = name

    async def prepare(self, *_: Any) -> None:
        """Do nothing, because the member is unknown until a job is named. See `MetricService.prepare`."""

    def __getattr__(self, operation: str) -> Callable[..., Any]:
        def run(jobs: Any, *rest: Any, **options: Any) -> Any:
            if isinstance(jobs, Sequence) and not isinstance(jobs, str):
                return self._shared(operation, jobs, rest, options)
            name = jobs if isinstance(jobs, str) else jobs.job_name
            return self._of(self._group.owner(name), operation)(jobs, *rest, **options)

        return run

    def _of(self, member: Backend, operation: str) -> Callable[..., Any]:
        method: Callable[..., Any] = getattr(getattr(member, self._name), operation)
        return method

    async def _shared(
        self, operation: str, jobs: Sequence[Job], rest: Sequence[Any], options: Mapping[str, Any]
    ) -> Any:
        shares: dict[str, list[Job]] = {}
        for job in jobs:
            # A job of a snapshot may belong to a member that is not connected yet.
            with suppress(NotFound):
                shares.setdefault(self._group.owner(job.name).info.name, []).append(job)
        ready = [member for member in self._group.ready() if getattr(member.services, self._name) is not None]
        # If no member is left, any member returns the result for no jobs.
        members = [member for member in ready if member.info.name in shares] or ready[:1]

        async def read(member: Backend) -> Any:
            return await self._of(member, operation)(shares.get(member.info.name, []), *rest, **options)

        parts = [part for _, part in await self._group.ask(read, members)]
        if isinstance(parts[0], Mapping):
            return {name: value for part in parts for name, value in part.items()}
        return [item for part in parts for item in part]


def _of_owner(operation: str) -> Any:
    """Return an operation on one job that runs in the member of the job."""

    def run(jobs: GroupJobs, name: str, *rest: Any) -> Any:
        return getattr(jobs.of(name), operation)(name, *rest)

    return run


class GroupJobs(JobService):
    """Jobs of one kind in every member that offers the kind."""

    def __init__(self, group: GroupBackend, kind: str) -> None:
        self._group = group
        self._kind = kind

    def _members(self) -> list[Backend]:
        return [member for member in self._group.ready() if self._kind in member.jobs]

    def of(self, name: str) -> JobService:
        """Return the service of the member that has this job. Raises NotFound."""
        return self._group.owner(name).jobs[self._kind]

    def owns(self, name: str) -> bool:
        return any(member.jobs[self._kind].owns(name) for member in self._members())

    def offers(self, operation: str, *, anybody: bool = False) -> bool:
        members = [member.jobs[self._kind] for member in self._members()]
        return operation != "create" and any(jobs.offers(operation, anybody=anybody) for jobs in members)

    def list_all(self, *, filter: str = "") -> AsyncGenerator[JobPage, None]:
        return self._read(lambda jobs: jobs.list_all(filter=filter))

    def changes(self) -> AsyncGenerator[JobPage, None]:
        return self._read(lambda jobs: jobs.changes())

    async def _read(self, read: Read) -> AsyncGenerator[JobPage, None]:
        for page in self._group.unreachable():
            yield page
        streams = {member: self._pages(member, read) for member in self._members()}
        async with aclosing(merged(streams, AT_ONCE)) as pages:
            async for member, page in pages:
                self._group.owners |= dict.fromkeys([job.name for job in page.jobs], member)
                if isinstance(page.error, Stopped):
                    self._group.stopped.add(member.info.name)
                yield replace(page, context=member.info.name)

    async def _pages(self, member: Backend, read: Read) -> AsyncGenerator[JobPage, None]:
        try:
            async with aclosing(read(member.jobs[self._kind])) as pages:
                async for page in pages:
                    yield page
        except BackendError as error:
            for region in member.info.regions:
                yield JobPage(region, error=error)

    async def find(self, reference: str) -> Sequence[Job]:
        return [job for job in await self._group.find_jobs(reference) if job.kind == self._kind]

    async def parent_of(self, job: Job) -> Job | None:
        jobs = self._group.owner(job.name).jobs
        return await jobs[self._kind].parent_of(job) if self._kind in jobs else None

    get = _of_owner("get")
    spec = _of_owner("spec")
    cancel = _of_owner("cancel")
    delete = _of_owner("delete")
    suspend = _of_owner("suspend")
    resume = _of_owner("resume")
    scale = _of_owner("scale")

    async def create(self, request: LaunchRequest) -> Job:
        names = ", ".join(member.info.name for member in self._group.members)
        raise NotOffered(
            f"{self._group.info.name} stands for several contexts. A job must be launched in one context.",
            fix=f"Switch to one of {names}.",
        )
