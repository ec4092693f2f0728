"""What several tests share with test_backend_training_pipelines."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.waiting import until
from tests.wire.backend_emulator_support import REGION
from tests.wire.control import emulator
from tests.wire.fake_vertex import FixedEndpoint
from tui.backends.interface import (
    Backend,
    ContextInfo,
)
from tui.backends.vertex.backend import VertexBackend
from tui.domain.core.job import Job
from tui.domain.core.states import JobState

FOREVER = "import time; print('up', flush=True); time.sleep(600)"


@asynccontextmanager
async def backend() -> AsyncIterator[Backend]:
    """An emulator and a backend in this process."""
    async with emulator(sample_period=0.3) as (running, _clients):
        info = ContextInfo("local", "p", (REGION,), local=True)
        async with VertexBackend(info, FixedEndpoint({REGION: running.target}, everywhere=True)) as found:
            yield found


async def reach(found: Backend, name: str, state: JobState) -> Job:
    async def look() -> Job | None:
        job = await found.job_service(name).get(name)
        assert job.state is state or not job.state.terminal, job
        return job if job.state is state else None

    job: Job = await until(look, f"{name} to be {state}")
    return job
