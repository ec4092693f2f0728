"""An emulator in this process, or in one of its own, and the official clients on its socket."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import psutil
from google.cloud.aiplatform_v1.services.job_service import JobServiceAsyncClient
from google.cloud.aiplatform_v1.services.job_service.transports import JobServiceGrpcAsyncIOTransport
from google.cloud.aiplatform_v1.types import CustomJob
from google.protobuf import json_format, struct_pb2

from tests.processes import end
from tests.waiting import LIMIT, until
from tests.warm import WarmPopen
from tui.emulator.config import EmulatorConfig
from tui.emulator.interfaces import project_number
from tui.emulator.paths import StateDir
from tui.emulator.server import Emulator

L4 = {"machine_type": "g2-standard-4", "accelerator_type": "NVIDIA_L4", "accelerator_count": 1}
PARENT = "projects/p/locations/us-central1"
NUMBERED = f"projects/{project_number('p')}/locations/us-central1"
"""`PARENT` in the names of jobs, which have the project's number."""
ENDED = {"JOB_STATE_SUCCEEDED", "JOB_STATE_FAILED", "JOB_STATE_CANCELLED", "JOB_STATE_EXPIRED"}
QUICK = {"provisioning_seconds": 0, "restart_delay_seconds": 0, "cancel_grace_seconds": 1, "grace_seconds": 1}
NEVER = {**QUICK, "quotas": {"custom_model_training_cpus": 0}, "queue_beyond_quota": True}
"""Jobs stay QUEUED: for tests that are about lists and not about running."""


def pool(*command: str, replicas: int = 1, **container: Any) -> dict[str, Any]:
    return {
        "machine_spec": {"machine_type": "n1-standard-4"},
        "replica_count": replicas,
        "container_spec": {"image_uri": "python:3.11", "command": list(command), **container},
    }


def python(code: str, replicas: int = 1) -> dict[str, Any]:
    """A pool whose replicas run `code`."""
    return pool(sys.executable, "-c", code, replicas=replicas)


def custom_job(*pools: dict[str, Any], name: str = "x", **job: Any) -> dict[str, Any]:
    spec = {"worker_pool_specs": list(pools) or [python("pass")], **job.pop("spec", {})}
    return {"display_name": name, "job_spec": spec, **job}


@dataclass
class Clients:
    """Unmodified clients of one emulator."""

    channel: Any
    jobs: JobServiceAsyncClient

    async def create(self, *pools: dict[str, Any], parent: str = PARENT, **job: Any) -> CustomJob:
        return await self.jobs.create_custom_job(
            parent=parent, custom_job=custom_job(*pools, **job), timeout=60
        )

    async def get(self, name: str) -> CustomJob:
        return await self.jobs.get_custom_job(name=name, timeout=60)

    async def state(self, name: str) -> str:
        return str((await self.get(name)).state.name)

    async def reach(self, name: str, *states: str, seconds: float = LIMIT) -> CustomJob:
        """The job once it is in one of `states` (without the prefix)."""
        wanted = {f"JOB_STATE_{state}" for state in states}

        async def look() -> CustomJob | None:
            job = await self.get(name)
            assert job.state.name in wanted or job.state.name not in ENDED, (job.state.name, job.error)
            return job if job.state.name in wanted else None

        found: CustomJob = await until(look, f"{name} to be {states}", seconds)
        return found

    async def listed(self, filter: str = "", parent: str = PARENT, **request: Any) -> list[str]:
        """Display names of every page."""
        pager = await self.jobs.list_custom_jobs(request={"parent": parent, "filter": filter, **request})
        return [job.display_name async for job in pager]

    async def admin(self, **asked: Any) -> dict[str, Any]:
        call = self.channel.unary_unary(
            "/vxtui.emulator.v1.Admin/Call",
            request_serializer=struct_pb2.Struct.SerializeToString,
            response_deserializer=struct_pb2.Struct.FromString,
        )
        request = struct_pb2.Struct()
        request.update(asked)
        return dict(json_format.MessageToDict(await call(request, timeout=60)))


@asynccontextmanager
async def connect(target: str) -> AsyncIterator[Clients]:
    channel = grpc.aio.insecure_channel(target)
    try:
        yield Clients(
            channel, JobServiceAsyncClient(transport=JobServiceGrpcAsyncIOTransport(channel=channel))
        )
    finally:
        await channel.close()


@contextmanager
def state_dir() -> Iterator[StateDir]:
    """A short directory of its own; whatever of its jobs still runs at the end is killed."""
    root = Path(tempfile.mkdtemp(prefix="vx"))
    try:
        yield StateDir(root)
    finally:
        end(processes_of(root))
        shutil.rmtree(root, ignore_errors=True)


def processes_of(root: Path) -> list[psutil.Process]:
    """Runners and replicas of the jobs kept under `root`."""
    found = []
    for process in psutil.process_iter():
        try:
            # A replica works in its job's directory; a runner is told it on its command line.
            if process.pid != os.getpid() and (
                process.cwd().startswith(f"{root}/jobs")
                or any(f"{root}/jobs" in a for a in process.cmdline())
            ):
                found.append(process)
        except psutil.Error:
            continue
    return found


@asynccontextmanager
async def emulator(state: StateDir | None = None, **config: Any) -> AsyncIterator[tuple[Emulator, Clients]]:
    """An emulator in this process, on `state` or one of its own."""
    with state_dir() if state is None else contextlib.nullcontext(state) as place:
        async with (
            Emulator(place, EmulatorConfig.model_validate({**QUICK, **config})) as running,
            connect(running.target) as clients,
        ):
            yield running, clients


def spawn_server(state: StateDir, *args: str, before: Sequence[str] = (), **kw: Any) -> subprocess.Popen[str]:
    """A server in a process of its own; wait for `emulator.json` before using it. `before` are Python's own
    arguments."""
    return WarmPopen(
        [sys.executable, *before, "-m", "tui.emulator", "--state-dir", str(state.root), *args],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, **kw,
    )  # fmt: skip


def server_info(state: StateDir) -> dict[str, Any] | None:
    """What the server of this directory tells of itself, once it answers."""
    return dict(json.loads(state.info.read_text())) if state.info.exists() else None


@asynccontextmanager
async def served(state: StateDir, last: signal.Signals = signal.SIGTERM) -> AsyncIterator[Clients]:
    """A server in a process of its own, from when it answers; at the end the signal `last` ends it."""
    with spawn_server(state) as process:
        try:
            await until(lambda: (server_info(state) or {}).get("pid") == process.pid, "the server")
            async with connect(state.target) as clients:
                yield clients
        except BaseException:
            # A test that fails says so at once: nothing else would end the server.
            process.kill()
            raise
        process.send_signal(last)
        code = await asyncio.to_thread(process.wait, LIMIT)
        assert code == (0 if last is signal.SIGTERM else -last)
