"""Each scarcity and fault of replicas on a job of two nodes: states, message, log, and the console's words.

Two programs run as the job: one writes lines of the trainer, the other lines of a foreign script. The primary
counts what the worker sends, so either stands still without the other.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from google.api_core import exceptions
from google.cloud.logging_v2.services.logging_service_v2 import LoggingServiceV2AsyncClient
from google.cloud.logging_v2.services.logging_service_v2.transports import (
    LoggingServiceV2GrpcAsyncIOTransport,
)

from tests.waiting import until
from tests.wire.control import L4, PARENT, Clients, emulator, python
from tests.wire.training_pipelines_support import Pipelines
from tui.backends.errors import QuotaExceeded
from tui.backends.interface import ContextInfo
from tui.backends.vertex.backend import VertexBackend
from tui.backends.vertex.transport.connect import LocalEndpoint
from tui.backends.vertex.transport.errors import translate
from tui.domain.core.states import JobState
from tui.domain.jobs.diagnosis import diagnosis_of

CPUS = "custom_model_training_cpus"
NO_QUOTA = f"The following quota metrics exceed quota limits: aiplatform.googleapis.com/{CPUS}"
_, PROJECT, _, REGION = PARENT.split("/")
INFO = ContextInfo("local", PROJECT, (REGION,))
LINES = {
    "trainer": "json.dumps({'message': f'step {n}', 'vxtui': {'kind': 'step', 'step': n, 'loss': 1 / n}})",
    "foreign": "f'Epoch {n}/1000 - loss: {1 / n:.4f}'",
}
PROGRAM = """
import json, os, pathlib, socket, time
end, place = pathlib.Path(END), (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
if os.environ["RANK"] == "0":
    link, n = socket.create_server(place).accept()[0], 0
    while not end.exists():
        if link.recv(1):
            n += 1
            print(LINE, flush=True)
else:
    while True:
        try:
            link = socket.create_connection(place)
            break
        except OSError:
            time.sleep(0.02)
    while not end.exists():
        link.send(b"x")
        time.sleep(0.02)
"""


@dataclass
class TwoNodes:
    """A job of two nodes on an emulator, and the console's backend."""

    clients: Clients
    backend: VertexBackend
    code: str
    end: Path

    async def create(self, **job: Any) -> str:
        return str((await self.clients.create(python(self.code), python(self.code), **job)).name)

    async def fault(self, **fault: Any) -> None:
        await self.clients.admin(**fault)

    async def log(self, name: str) -> list[str]:
        transport = LoggingServiceV2GrpcAsyncIOTransport(channel=self.clients.channel)
        pager = await LoggingServiceV2AsyncClient(transport=transport).list_log_entries(
            request={
                "resource_names": ["projects/p"],
                "filter": f'resource.labels.job_id="{name.rpartition("/")[2]}"',
                "order_by": "timestamp asc",
                "page_size": 1000,
            }
        )
        return [entry.text_payload or entry.json_payload["message"] async for entry in pager]

    async def logs_last(self, name: str, start: str) -> None:
        """Wait until the log ends in an entry that starts so."""

        async def ends_so() -> bool:
            return any(text.startswith(start) for text in (await self.log(name))[-1:])

        await until(ends_so, start)

    async def steps(self, name: str) -> int:
        return sum(text.startswith(("step ", "Epoch ")) for text in await self.log(name))

    async def moves(self, name: str) -> None:
        """Wait for one more step in the log."""
        before = await self.steps(name)

        async def more() -> bool:
            return await self.steps(name) > before

        await until(more, "a step")

    async def stands_still(self, name: str) -> None:
        async def still() -> bool:
            before = await self.steps(name)
            # Each list takes longer than the pause between two steps.
            return all([await self.steps(name) == before for _ in range(8)])

        await until(still, "a standstill")
        assert await self.clients.state(name) == "JOB_STATE_RUNNING"

    async def ends(self, name: str) -> None:
        self.end.touch()
        await self.clients.reach(name, "SUCCEEDED")
        assert (await self.log(name))[-1] == "Job completed successfully."

    async def words(self, name: str) -> tuple[JobState, int, str, str]:
        """State, code and reason of the error, and the console's sentence."""
        job = await self.backend.job_service(name).get(name)
        assert job.error is not None
        diagnosis = diagnosis_of(job)
        return job.state, job.error.code, job.error.reason, diagnosis.meaning if diagnosis else ""


@pytest.fixture(params=list(LINES))
async def nodes(request: Any, tmp_path: Path) -> AsyncIterator[TwoNodes]:
    end = tmp_path / "end"
    code = PROGRAM.replace("END", repr(str(end))).replace("LINE", LINES[request.param])
    async with (
        emulator() as (running, clients),
        VertexBackend(INFO, LocalEndpoint(running.state)) as backend,
    ):
        yield TwoNodes(clients, backend, code, end)


async def test_what_a_new_job_lacks(nodes: TwoNodes) -> None:
    await nodes.fault(do="scarcity", quota=CPUS)
    with pytest.raises(exceptions.ResourceExhausted) as refused:
        await nodes.create()
    error = translate(refused.value, "create a job")
    assert isinstance(error, QuotaExceeded) and refused.value.message == NO_QUOTA
    pool = {**python(nodes.code)}
    pipelines = Pipelines(nodes.clients)
    made = await pipelines.begin(inputs={"worker_pool_specs": [pool, pool]})
    await pipelines.reach(made.name, "FAILED")
    state, code, reason, sentence = await nodes.words(made.name)
    assert (state, code, reason) == (JobState.FAILED, 8, NO_QUOTA)
    assert "quota of this region is too small for the job" in sentence

    await nodes.fault(do="scarcity", stockout=True)
    name = await nodes.create()
    await nodes.clients.reach(name, "FAILED")
    text = "Resources are insufficient in region: us-central1. Please try a different region."
    state, code, reason, sentence = await nodes.words(name)
    assert (state, code, reason) == (JobState.FAILED, 8, text) and "capacity was available" in sentence
    log = await nodes.log(name)
    assert log[0] == "Waiting for job to be provisioned." and text in log and log[-1] == "Job failed."

    flex = {"scheduling": {"strategy": "FLEX_START", "max_wait_duration": "1s"}}
    pool = {**python(nodes.code), "machine_spec": L4}
    name = str((await nodes.clients.create(pool, pool, spec=flex)).name)
    await nodes.clients.reach(name, "EXPIRED")
    state, _, reason, sentence = await nodes.words(name)
    assert state is JobState.EXPIRED and "max_wait_duration" in reason
    assert "capacity was available" in sentence
    flex["scheduling"]["max_wait_duration"] = "86400s"
    name = str((await nodes.clients.create(pool, pool, spec=flex)).name)
    await nodes.clients.reach(name, "PENDING")
    await nodes.fault(do="scarcity")
    await nodes.moves(name)
    await nodes.ends(name)
    nodes.end.unlink()

    await nodes.fault(do="scarcity", image=True)
    name = await nodes.create()
    await nodes.clients.reach(name, "FAILED")
    state, code, reason, sentence = await nodes.words(name)
    assert (state, code, reason) == (JobState.FAILED, 3, "The image python:3.11 does not exist.")
    assert "The image or its tag was not found" in sentence

    await nodes.fault(do="scarcity", delay=600)
    name = await nodes.create()
    provisioning = "Vertex AI is provisioning job running framework."
    await nodes.logs_last(name, provisioning)
    assert await nodes.clients.state(name) == "JOB_STATE_PENDING"
    await nodes.clients.jobs.cancel_custom_job(name=name)
    assert (await nodes.words(name))[:2] == (JobState.CANCELLED, 1)
    await nodes.fault(do="scarcity")
    await nodes.fault(do="api", method="CreateCustomJob", code="RESOURCE_EXHAUSTED", retry_after=7, times=1)
    with pytest.raises(exceptions.ResourceExhausted) as refused:
        await nodes.create()
    assert translate(refused.value, "create a job").retry_after == 7


async def test_what_stops_running_replicas(nodes: TwoNodes) -> None:
    name = await nodes.create()
    await nodes.moves(name)
    for fault in ("pause", "cut"):
        await nodes.fault(do=fault, job=name, replica="workerpool1-0")
        await nodes.stands_still(name)
        await nodes.fault(do=fault, job=name, replica="workerpool1-0", resume=True)
        await nodes.moves(name)
    await nodes.fault(do="preempt", job=name, replica="workerpool1-0")

    async def again() -> bool:
        return "The job restarts: attempt 2." in await nodes.log(name)

    await until(again, "the restart after a maintenance")
    assert "A machine went down for maintenance." in await nodes.log(name)
    await nodes.clients.reach(name, "RUNNING")
    await nodes.moves(name)
    await nodes.ends(name)


async def test_what_ends_running_replicas(nodes: TwoNodes) -> None:
    name = await nodes.create()
    await nodes.moves(name)
    await nodes.fault(do="oom", job=name, replica="workerpool1-0")
    await nodes.clients.reach(name, "FAILED")
    state, code, reason, sentence = await nodes.words(name)
    assert (state, code) == (JobState.FAILED, 3)
    assert (
        reason
        == "The replica workerpool1-0 ran out-of-memory and exited with a non-zero status of 9(SIGKILL)."
    )
    assert "memory" in sentence and "was used up" in sentence
    assert (await nodes.log(name))[-1] == "Job failed."
