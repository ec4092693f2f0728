"""Quotas, models, endpoints, persistent resources and schedules of several contexts, each as one service.

An item is changed in the context that listed the item.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeVar

from tui.backends.errors import BackendError, NotOffered
from tui.backends.interface import Backend, JobPage, QuotaService
from tui.backends.resources import ResourceService
from tui.backends.schedules import ScheduleService
from tui.backends.serving import RegionResults, ServingService
from tui.domain.core.job import Job
from tui.domain.core.quota import Quota
from tui.domain.resources.persistent import PersistentResource
from tui.domain.schedules.schedule import NewSchedule, Schedule
from tui.domain.serving.load import Load
from tui.domain.serving.traffic import Model, ServingEndpoint

T = TypeVar("T", Model, ServingEndpoint, PersistentResource, Schedule)
ONE_CONTEXT = "Choose a context with --context."


class MemberGroup(Protocol):
    """The part of `GroupBackend` that its services use."""

    owners: dict[str, Backend]

    def ready(self) -> list[Backend]: ...

    def owner(self, job_name: str) -> Backend: ...

    def unreachable(self) -> list[JobPage]: ...

    async def ask(self, question: Any, members: Sequence[Backend] | None = None) -> Any: ...


def by_owner(service: str, operation: str) -> Any:
    """Return an operation on the item that its first argument names. The operation runs in the member that
    listed the item."""

    def run(services: Any, name: str, *rest: Any, **options: Any) -> Any:
        owner = services.group.owner(name)
        return getattr(getattr(owner, service), operation)(name, *rest, **options)

    return run


async def listed_everywhere(
    group: MemberGroup, service: str, read: Callable[[Any], Awaitable[RegionResults[T]]]
) -> RegionResults[T]:
    """Return the items of every member that offers the service, newest first, and errors by
    CONTEXT/REGION."""

    async def read_member(member: Backend) -> RegionResults[T]:
        try:
            return await read(getattr(member, service))
        except BackendError as error:
            return RegionResults((), dict.fromkeys(member.info.regions, error))

    members = [member for member in group.ready() if getattr(member.services, service) is not None]
    items: dict[str, T] = {}
    errors = {f"{page.context}/{page.region}": page.error for page in group.unreachable() if page.error}
    for member, results in await group.ask(read_member, members):
        # Two contexts may share a project and a region. The first member owns the items that both list.
        new = {item.name: item for item in results.items if item.name not in items}
        group.owners |= dict.fromkeys(new, member)
        items |= new
        errors |= {f"{member.info.name}/{region}": error for region, error in results.errors.items()}
    return RegionResults(sorted(items.values(), key=_age), errors)


def _age(item: T) -> float:
    return -item.create_time.timestamp() if item.create_time else 0.0


class GroupQuotas(QuotaService):
    """Quotas of every member. Each region is prefixed with its member's name."""

    def __init__(self, group: MemberGroup) -> None:
        self.group = group

    async def read(self, regions: Sequence[str] = ()) -> Sequence[Quota]:
        answers = await self.group.ask(lambda member: member.quotas.read(regions))
        return [
            replace(quota, region=f"{member.info.name}/{quota.region}")
            for member, quotas in answers
            for quota in quotas
        ]


class GroupResources(ResourceService):
    """Persistent resources of every member that offers them."""

    def __init__(self, group: MemberGroup) -> None:
        self.group = group

    async def list_all(self) -> RegionResults[PersistentResource]:
        return await listed_everywhere(self.group, "resources", lambda service: service.list_all())

    async def create(self, region: str, id: str, resource: Mapping[str, Any]) -> PersistentResource:
        raise NotOffered(
            "A persistent resource must be created in one context; this context stands for several.",
            fix=ONE_CONTEXT,
        )

    get = by_owner("resources", "get")
    delete = by_owner("resources", "delete")
    reboot = by_owner("resources", "reboot")


class GroupSchedules(ScheduleService):
    """Schedules of every member that offers them."""

    def __init__(self, group: MemberGroup) -> None:
        self.group = group

    async def list_all(self) -> RegionResults[Schedule]:
        return await listed_everywhere(self.group, "schedules", lambda service: service.list_all())

    async def runs(self, name: str) -> Sequence[Job]:
        owner = self.group.owner(name)
        jobs = await owner.schedules.runs(name)
        self.group.owners |= dict.fromkeys([job.name for job in jobs], owner)
        return jobs

    async def create(self, region: str, schedule: NewSchedule) -> Schedule:
        raise NotOffered(
            "A schedule must be created in one context; this context stands for several.", fix=ONE_CONTEXT
        )

    get = by_owner("schedules", "get")
    pause = by_owner("schedules", "pause")
    resume = by_owner("schedules", "resume")
    delete = by_owner("schedules", "delete")


class GroupServing(ServingService):
    """Models and endpoints of every member that offers them."""

    def __init__(self, group: MemberGroup) -> None:
        self.group = group

    async def models(self) -> RegionResults[Model]:
        return await listed_everywhere(self.group, "serving", lambda service: service.models())

    async def endpoints(self) -> RegionResults[ServingEndpoint]:
        return await listed_everywhere(self.group, "serving", lambda service: service.endpoints())

    async def loads(self, endpoints: Sequence[ServingEndpoint]) -> Mapping[tuple[str, str], Load]:
        shares: dict[str, list[ServingEndpoint]] = {}
        for endpoint in endpoints:
            shares.setdefault(self.group.owner(endpoint.name).info.name, []).append(endpoint)
        members = [member for member in self.group.ready() if member.info.name in shares]
        answers = await self.group.ask(lambda member: member.serving.loads(shares[member.info.name]), members)
        return {key: load for _, loads in answers for key, load in loads.items()}

    versions = by_owner("serving", "versions")
    endpoint = by_owner("serving", "endpoint")
    log = by_owner("serving", "log")
    deploy = by_owner("serving", "deploy")
    undeploy = by_owner("serving", "undeploy")
    split = by_owner("serving", "split")
