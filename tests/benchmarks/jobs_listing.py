"""10,000 jobs of 4 pools on the emulator, of which 5 run: the first listing to the jobs screen, and a poll.

The first listing stands beside the official client that only reads. CPU of the process that lists; the
emulator is another one, the same for both.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from google.cloud.aiplatform_v1.types import job_state

from tests.benchmarks.harness import Result, cost, in_turns
from tests.wire.control import state_dir
from tui.backends.interface import ContextInfo, LaunchRequest
from tui.backends.vertex.backend import VertexBackend
from tui.backends.vertex.transport.connect import LocalEndpoint
from tui.domain.core.states import JobState
from tui.emulator.client import ensure_running, stop_server
from tui.emulator.database import Database, created_us
from tui.emulator.interfaces import CustomJobPb, JobRecord
from tui.emulator.paths import StateDir
from tui.emulator.vertex.job_table import Control

JOBS = 10_000
RUNNING = 5
ROUNDS, POLL_ROUNDS = 9, 3
POOLS = (
    (1, "a2-highgpu-8g", 8, "us-docker.pkg.dev/research/train/arr-coc:1.4.2"),
    (3, "a2-highgpu-8g", 8, "us-docker.pkg.dev/research/train/arr-coc:1.4.2"),
    (13, "n1-highcpu-16", 0, "us-docker.pkg.dev/vertex-ai-restricted/training/reductionserver:latest"),
    (1, "n1-standard-8", 0, "us-docker.pkg.dev/research/train/evaluate:1.4.2"),
)
ENDED = (
    job_state.JobState.JOB_STATE_SUCCEEDED,
    job_state.JobState.JOB_STATE_FAILED,
    job_state.JobState.JOB_STATE_CANCELLED,
)


def run() -> Iterator[Result]:
    """The console's whole way to the screen against the bare client's reading, then what a poll costs."""
    with _emulator() as state:
        ours, peer = in_turns(lambda: _listed("console", state), lambda: _listed("client", state), ROUNDS)
        poll = statistics.median(_listed("poll", state) for _ in range(POLL_ROUNDS))
    yield Result(
        "10,000 jobs of 4 pools, wire to screen", ours * 1000, 4.0, "ms CPU", peer * 1000, "client .pb"
    )
    yield Result("a poll of 10,000 jobs of which 5 run", poll * 1000, 10.0, "ms CPU")


def _listed(who: str, state: StateDir) -> float:
    out = cost([sys.executable, "-m", "tests.benchmarks.jobs_listing_child", who, str(state.root)]).out
    found = json.loads(out.splitlines()[-1])
    if found["jobs"] != JOBS + RUNNING:
        raise RuntimeError(f"{who} listed {found['jobs']} jobs")
    return float(found["cpu"])


@contextmanager
def _emulator() -> Iterator[StateDir]:
    """An emulator with all the jobs: 10,000 that ended yesterday and five that run."""
    with state_dir() as state:
        try:
            state.prepare()
            asyncio.run(_fill(state))
            ensure_running(state)
            asyncio.run(_launch(state))
            yield state
        finally:
            # Its jobs outlive it; `state_dir` ends them.
            stop_server(state)


async def _fill(state: StateDir) -> None:
    database = Database(state.database)
    await database.open()
    began = int(time.time()) - 100_000
    rows = []
    for number in range(JOBS):
        record = JobRecord("local", "us-central1", str(10**18 + number))
        pb = _job(record.name, number, began + number)
        values = (int(record.id), record.project, record.location, created_us(pb), pb.state)
        control = Control()
        rows.append((*values, pb.SerializeToString(), control.attempt, 0, 0, 0, 0, 0))
    await database.write(lambda db: db.executemany(f"INSERT INTO jobs VALUES ({','.join('?' * 12)})", rows))
    await database.close()


async def _launch(state: StateDir) -> None:
    info = ContextInfo("local", "local", ("us-central1",), str(state.socket), local=True)
    code = "import time; time.sleep(3600)"
    pool = {
        "machineSpec": {"machineType": "n1-standard-4"},
        "replicaCount": 1,
        "containerSpec": {"imageUri": "python:3.11", "command": ["python", "-c", code]},
    }
    async with VertexBackend(info, LocalEndpoint(state)) as backend:
        jobs = backend.jobs["custom_job"]
        made = [
            await jobs.create(
                LaunchRequest(
                    "us-central1",
                    {"displayName": f"listed-running-{number}", "jobSpec": {"workerPoolSpecs": [pool]}},
                )
            )
            for number in range(RUNNING)
        ]
        for job in made:
            while (await jobs.get(job.name)).state is not JobState.RUNNING:  # noqa: ASYNC110
                await asyncio.sleep(0.2)


def _job(name: str, number: int, created: int) -> object:
    pb = CustomJobPb(name=name, display_name=f"listed-{number:05}", state=ENDED[number % len(ENDED)])
    pb.labels.update({"team": f"team-{number % 7}", "rung": str(number % 5)})
    for field, after in (("create_time", 0), ("start_time", 60), ("end_time", 3600), ("update_time", 3601)):
        getattr(pb, field).seconds = created + after
    if pb.state == job_state.JobState.JOB_STATE_FAILED:
        pb.error.code = 9
        pb.error.message = "The replica workerpool1-0 exited with a non-zero status of 1."
    for replicas, machine, count, image in POOLS:
        pool = pb.job_spec.worker_pool_specs.add(replica_count=replicas)
        pool.machine_spec.machine_type = machine
        pool.machine_spec.accelerator_count = count
        pool.machine_spec.accelerator_type = 8 if count else 0
        pool.container_spec.image_uri = image
        pool.container_spec.command.extend(["python", "-m", "trainer.task"])
        pool.container_spec.args.extend(["--steps", "100000", "--seed", str(number)])
        pool.container_spec.env.add(name="NCCL_DEBUG", value="WARN")
    pb.job_spec.scheduling.timeout.seconds = 172_800
    return pb
