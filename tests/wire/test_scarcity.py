"""Faults of scarce resources, with the service's words, and of running replicas."""

from __future__ import annotations

from pathlib import Path

import grpc
import psutil
import pytest
from google.api_core import exceptions

from tests.waiting import until
from tests.wire.control import L4, PARENT, emulator, pool, processes_of, python
from tests.wire.training_pipelines_support import Pipelines
from tui.backends.errors import QuotaExceeded
from tui.backends.vertex.transport.errors import translate
from tui.emulator.server import Emulator

CPUS = "custom_model_training_cpus"
FOREVER = "import time; time.sleep(600)"


async def test_a_create_without_quota_is_refused_with_the_metric() -> None:
    async with emulator() as (_, clients):
        with pytest.raises(grpc.RpcError, match=f"must be a training quota metric; .*{CPUS}"):
            await clients.admin(do="scarcity", quota="custom_training_cpus")
        set_ = await clients.admin(do="scarcity", quota=CPUS, times=1)
        assert (set_["quota"], set_["left_times"]) == (CPUS, 1)
        with pytest.raises(exceptions.ResourceExhausted) as refused:
            await clients.create(python("pass"))
        text = f"The following quota metrics exceed quota limits: aiplatform.googleapis.com/{CPUS}"
        assert refused.value.message == text
        error = translate(refused.value, "create a job")
        assert isinstance(error, QuotaExceeded) and "the quotas of that region" in error.fix
        await clients.create(python("pass"))


async def test_a_job_that_needs_more_than_the_limit_is_refused() -> None:
    async with emulator(quotas={CPUS: 4, f"{CPUS}@europe-west4": -1}) as (_, clients):
        with pytest.raises(exceptions.ResourceExhausted) as refused:
            await clients.create(python("pass"), python("pass"))
        assert refused.value.message.endswith(f"exceed quota limits: aiplatform.googleapis.com/{CPUS}")
        made = [await clients.create(python("pass"))]
        elsewhere = PARENT.replace("us-central1", "europe-west4")
        made.append(await clients.create(python("pass"), python("pass"), parent=elsewhere))
        for job in made:
            await clients.reach(job.name, "SUCCEEDED")


async def test_a_training_pipeline_without_quota_fails_with_code_8() -> None:
    async with emulator() as (_, clients):
        await clients.admin(do="scarcity", quota="*")
        pipelines = Pipelines(clients)
        made = await pipelines.create("pass")
        failed = await pipelines.reach(made.name, "FAILED")
        assert failed.error.code == 8
        assert failed.error.message.startswith("The following quota metrics exceed quota limits: aiplatform")


async def test_a_stockout_fails_a_job_and_lets_flex_start_wait_or_expire() -> None:
    async with emulator() as (_, clients):
        await clients.admin(do="scarcity", stockout=True)
        job = await clients.reach((await clients.create(python("pass"))).name, "FAILED")
        assert job.error.code == 8
        assert job.error.message.startswith("Resources are insufficient in region: us-central1.")
        flex = {"strategy": "FLEX_START", "max_wait_duration": "86400s"}
        waiting = await clients.create({**python("pass"), "machine_spec": L4}, spec={"scheduling": flex})
        short = {**flex, "max_wait_duration": "1s"}
        expiring = await clients.create({**python("pass"), "machine_spec": L4}, spec={"scheduling": short})
        job = await clients.reach(expiring.name, "EXPIRED")
        assert "max_wait_duration" in job.error.message
        assert (await clients.get(waiting.name)).state.name == "JOB_STATE_PENDING"
        await clients.admin(do="scarcity")
        await clients.reach(waiting.name, "SUCCEEDED")


async def test_an_image_that_cannot_be_pulled_fails_its_job() -> None:
    async with emulator() as (_, clients):
        await clients.admin(do="scarcity", image=True)
        job = await clients.create(pool("true", image_uri="europe-docker.pkg.dev/p/r/i:1"))
        job = await clients.reach(job.name, "FAILED")
        assert job.error.message == "The image europe-docker.pkg.dev/p/r/i:1 does not exist."


