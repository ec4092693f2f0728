"""Changes of endpoints by the backend where somebody else changes them too, or a reply is lost."""

from __future__ import annotations

import pytest

from tests.waiting import until
from tests.wire.control import PARENT, emulator
from tests.wire.serving import Serving
from tui.backends.interface import ContextInfo, FailedPrecondition, Unavailable
from tui.backends.serving import Deployment
from tui.backends.vertex.backend import VertexBackend
from tui.backends.vertex.transport.connect import LocalEndpoint

_, PROJECT, _, REGION = PARENT.split("/")
INFO = ContextInfo("local", PROJECT, (REGION,))


# Seconds: a model server is started twice.
async def test_a_split_is_never_overwritten_unseen_and_a_lost_reply_is_looked_for() -> None:
    async with emulator() as (running, clients), VertexBackend(INFO, LocalEndpoint(running.state)) as backend:
        serving = Serving(clients.channel)
        endpoint = await serving.endpoint(display_name="front")
        version = await serving.upload(name="a")
        made = await backend.serving.deploy(endpoint, Deployment(version, "n1-standard-4", {"0": 100}, "7"))
        assert [(each.id, each.percent) for each in made.deployed] == [("7", 100)] and made.etag

        async def written() -> list[tuple[str, str]]:
            return [(each.replica, each.message) for each in await backend.serving.log(endpoint, "7")]

        await until(written, "the log of the server")
        assert ("7", "serving 7") in await written() and not await backend.serving.log(endpoint, "9")

        await serving.endpoints.update_endpoint(
            endpoint={"name": endpoint, "traffic_split": {}}, update_mask={"paths": ["traffic_split"]}
        )
        with pytest.raises(FailedPrecondition, match="another client has changed"):
            await backend.serving.split(endpoint, {"7": 100}, made.etag)
        now = await backend.serving.endpoint(endpoint)
        assert now.deployed[0].percent == 0

        await clients.admin(do="api", method="UpdateEndpoint", kind="lost", times=1)
        again = await backend.serving.split(endpoint, {"7": 100}, now.etag)
        assert again.deployed[0].percent == 100

        await clients.admin(do="api", method="DeployModel", kind="lost", times=1)
        with pytest.raises(Unavailable, match="may have begun anyway and cost money"):
            await backend.serving.deploy(endpoint, Deployment(version, "n1-standard-4", {}, "8"))

        async def both() -> bool:
            found = await backend.serving.endpoint(endpoint)
            return {each.id: each.percent for each in found.deployed} == {"7": 100, "8": 0}

        await until(both, "the deployment whose reply was lost")


async def test_a_resource_whose_creation_has_lost_its_reply_is_found() -> None:
    async with emulator() as (running, clients), VertexBackend(INFO, LocalEndpoint(running.state)) as backend:
        pool = {"machineSpec": {"machineType": "n1-standard-4"}, "replicaCount": 1}
        await clients.admin(do="api", method="CreatePersistentResource", kind="lost", times=1)
        made = await backend.resources.create(REGION, "mine", {"resourcePools": [pool]})
        assert made.id == "mine" and made.replicas == 1
