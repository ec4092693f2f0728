"""A client is made once: each transport adds an interceptor to its channel, which all calls go through."""

from __future__ import annotations

from tests.wire.control import PARENT, emulator
from tui.backends.interface import ContextInfo
from tui.backends.vertex.backend import VertexBackend
from tui.backends.vertex.transport.connect import LocalEndpoint
from tui.store.jobs.checks import preflight

_, PROJECT, _, REGION = PARENT.split("/")
POOL = {
    "machineSpec": {"machineType": "n1-standard-4"},
    "replicaCount": 1,
    "containerSpec": {"imageUri": "us-docker.pkg.dev/vxtui/vxtui/trainer:latest"},
}
JOB = {
    "displayName": "x",
    "jobSpec": {
        "workerPoolSpecs": [POOL],
        "tensorboard": f"{PARENT}/tensorboards/1",
        "serviceAccount": f"a@{PROJECT}.iam.gserviceaccount.com",
    },
}


async def test_reading_again_adds_nothing_to_the_calls() -> None:
    async with emulator() as (running, _):
        info = ContextInfo("local", PROJECT, (REGION,))
        async with VertexBackend(info, LocalEndpoint(running.state)) as backend:

            async def read() -> None:
                await backend.serving.models()
                await backend.serving.endpoints()
                await backend.resources.list_all()
                await backend.prices.read()
                assert [check.id async for check in preflight(backend, REGION, JOB, ())]

            def interceptors() -> list[int]:
                channels = backend._open.clients._channels
                return [len(channel._unary_unary_interceptors) for channel in channels.values()]

            await read()
            before = interceptors()
            for _ in range(2):
                await read()
            assert before and before == interceptors()
