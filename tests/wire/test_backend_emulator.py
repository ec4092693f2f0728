"""The backend and the emulator that it is made for, in one process and in two."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import LIMIT, until
from tests.wire.backend_emulator_support import REGION, both, launch, pool, reach, written
from tests.wire.control import QUICK, state_dir
from tui.backends.factory import open_backend
from tui.backends.interface import (
    BackendError,
    ContextInfo,
    FailedPrecondition,
    InvalidRequest,
    LaunchRequest,
    LogQuery,
    NotFound,
    Stopped,
    Unavailable,
)
from tui.backends.vertex.backend import VertexBackend
from tui.backends.vertex.transport.connect import LocalEndpoint
from tui.config.settings import Context, Settings
from tui.domain.core.job import Job
from tui.domain.core.log_entry import SERVICE, LogEntry
from tui.domain.core.metric import CPU, GPU, GPU_MEMORY
from tui.domain.core.states import JobState
from tui.emulator.client import server_status, stop_server, was_killed
from tui.emulator.kubernetes.paths import default_kubernetes_state
from tui.emulator.paths import StateDir, default_state_dir

WRITER = """
import json, sys, time
for i in range({count}):
    print(f"out {{i}}", flush=True)
    if i % 3 == 0:
        print(f"err {{i}}", file=sys.stderr, flush=True)
    step = {{"kind": "step", "step": i, "total_steps": {count}, "loss": 9 - i / 10, "tokens_per_second": 5}}
    print(json.dumps({{"severity": "INFO", "message": f"step {{i}}", "vxtui": step}}), flush=True)
    time.sleep({pause})