async def test_replicas_are_stopped_resumed_and_killed_for_memory() -> None:
    async with emulator() as (running, clients):
        job = await clients.create(python(FOREVER), python(FOREVER, replicas=2))
        await clients.reach(job.name, "RUNNING")
        answer = await clients.admin(do="pause", job=job.name, replica="workerpool1-1")
        assert answer["replicas"] == ["workerpool1-1"]
        await until(lambda: _stopped(running) == 1, "one stopped process")
        await clients.admin(do="pause", job=job.name, replica="workerpool1-1", resume=True)
        await until(lambda: _stopped(running) == 0, "its resumption")
        await clients.admin(do="oom", job=job.name, replica="workerpool1-0")
        job = await clients.reach(job.name, "FAILED")
        assert job.error.message.startswith(
            "The replica workerpool1-0 ran out-of-memory and exited with a non-zero status of 9(SIGKILL)."
        )


async def test_a_cut_network_is_silent_until_it_is_joined(tmp_path: Path) -> None:
    """The primary counts what the others send; an error of a connection would end its program."""
    serve = (
        "import pathlib, selectors, socket\n"
        f"here = pathlib.Path({str(tmp_path)!r})\n"
        "door, links = socket.create_server(('127.0.0.1', 0)), selectors.DefaultSelector()\n"
        "(here / 'p').write_text(str(door.getsockname()[1])); (here / 'p').rename(here / 'port')\n"
        "for _ in range(2): links.register(door.accept()[0], selectors.EVENT_READ)\n"
        "while not (here / 'enough').exists():\n"
        "    for link, _ in links.select(0.1):\n"
        "        name = link.fileobj.recv(1)\n"
        "        (here / name.decode()).open('ab').write(name)\n"
    )
    send = (
        "import os, pathlib, socket, time\n"
        f"here = pathlib.Path({str(tmp_path)!r})\n"
        "while not (here / 'port').exists(): time.sleep(0.02)\n"
        "link = socket.create_connection(('127.0.0.1', int((here / 'port').read_text())))\n"
        "while True:\n    link.send(os.environ['RANK'].encode())\n    time.sleep(0.02)"
    )

    def received(rank: str) -> int:
        return (tmp_path / rank).stat().st_size if (tmp_path / rank).exists() else 0

    async with emulator() as (_, clients):
        job = await clients.create(python(serve), python(send, replicas=2))
        await until(lambda: received("1") and received("2"), "both connections")
        answer = await clients.admin(do="cut", job=job.name, replica="workerpool1-0")
        assert answer["replicas"] == ["workerpool1-0"]
        stopped = 0

        async def silent() -> bool:
            nonlocal stopped
            before, other = received("1"), received("2")
            await until(lambda: received("2") > other + 5, "the other replica's bytes")
            stopped = received("1")
            return before == stopped

        await until(silent, "the silence of the cut replica")
        assert await clients.state(job.name) == "JOB_STATE_RUNNING"
        await clients.admin(do="cut", job=job.name, resume=True)
        await until(lambda: received("1") > stopped, "what was lost to be sent again")
        (tmp_path / "enough").touch()
        await clients.reach(job.name, "SUCCEEDED")


async def test_several_replicas_without_memory_are_named_by_pool() -> None:
    async with emulator() as (_, clients):
        job = await clients.create(python(FOREVER), python(FOREVER, replicas=2))
        await clients.reach(job.name, "RUNNING")
        await clients.admin(do="oom", job=job.name)
        job = await clients.reach(job.name, "FAILED")
        assert job.error.message == (
            "Replicas low on memory: workerpool0, workerpool1. "
            "Specify a machine with larger memory and try again."
        )


async def test_a_429_carries_the_time_of_the_next_try() -> None:
    async with emulator() as (_, clients):
        await clients.admin(do="api", method="GetCustomJob", code="RESOURCE_EXHAUSTED", retry_after=2.5)
        with pytest.raises(exceptions.ResourceExhausted) as refused:
            await clients.get("projects/p/locations/us-central1/customJobs/1")
        error = translate(refused.value, "read the job")
        assert isinstance(error, QuotaExceeded) and error.retry_after == 2.5


def _stopped(running: Emulator) -> int:
    return sum(p.status() == psutil.STATUS_STOPPED for p in processes_of(running.state.root))
