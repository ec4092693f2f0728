"""Persistent resources as the unmodified gRPC clients see them: capacity, jobs on them, and restarts."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from google.api_core import exceptions
from google.cloud.aiplatform_v1.services.persistent_resource_service import (
    PersistentResourceServiceAsyncClient,
)
from google.cloud.aiplatform_v1.services.persistent_resource_service.transports import (
    PersistentResourceServiceGrpcAsyncIOTransport,
)
from google.cloud.aiplatform_v1.types import PersistentResource

from tests.wire.control import PARENT, QUICK, Clients, emulator, pool, python, served, state_dir

N1 = {"machine_spec": {"machine_type": "n1-standard-4"}}
FOUR = {**N1, "replica_count": 4}


class Resources:
    """The service through the official client."""

    def __init__(self, clients: Clients) -> None:
        transport = PersistentResourceServiceGrpcAsyncIOTransport(channel=clients.channel)
        self.client = PersistentResourceServiceAsyncClient(transport=transport)
        self._jobs = clients

    async def begin(self, id: str = "mine", *pools: dict[str, Any], **more: Any) -> Any:
        resource = {"resource_pools": list(pools) or [FOUR], **more}
        return await self.client.create_persistent_resource(
            parent=PARENT, persistent_resource=resource, persistent_resource_id=id, timeout=60
        )

    async def create(self, id: str = "mine", *pools: dict[str, Any], **more: Any) -> PersistentResource:
        return await (await self.begin(id, *pools, **more)).result()

    async def get(self, id: str = "mine") -> PersistentResource:
        name = f"{PARENT}/persistentResources/{id}"
        return await self.client.get_persistent_resource(name=name, timeout=60)

    async def used(self, id: str = "mine") -> list[tuple[int, int]]:
        return [(one.used_replica_count, one.replica_count) for one in (await self.get(id)).resource_pools]

    async def update(self, paths: list[str], *pools: dict[str, Any], **more: Any) -> PersistentResource:
        changed = {"name": f"{PARENT}/persistentResources/mine", "resource_pools": list(pools), **more}
        begun = await self.client.update_persistent_resource(
            persistent_resource=changed, update_mask={"paths": paths}, timeout=60
        )
        return await begun.result()

    async def run(self, *pools: dict[str, Any], on: str = "mine", **job: Any) -> str:
        made = await self._jobs.create(
            *pools, spec={"persistent_resource_id": on, **job.pop("spec", {})}, **job
        )
        return str(made.name)


def until_released(file: Path, replicas: int = 1) -> dict[str, Any]:
    code = f"import pathlib, time\nwhile not pathlib.Path({str(file)!r}).exists(): time.sleep(0.02)"
    return python(code, replicas=replicas)


@pytest.fixture
async def place() -> AsyncIterator[tuple[Clients, Resources]]:
    async with emulator(**QUICK) as (_, clients):
        yield clients, Resources(clients)


async def test_jobs_take_replicas_in_turn_and_give_them_back(
    place: tuple[Clients, Resources], tmp_path: Path
) -> None:
    clients, resources = place
    made = await resources.create(labels={"team": "nlp"})
    assert made.state.name == "RUNNING" and made.start_time and made.resource_pools[0].id
    first, second = tmp_path / "first", tmp_path / "second"
    holds = await resources.run(until_released(first), until_released(first, replicas=2))
    await clients.reach(holds, "RUNNING")
    assert await resources.used() == [(3, 4)]
    waits = await resources.run(until_released(second), until_released(second))
    # One replica is free, but the one that waits came before.
    behind = await resources.run(until_released(second))
    assert (await clients.reach(waits, "PENDING")).state.name == "JOB_STATE_PENDING"
    assert await resources.used() == [(3, 4)]
    first.touch()
    await clients.reach(holds, "SUCCEEDED")
    await clients.reach(waits, "RUNNING")
    await clients.reach(behind, "RUNNING")
    assert await resources.used() == [(3, 4)]
    second.touch()
    await clients.reach(waits, "SUCCEEDED")
    await clients.reach(behind, "SUCCEEDED")
    assert await resources.used() == [(0, 4)]


async def test_a_job_that_does_not_match_a_pool_is_refused(place: tuple[Clients, Resources]) -> None:
    clients, resources = place
    disk = {"disk_spec": {"boot_disk_type": "pd-standard", "boot_disk_size_gb": 200}}
    await resources.create("mine", {**FOUR, "replica_count": 2}, {**N1, "replica_count": 1, **disk})
    for machine, words in (
        ({"machine_spec": {"machine_type": "n1-standard-8"}}, "does not match any resource pool"),
        ({"disk_spec": {"boot_disk_size_gb": 150}}, r"pd-ssd of 150 GB; it has n1-standard-4, pd-ssd of 100"),
        ({"replica_count": 1, "disk_spec": disk["disk_spec"]}, ""),
    ):
        one = {**python("pass"), **machine}
        if not words:
            await clients.reach(await resources.run(one), "SUCCEEDED")
            continue
        with pytest.raises(exceptions.InvalidArgument, match=words):
            await resources.run(one)
    with pytest.raises(exceptions.InvalidArgument, match="too much capacity: 3 replicas"):
        await resources.run(python("pass"), python("pass", replicas=3))
    with pytest.raises(exceptions.InvalidArgument, match="more capacity together than"):
        await resources.run(python("pass"), python("pass", replicas=2))
    network = {"network": "projects/1/global/networks/n"}
    with pytest.raises(
        exceptions.InvalidArgument, match="network: must be the same as in the persistent resource"
    ):
        await resources.run(python("pass"), spec=network)
    with pytest.raises(exceptions.NotFound, match="persistentResources/none is not found"):
        await resources.run(python("pass"), on="none")


async def test_bad_resources_are_refused(place: tuple[Clients, Resources]) -> None:
    _, resources = place
    scaled = {"autoscaling_spec": {"min_replica_count": 0, "max_replica_count": 0}}
    for asked, words in (
        ([N1], "replica_count; Message: must be at least 1"),
        ([{**N1, **scaled}], "min_replica_count; Message: must be > 0"),
        ([{"replica_count": 1}], "machine_type; Message: is required"),
        ([{**FOUR, "id": "a"}, {**FOUR, "id": "a"}], "'a' must be unique among the pools"),
    ):
        with pytest.raises(exceptions.InvalidArgument, match=words):
            await resources.begin("bad", *asked)
    with pytest.raises(
        exceptions.InvalidArgument, match="can only contain numbers, lower case letters and hyphens"
    ):
        await resources.begin("Bad")
    short = "Not enough training quota for the persistent resource in .*custom_model_training_cpus"
    with pytest.raises(exceptions.ResourceExhausted, match=short):
        await resources.begin("bad", {**FOUR, "replica_count": 10_000})
    await resources.create()
    with pytest.raises(exceptions.AlreadyExists):
        await resources.begin()
    for number in range(3):
        await resources.create(f"r{number}")
    pager = await resources.client.list_persistent_resources(request={"parent": PARENT, "page_size": 3})
    assert [len(page.persistent_resources) async for page in pager.pages] == [3, 1]


async def test_update_reboot_and_delete(place: tuple[Clients, Resources], tmp_path: Path) -> None:
    clients, resources = place
    await resources.create()
    with pytest.raises(exceptions.InvalidArgument, match="resource_pools: is required"):
        await resources.update(["resource_pools"])
    with pytest.raises(exceptions.InvalidArgument, match="update_mask: network can't be changed"):
        await resources.update(["network"], network="x")
    with pytest.raises(exceptions.InvalidArgument, match="machine_spec and disk_spec of a pool"):
        other = {"machine_spec": {"machine_type": "n1-standard-8"}, "replica_count": 4}
        await resources.update(["resource_pools"], other)
    changed = await resources.update(["resource_pools.replica_count"], {"replica_count": 1})
    assert changed.state.name == "RUNNING" and changed.resource_pools[0].replica_count == 1
    held = await resources.run(until_released(tmp_path / "a"))
    await clients.reach(held, "RUNNING")
    with pytest.raises(exceptions.InvalidArgument, match="more capacity together"):
        await resources.run(until_released(tmp_path / "a"), until_released(tmp_path / "a"))
    waits = await resources.run(until_released(tmp_path / "a"))
    assert await resources.used() == [(1, 1)]
    # With autoscaling the pool grows for the job that waits.
    scaled = {"autoscaling_spec": {"min_replica_count": 1, "max_replica_count": 3}}
    await resources.update(["resource_pools.autoscaling_spec"], scaled)
    await clients.reach(waits, "RUNNING")
    assert await resources.used() == [(2, 2)]
    name = (await resources.get()).name
    with pytest.raises(exceptions.FailedPrecondition, match="has running jobs"):
        await resources.client.reboot_persistent_resource(name=name)
    await (await resources.client.delete_persistent_resource(name=name)).result()
    for job in (held, waits):
        assert await clients.state(job) == "JOB_STATE_CANCELLED"
    with pytest.raises(exceptions.NotFound):
        await resources.get()
    await resources.create()
    rebooted = await (await resources.client.reboot_persistent_resource(name=name)).result()
    assert rebooted.state.name == "RUNNING"


async def test_states_between_and_jobs_on_what_does_not_run(tmp_path: Path) -> None:
    async with emulator(provisioning_seconds=3600) as (_, clients):
        resources = Resources(clients)
        begun = await resources.begin()
        assert (await resources.get()).state.name == "PROVISIONING"
        with pytest.raises(exceptions.FailedPrecondition, match="must be RUNNING, not PROVISIONING"):
            await resources.run(python("pass"))
        name = (await resources.get()).name
        await (await resources.client.delete_persistent_resource(name=name)).result()
        assert not await begun.done()


async def test_nothing_is_lost_when_the_emulator_is_killed(tmp_path: Path) -> None:
    release = tmp_path / "release"
    with state_dir() as state:
        state.prepare()
        state.config.write_text("provisioning_seconds: 0")
        async with served(state, signal.SIGKILL) as clients:
            resources = Resources(clients)
            await resources.create("mine", {**FOUR, "replica_count": 2})
            held = await resources.run(until_released(release), until_released(release))
            await clients.reach(held, "RUNNING")
            waits = await resources.run(until_released(release))
            await clients.reach(waits, "PENDING")
        state.config.write_text("provisioning_seconds: 3600")
        async with served(state, signal.SIGKILL) as clients:
            resources = Resources(clients)
            assert await resources.used() == [(2, 2)]
            assert await clients.state(waits) == "JOB_STATE_PENDING"
            await resources.begin("other")
            assert (await resources.get("other")).state.name == "PROVISIONING"
        state.config.write_text("provisioning_seconds: 0")
        async with served(state) as clients:
            resources = Resources(clients)
            release.touch()
            await clients.reach(held, "SUCCEEDED")
            await clients.reach(waits, "SUCCEEDED")
            assert await resources.used() == [(0, 2)]
            assert (await resources.get("other")).state.name == "RUNNING"


async def test_a_resource_of_the_configuration_runs_jobs_and_stays(tmp_path: Path) -> None:
    pools = [{"machineSpec": {"machineType": "n1-standard-4"}, "replicaCount": 1}]
    async with emulator(**QUICK, persistent_resources={"fixed": {"resourcePools": pools}}) as (_, clients):
        resources = Resources(clients)
        job = await resources.run(pool("true"), on="fixed")
        await clients.reach(job, "SUCCEEDED")
        with pytest.raises(exceptions.FailedPrecondition, match=r"config\.yaml"):
            await resources.client.delete_persistent_resource(name=f"{PARENT}/persistentResources/fixed")


async def test_a_client_of_v1beta1_reads_its_operations() -> None:
    # Imported here: every worker of the suite collects this module, and the package takes most of a second.
    from google.cloud.aiplatform_v1beta1.services.persistent_resource_service import (
        PersistentResourceServiceAsyncClient,
        transports,
    )

    # Longer than a reply waits for its operation: the client asks for it again.
    async with emulator(provisioning_seconds=0.7) as (_, clients):
        transport = transports.PersistentResourceServiceGrpcAsyncIOTransport(channel=clients.channel)
        begun = await PersistentResourceServiceAsyncClient(transport=transport).create_persistent_resource(
            parent=PARENT, persistent_resource={"resource_pools": [FOUR]}, persistent_resource_id="beta"
        )
        assert not begun.operation.done
        made = await begun.result()
        assert made.state.name == "RUNNING" and "v1beta1" in type(made).__module__
        # A client of v1 beside it has its own.
        assert "v1beta1" not in type(await Resources(clients).create()).__module__
