"""Models and endpoints of several contexts as one: each endpoint is changed where it was listed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from tui.backends.errors import BackendError
from tui.backends.interface import Backend, JobPage
from tui.backends.serving import Deployment, RegionResults, ServingService
from tui.domain.core.log_entry import LogEntry
from tui.domain.serving.load import Load
from tui.domain.serving.traffic import Model, ServingEndpoint

T = TypeVar("T", Model, ServingEndpoint)
Read = Callable[[ServingService], Awaitable[RegionResults[T]]]


class Members(Protocol):
    """What of a group is needed here; see `GroupBackend`."""

    owners: dict[str, Backend]

    def ready(self) -> list[Backend]: ...

    def owner(self, job_name: str) -> Backend: ...

    def unreachable(self) -> list[JobPage]: ...

    async def ask(self, question: Any, members: Sequence[Backend] | None = None) -> Any: ...


class GroupServing(ServingService):
    """Models and endpoints of every member that has them."""

    def __init__(self, group: Members) -> None:
        self._group = group

    async def models(self) -> RegionResults[Model]:
        return await self._everywhere(lambda serving: serving.models())

    async def endpoints(self) -> RegionResults[ServingEndpoint]:
        return await self._everywhere(lambda serving: serving.endpoints())

    async def versions(self, model: str) -> Sequence[Model]:
        return await self._of(model).versions(model)

    async def endpoint(self, name: str) -> ServingEndpoint:
        return await self._of(name).endpoint(name)

    async def loads(self, endpoints: Sequence[ServingEndpoint]) -> Mapping[tuple[str, str], Load]:
        shares: dict[str, list[ServingEndpoint]] = {}
        for each in endpoints:
            shares.setdefault(self._group.owner(each.name).info.name, []).append(each)
        asked = [member for member in self._group.ready() if member.info.name in shares]

        async def one(member: Backend) -> Mapping[tuple[str, str], Load]:
            return await member.serving.loads(shares[member.info.name])

        found: dict[tuple[str, str], Load] = {}
        for _, answer in await self._group.ask(one, asked):
            found |= answer
        return found

    async def log(self, endpoint: str, deployed_id: str = "", limit: int = 200) -> Sequence[LogEntry]:
        return await self._of(endpoint).log(endpoint, deployed_id, limit)

    async def deploy(self, endpoint: str, wanted: Deployment) -> ServingEndpoint:
        return await self._of(endpoint).deploy(endpoint, wanted)

    async def undeploy(self, endpoint: str, deployed_id: str) -> ServingEndpoint:
        return await self._of(endpoint).undeploy(endpoint, deployed_id)

    async def split(self, endpoint: str, percents: Mapping[str, int], etag: str = "") -> ServingEndpoint:
        return await self._of(endpoint).split(endpoint, percents, etag)

    def _of(self, name: str) -> ServingService:
        """The service of the member that has this model or endpoint. Raises NotFound."""
        return self._group.owner(name).serving

    async def _everywhere(self, read: Read[T]) -> RegionResults[T]:
        async def one(member: Backend) -> RegionResults[T]:
            try:
                return await read(member.serving)
            except BackendError as error:
                return RegionResults((), dict.fromkeys(member.info.regions, error))

        members = [member for member in self._group.ready() if member.services.serving is not None]
        found: list[T] = []
        seen: set[str] = set()
        errors = {
            f"{page.context}/{page.region}": page.error for page in self._group.unreachable() if page.error
        }
        for member, answer in await self._group.ask(one, members):
            # Two contexts may have one project and region: what both list is that of the first.
            new = [each for each in answer.items if each.name not in seen]
            seen |= {each.name for each in new}
            self._group.owners |= {each.name: member for each in new}
            found += new
            errors |= {f"{member.info.name}/{region}": error for region, error in answer.errors.items()}
        times = [(each.create_time.timestamp() if each.create_time else 0.0, each) for each in found]
        return RegionResults([each for _, each in sorted(times, key=lambda one: -one[0])], errors)
