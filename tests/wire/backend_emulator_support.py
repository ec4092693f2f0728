"""What several tests share with test_backend_emulator."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.waiting import until
from tests.wire.control import emulator
from tests.wire.fake_vertex import FixedEndpoint
from tui.backends.interface import (
    ContextInfo,
    LaunchRequest,
)
from tui.backends.vertex.backend import VertexBackend
from tui.domain.core.job import Job
from tui.domain.core.states import JobState
from tui.emulator.paths import StateDir

REGION = "us-central1"


def pool(code: str, replicas: int = 1) -> dict[str, Any]:
    return {
        "machineSpec": {"machineType": "n1-standard-4"},
        "replicaCount": replicas,
        "containerSpec": {"imageUri": "python:3.11", "command": [sys.executable, "-c", code]},
    }


def launch(*pools: dict[str, Any], name: str = "x") -> LaunchRequest:
    return LaunchRequest(REGION, {"displayName": name, "jobSpec": {"workerPoolSpecs": list(pools)}})


@asynccontextmanager
async def both(**config: Any) -> AsyncIterator[tuple[StateDir, VertexBackend]]:
    """An emulator and a backend in this process."""
    async with emulator(**config) as (running, _clients):
        info = ContextInfo("local", "p", (REGION,), local=True)
        endpoint = FixedEndpoint({REGION: running.target}, everywhere=True)
        async with VertexBackend(info, endpoint) as found:
            assert isinstance(found, VertexBackend)
            yield running.state, found


async def reach(found: VertexBackend, name: str, state: JobState) -> Job:
    async def look() -> Job | None:
        job = await found.jobs["custom_job"].get(name)
        assert job.state is state or not job.state.terminal, job
        return job if job.state is state else None

    job: Job = await until(look, f"{name} to be {state}")
    return job


def written(state: StateDir, job_id: str) -> dict[str, list[str]]:
    """Lines of each replica's output files, what it wrote to be compared with."""
    found: dict[str, list[str]] = {}
    for attempt in state.attempts(job_id):
        for path in attempt.root.glob("workerpool*.std*"):
            if path.suffix in {".stdout", ".stderr"}:
                found.setdefault(path.stem, []).extend(path.read_text().splitlines())
    return found