"""
TOGETHER = """
import os, pathlib
here = pathlib.Path({folder!r})
(here / str(os.getpid())).touch()
while len(list(here.iterdir())) < {replicas}: time.sleep(0.02)
"""
"""The job ends with its primary, which stops the others: let each have written first."""


async def test_a_job_is_launched_followed_measured_and_deleted(tmp_path: Path) -> None:
    code = WRITER.format(count=30, pause=0.05) + TOGETHER.format(folder=str(tmp_path), replicas=2)
    async with both(sample_period=0.3) as (state, found):
        job = await found.jobs["custom_job"].create(launch(pool(code), pool(code), name="two nodes"))
        assert job.region == REGION
        assert job.replica_count == 2
        entries: list[LogEntry] = []
        async for batch in found.logs.tail(LogQuery(job.name)):
            entries += batch.entries
            assert not batch.gaps
        ended = await reach(found, job.name, JobState.SUCCEEDED)
        assert [replica.id for replica in ended.replicas] == ["workerpool0-0", "workerpool1-0"]

        # No loss and no double: the followed log is what the replicas wrote, in order for each stream.
        for replica, lines in written(state, job.id).items():
            mine = [e for e in entries if e.replica == replica]
            texts = Counter('{"' if text.startswith("{") else text for text in lines)
            assert Counter('{"' if e.json else e.message for e in mine) == texts
            for mark in ("out ", "err ", "step "):
                numbers = [int(e.message.split()[1]) for e in mine if e.message.startswith(mark)]
                assert numbers == sorted(numbers)
                assert numbers
        assert [e.key for e in entries] == sorted(e.key for e in entries)
        assert any(e.replica == SERVICE for e in entries)
        # What is read later is the same log.
        later = [e async for b in found.logs.read(LogQuery(job.name)) for e in b.entries]
        assert Counter(e.key for e in later) == Counter(e.key for e in entries)

        await narrowed(found, job.name, entries)
        await measured(found, ended)
        assert ended.id in {j.id for j in await found.find_jobs("two nodes")}
        assert [j.name for j in await found.find_jobs(ended.id)] == [job.name]
        await found.jobs["custom_job"].delete(job.name)
        with pytest.raises(NotFound):
            await found.jobs["custom_job"].get(job.name)
        assert await found.find_jobs(job.name) == []


async def narrowed(found: VertexBackend, name: str, entries: list[LogEntry]) -> None:
    """Every narrowing of a query, judged by doing the same here."""

    async def keys(**query: Any) -> set[Any]:
        return {e.key async for b in found.logs.read(LogQuery(name, **query)) for e in b.entries}

    middle = entries[len(entries) // 2].timestamp
    for query, fits in (
        ({"replicas": ("workerpool1-0",)}, lambda e: e.replica == "workerpool1-0"),
        ({"include_service": False}, lambda e: e.replica != SERVICE),
        ({"until": middle}, lambda e: e.timestamp <= middle),
        ({"text": "STEP 7"}, lambda e: "step 7" in e.message),
        ({"text": 'no "such\\ text'}, lambda e: False),
    ):
        assert await keys(**query) == {e.key for e in entries if fits(e)}, query
    # An older line that was received after that time comes as well.
    since = await keys(since=middle)
    assert {e.key for e in entries if e.timestamp >= middle} <= since <= {e.key for e in entries}


async def measured(found: VertexBackend, job: Job) -> None:
    reading = await found.metrics.read(job.name)
    assert {s.replica for s in reading.series if s.metric == CPU} == {"workerpool0-0", "workerpool1-0"}
    assert all(one.points for one in reading.series)
    assert {one.metric: one.reason for one in reading.not_measured} == {
        GPU: "no accelerator in this job",
        GPU_MEMORY: "no accelerator in this job",
    }
    progress = (await found.progress.read([job]))[job.name]
    assert (progress.step, progress.total_steps) == (29, 30)
    assert (progress.first_loss, progress.last_loss) == (9, pytest.approx(6.1))
    assert [sample.step for sample in await found.progress.training_steps(job.name)] == list(range(30))


async def test_a_running_job_is_cancelled() -> None:
    async with both() as (state, found):
        job = await found.jobs["custom_job"].create(
            launch(pool("import time; print('up', flush=True); time.sleep(600)"))
        )
        following = asyncio.create_task(drain(found, job.name))
        await reach(found, job.name, JobState.RUNNING)
        await until(lambda: written(state, job.id).get("workerpool0-0"), "the replica's first word")
        with pytest.raises(FailedPrecondition):
            await found.jobs["custom_job"].delete(job.name)
        await found.jobs["custom_job"].cancel(job.name)
        await reach(found, job.name, JobState.CANCELLED)
        entries = await asyncio.wait_for(following, LIMIT)
        assert "up" in {entry.message for entry in entries}
        with pytest.raises(FailedPrecondition):
            await found.jobs["custom_job"].cancel(job.name)


async def drain(found: VertexBackend, name: str) -> list[LogEntry]:
    return [entry async for batch in found.logs.tail(LogQuery(name)) for entry in batch.entries]


async def test_a_bad_request_names_the_field() -> None:
    async with both() as (_state, found):
        with pytest.raises(InvalidRequest) as refused:
            await found.jobs["custom_job"].create(launch(pool("pass", replicas=2)))
        assert any("replica_count" in field for field in refused.value.fields)
        with pytest.raises(InvalidRequest, match="custom job"):
            await found.jobs["custom_job"].create(LaunchRequest(REGION, {"displayNme": "x"}))
        assert not [job async for page in found.jobs["custom_job"].list_all() for job in page.jobs]


async def test_the_spec_is_the_whole_resource_in_rest_form() -> None:
    async with both(quotas={"custom_model_training_cpus": 0}, queue_beyond_quota=True) as (_state, found):
        job = await found.jobs["custom_job"].create(launch(pool("pass")))
        spec = await found.jobs["custom_job"].spec(job.name)
        assert spec["displayName"] == "x"
        assert spec["state"] in {"JOB_STATE_QUEUED", "JOB_STATE_PENDING"}
        assert spec["jobSpec"]["workerPoolSpecs"][0]["containerSpec"]["imageUri"] == "python:3.11"
        assert spec["labels"]["vxtui-launch"] == job.labels["vxtui-launch"]


async def test_quotas_have_limits_and_what_running_jobs_take() -> None:
    async with both(quotas={"custom_model_training_cpus": 8}) as (_state, found):
        job = await found.jobs["custom_job"].create(launch(pool("import time; time.sleep(600)")))
        await reach(found, job.name, JobState.RUNNING)
        (cpus,) = [q for q in await found.quotas.read([REGION]) if q.metric == "custom_model_training_cpus"]
        assert (cpus.region, cpus.limit, cpus.used, cpus.free) == (REGION, 8, 4, 4)
        assert cpus.limit_read_at is not None
        assert {q.preemptible for q in await found.quotas.read()} == {True, False}
        await found.jobs["custom_job"].cancel(job.name)
        await reach(found, job.name, JobState.CANCELLED)


async def test_every_service_is_in_reach() -> None:
    async with both() as (_state, found):
        lines = await found.check_health()
    assert [line.name for line in lines] == ["emulator", "jobs of every region", "logs", "metrics", "quotas"]
    assert all(line.ok for line in lines), lines


async def test_jobs_of_any_region_are_listed_and_pages_follow_each_other() -> None:
    async with both(quotas={"custom_model_training_cpus": 0}, queue_beyond_quota=True) as (_state, found):
        names = []
        for number in range(103):
            region = "europe-west4" if number % 10 == 0 else REGION
            request = LaunchRequest(region, launch(pool("pass"), name=f"j{number}").resource)
            names.append((await found.jobs["custom_job"].create(request)).name)
        pages = [page async for page in found.list_jobs()]
        listed = [job for page in pages for job in page.jobs]
        assert sorted(job.name for job in listed) == sorted(names)
        assert all(job.region == page.region for page in pages for job in page.jobs)
        assert all(job.groups for job in listed)
        some = [
            job
            async for page in found.jobs["custom_job"].list_all(filter='display_name:"j10*"')
            for job in page.jobs
        ]
        assert {job.display_name for job in some} == {"j10", "j100", "j101", "j102"}
        there = next(job for job in listed if job.region == "europe-west4")
        assert [job.name for job in await found.find_jobs(there.id)] == [there.name]


# Seconds: the replica writes for four, while one server dies and another starts.
async def test_the_local_context_starts_its_emulator_and_a_killed_one_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with state_dir() as base:
        monkeypatch.setenv("VXTUI_STATE_DIR", str(base.root))
        state = StateDir(base.root / "emulator")
        found = open_backend(Context(name="local", kind="local", project="local"), Settings())
        assert found.info.local
        assert not state.root.exists()
        try:
            await found.connect()
            info = server_status(state)
            assert info is not None
            state.config.write_text("".join(f"{key}: {value}\n" for key, value in QUICK.items()))
            code = WRITER.format(count=40, pause=0.1)
            job = await found.jobs["custom_job"].create(launch(pool(code)))
            following = asyncio.create_task(drain(found, job.name))  # type: ignore[arg-type]
            await reach(found, job.name, JobState.RUNNING)  # type: ignore[arg-type]
            os.kill(info["pid"], signal.SIGKILL)
            await until(lambda: server_status(state) is None, "the server's death")

            async def listed() -> bool:
                pages = [page async for page in found.list_jobs()]
                assert all(isinstance(page.error, Unavailable | None) for page in pages)
                return all(page.error is None for page in pages)

            # The first call that finds it gone starts it again.
            await until(listed, "the list of the server that was started again")
            entries = await asyncio.wait_for(following, LIMIT)
            assert (await found.jobs["custom_job"].get(job.name)).state is JobState.SUCCEEDED
        finally:
            await found.aclose()
            stop_server(state)
        lines = [line for lines in written(state, job.id).values() for line in lines]
        mine = [entry for entry in entries if entry.replica == "workerpool0-0"]
        assert Counter(e.message for e in mine if not e.json) == Counter(
            text for text in lines if not text.startswith("{")
        )
        assert len(mine) == len(lines)


@pytest.mark.parametrize("kind", ["local", "kubernetes"])
async def test_a_killed_server_is_started_again_and_a_stopped_one_is_not(
    kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with state_dir() as base:
        monkeypatch.setenv("VXTUI_STATE_DIR", str(base.root))
        name = {"local": "local", "kubernetes": "local-k8s"}[kind]
        state = default_state_dir() if kind == "local" else default_kubernetes_state()
        found = open_backend(Context(name, kind=kind), Settings())

        async def errors() -> list[BackendError]:
            return [page.error async for page in found.list_jobs(changes=True) if page.error is not None]

        try:
            await found.connect()
            assert not [page.error async for page in found.list_jobs() if page.error]
            killed = server_status(state)
            assert killed is not None
            os.kill(killed["pid"], signal.SIGKILL)
            await until(lambda: was_killed(state), "the server's death")

            async def again() -> bool:
                failed = await errors()
                assert not any(isinstance(error, Stopped) for error in failed)
                return not failed and server_status(state) is not None

            await until(again, "the list of the server that was started again")
            running = server_status(state)
            assert running is not None and running["pid"] != killed["pid"]
            assert stop_server(state) and not was_killed(state)

            async def stopped() -> bool:
                return any(isinstance(error, Stopped) for error in await errors())

            await until(stopped, "the word that it is stopped")
            assert server_status(state) is None
        finally:
            await found.aclose()
            stop_server(state)


async def test_an_emulator_that_can_not_start_says_why_in_the_consoles_words() -> None:
    with state_dir() as state:
        state.prepare()
        state.config.write_text("grace: x\n")
        found = VertexBackend(ContextInfo("local", "p", (REGION,), local=True), LocalEndpoint(state))
        with pytest.raises(Unavailable, match=r"config\.yaml: grace") as refused:
            await found.connect()
        assert refused.value.fix
        (line,) = await found.check_health()
        assert not line.ok
        assert "config.yaml" in line.detail
