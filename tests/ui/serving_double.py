"""Models and endpoints in memory, for screens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from tests.ui.double import NOON, MemoryBackend, MemoryJobs, fleet
from tui.backends.errors import BackendError, FailedPrecondition, NotFound
from tui.backends.serving import Deployment, RegionResults, ServingService
from tui.domain.core.log_entry import LogEntry
from tui.domain.serving.load import Load
from tui.domain.serving.rollout import NEW
from tui.domain.serving.traffic import Deployed, Model, ServingEndpoint

PLACE = "projects/p/locations/us-central1"
T4 = ("NVIDIA_TESLA_T4", 1)


def model(number: int, name: str, version: str, hours: float, **more: object) -> Model:
    return Model(
        f"{PLACE}/models/{number}", name, "us-central1", version, "test",
        create_time=NOON - timedelta(hours=hours), image="python:3.11", **more,  # type: ignore[arg-type]
    )  # fmt: skip


def deployed(number: int, of: Model, percent: int, hours: float, machine: str, **more: object) -> Deployed:
    return Deployed(
        str(number), of.name, of.version, of.display_name, percent, machine, (1, 1),
        create_time=NOON - timedelta(hours=hours), **more,  # type: ignore[arg-type]
    )  # fmt: skip


def registry() -> list[Model]:
    """Versions of three models, the newest model and version first."""
    front = f"{PLACE}/endpoints/7001"
    return [
        model(31, "arr-coc", "3", 1, aliases=("canary",), labels={"team": "nlp", "job": fleet()[0].id},
              endpoints=(front,)),
        model(31, "arr-coc", "2", 50, aliases=("default",), labels={"team": "nlp"}, endpoints=(front,),
              made_by=fleet()[5].name),
        model(31, "arr-coc", "1", 300, labels={"team": "nlp"},
              made_by=f"{PLACE}/trainingPipelines/99"),
        model(32, "vit-ablation-l16-384", "1", 20, aliases=("default",), artifacts="gs://b/vit/model"),
        model(33, "bert-[/]large [red]", "1", 900, aliases=("default",)),
    ]  # fmt: skip


def endpoints() -> list[ServingEndpoint]:
    three, two, _, vit, _ = registry()
    return [
        ServingEndpoint(
            f"{PLACE}/endpoints/7001", "front-door", "us-central1", "test", NOON - timedelta(hours=310),
            (
                deployed(501, two, 90, 49, "n1-standard-8", accelerator=T4[0], accelerator_count=T4[1]),
                deployed(502, three, 10, 0.5, "n1-standard-8", accelerator=T4[0], accelerator_count=T4[1]),
            ),
        ),
        ServingEndpoint(
            f"{PLACE}/endpoints/7002", "vision [test]", "us-central1", "test", NOON - timedelta(hours=71),
            (deployed(511, vit, 100, 70, "n1-standard-4"),),
        ),
        ServingEndpoint(
            f"{PLACE}/endpoints/7003", "empty", "us-central1", "test", NOON - timedelta(hours=1000)
        ),
    ]  # fmt: skip


class MemoryServing(ServingService):
    """What the service has is in `stored`, by name, and in `registered`."""

    def __init__(self, *, empty: bool = False) -> None:
        self.registered = [] if empty else registry()
        self.stored = {} if empty else {each.name: each for each in endpoints()}
        front = f"{PLACE}/endpoints/7001"
        self.measured: dict[tuple[str, str], Load] = (
            {}
            if empty
            else {
                (front, "501"): Load(27_000, 300, {}, 11.2, 48.0),
                (front, "502"): Load(3_000, 300, {"5xx": 240, "4xx": 3}, 14.9, 1_310.0),
            }
        )
        self.error: BackendError | None = None
        self.written: list[LogEntry] = []

    async def models(self) -> RegionResults[Model]:
        if self.error is not None:
            return RegionResults((), {"us-central1": self.error})
        newest = {each.name: each for each in reversed(self.registered)}
        return RegionResults(list(reversed(newest.values())), {})

    async def versions(self, model: str) -> Sequence[Model]:
        return [each for each in self.registered if each.name == model]

    async def endpoints(self) -> RegionResults[ServingEndpoint]:
        if self.error is not None:
            return RegionResults((), {"us-central1": self.error})
        return RegionResults(list(self.stored.values()), {})

    async def endpoint(self, name: str) -> ServingEndpoint:
        if name not in self.stored:
            raise NotFound(f"no endpoint {name}")
        return self.stored[name]

    async def loads(self, endpoints: Sequence[ServingEndpoint]) -> Mapping[tuple[str, str], Load]:
        return self.measured

    async def log(self, endpoint: str, deployed_id: str = "", limit: int = 200) -> Sequence[LogEntry]:
        return [each for each in self.written if deployed_id in {"", each.replica}][-limit:]

    async def split(self, endpoint: str, percents: Mapping[str, int], etag: str = "") -> ServingEndpoint:
        found = await self.endpoint(endpoint)
        if etag and etag != found.etag:
            raise FailedPrecondition("it was changed elsewhere meanwhile")
        changed = tuple(replace(each, percent=percents.get(each.id, 0)) for each in found.deployed)
        self.stored[endpoint] = replace(found, deployed=changed, etag=f"{found.etag}+")
        return self.stored[endpoint]

    async def deploy(self, endpoint: str, wanted: Deployment) -> ServingEndpoint:
        await self.while_deploying()
        found = await self.endpoint(endpoint)
        of = next(each for each in self.registered if each.versioned == wanted.model)
        new = deployed(int(wanted.id or 600), of, 0, 0, wanted.machine)
        found = self.stored[endpoint] = replace(found, deployed=(*found.deployed, new))
        split = {new.id if k == NEW else k: v for k, v in wanted.percents.items()}
        return await self.split(endpoint, split, found.etag) if split else found

    async def while_deploying(self) -> None:
        """What happens in the minutes of a deployment."""

    async def undeploy(self, endpoint: str, deployed_id: str) -> ServingEndpoint:
        found = await self.endpoint(endpoint)
        left = tuple(each for each in found.deployed if each.id != deployed_id)
        self.stored[endpoint] = replace(found, deployed=left)
        return self.stored[endpoint]


class JobsWithOutput(MemoryJobs):
    """One of them says where its output is."""

    async def spec(self, name: str) -> dict[str, Any]:
        output = {"baseOutputDirectory": {"outputUriPrefix": "gs://b/vit"}}
        return {**await super().spec(name), "jobSpec": output if name == fleet()[4].name else {}}


def backend(serving: MemoryServing | None = None) -> MemoryBackend:
    """A context with jobs, models and endpoints."""
    found = MemoryBackend(fleet())
    found.use(jobs={"custom_job": JobsWithOutput(found)}, serving=serving or MemoryServing())
    return found
