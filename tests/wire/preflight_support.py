"""What several tests share with test_preflight."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from tests.wire.control import Clients, emulator
from tui.backends.interface import ContextInfo
from tui.backends.vertex.backend import VertexBackend
from tui.backends.vertex.transport.connect import LocalEndpoint
from tui.domain.core.job import Job
from tui.domain.vertex.preflight import Check
from tui.emulator.server import Emulator
from tui.store.jobs.checks import preflight

REGION = "us-central1"
TRAINER = "us-docker.pkg.dev/vxtui/vxtui/trainer:latest"
ACCOUNT = "trainer@p.iam.gserviceaccount.com"


class Nowhere(LocalEndpoint):
    """A service that makes no buckets and runs images, as the cloud."""

    makes_buckets = False
    runs_programs = False


@asynccontextmanager
async def checking(**config: Any) -> AsyncIterator[tuple[Emulator, Clients, VertexBackend]]:
    async with emulator(**config) as (running, clients):
        info = ContextInfo("local", "p", (REGION,))
        async with VertexBackend(info, Nowhere(running.state)) as backend:
            yield running, clients, backend


async def looked(
    backend: VertexBackend, custom_job: Mapping[str, Any], running: Sequence[Job] = ()
) -> dict[str, Check]:
    found = [check async for check in preflight(backend, REGION, custom_job, running)]
    assert len({check.id for check in found}) == len(found)
    return {check.id: check for check in found}
