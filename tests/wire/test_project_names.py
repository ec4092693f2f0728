"""Names of stored resources: replies have the project's number, requests may have its id or its number."""

from __future__ import annotations

from google.cloud.aiplatform_v1.services.persistent_resource_service import (
    PersistentResourceServiceAsyncClient,
)
from google.cloud.aiplatform_v1.services.persistent_resource_service.transports import (
    PersistentResourceServiceGrpcAsyncIOTransport,
)

from tests.wire.control import NUMBERED, PARENT, QUICK, emulator, pool, state_dir
from tests.wire.schedules import Schedules
from tests.wire.serving import Serving
from tui.backends.interface import ContextInfo
from tui.backends.vertex.backend import VertexBackend
from tui.backends.vertex.transport.connect import LocalEndpoint
from tui.emulator.server import Emulator
from tui.verbs.lists.lookup import Noun, one_of
from tui.verbs.serving.changes import _version

_, PROJECT, _, REGION = PARENT.split("/")
INFO = ContextInfo("local", PROJECT, (REGION,))
MODEL, ENDPOINT = f"{NUMBERED}/models/m", f"{NUMBERED}/endpoints/e"


async def test_stored_resources_have_the_projects_number_and_are_found_by_either() -> None:
    with state_dir() as state:
        async with emulator(state, **QUICK) as (_, clients):
            serving = Serving(clients.channel)
            assert await serving.upload(model_id="m") == f"{MODEL}@1"
            begun = await serving.endpoints.create_endpoint(
                parent=PARENT, endpoint={"display_name": "front"}, endpoint_id="e"
            )
            # The operation is named below the endpoint, with the project's number.
            assert begun.operation.name.startswith(f"{ENDPOINT}/operations/")
            assert (await begun.result()).name == ENDPOINT
            transport = PersistentResourceServiceGrpcAsyncIOTransport(channel=clients.channel)
            resources = PersistentResourceServiceAsyncClient(transport=transport)
            machine = {"machine_spec": {"machine_type": "n1-standard-4"}, "replica_count": 1}
            made = await resources.create_persistent_resource(
                parent=PARENT,
                persistent_resource_id="mine",
                persistent_resource={"resource_pools": [machine]},
            )
            assert (await made.result()).name == f"{NUMBERED}/persistentResources/mine"
            schedules = Schedules(clients)
            schedule = await schedules.create("TZ=UTC 0 0 1 1 *")
            assert schedule.name.startswith(f"{NUMBERED}/schedules/")
            by_id = schedule.name.replace(NUMBERED, PARENT)
            assert (await schedules.get(by_id)).name == schedule.name
            assert schedule.create_pipeline_job_request.parent == NUMBERED
        async with emulator(state, **QUICK) as (running, clients):
            serving = Serving(clients.channel)
            # The first request after a restart may have the number.
            for name in (MODEL, f"{PARENT}/models/m"):
                assert (await serving.models.get_model(name=name)).name == MODEL
            for parent in (NUMBERED, PARENT):
                pager = await serving.endpoints.list_endpoints(request={"parent": parent})
                assert [endpoint.name async for endpoint in pager] == [ENDPOINT]
            call = serving.endpoints.transport.operations_client
            assert (await call.get_operation(begun.operation.name)).name == begun.operation.name
            job = await clients.create(pool("true"), spec={"persistent_resource_id": "mine"}, parent=NUMBERED)
            assert (await clients.reach(job.name, "SUCCEEDED")).name == job.name
            await console_finds_either(running)


async def console_finds_either(running: Emulator) -> None:
    async with VertexBackend(INFO, LocalEndpoint(running.state)) as backend:
        models, endpoints = await backend.serving.models(), await backend.serving.endpoints()
        for name in ("m", MODEL, f"{PARENT}/models/m"):
            assert one_of(backend, models, name, Noun("model", "vxtui models")).name == MODEL
            version = await _version(backend, endpoints.items[0], f"{name}@1")
            assert version.versioned == f"{MODEL}@1"
        (version,) = await backend.serving.versions(f"{PARENT}/models/m")
        assert version.name == MODEL
        assert (await backend.resources.get(f"{PARENT}/persistentResources/mine")).id == "mine"
        (job,) = [job async for page in backend.list_jobs() for job in page.jobs]
        by_id = job.name.replace(NUMBERED, PARENT)
        assert job.is_named(by_id) and backend.may_have(job.name) and backend.may_have(by_id)
        assert [found.name for found in await backend.find_jobs(by_id)] == [job.name]
        assert job.persistent_resource == "mine"
