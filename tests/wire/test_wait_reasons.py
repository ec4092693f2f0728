"""Why a job of the emulator waits, as the verbs read it over the wire."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.waiting import until
from tests.wire.control import L4, PARENT, Clients, emulator, python
from tests.wire.training_pipelines_support import Pipelines
from tui.backends.interface import ContextInfo
from tui.backends.vertex.backend import VertexBackend
from tui.backends.vertex.transport.connect import LocalEndpoint
from tui.domain.core.job import Job
from tui.verbs.log.diagnosis import waiting_verdict
from tui.verbs.log.waiting import all_with_reasons, with_reasons

_, PROJECT, _, REGION = PARENT.split("/")
INFO = ContextInfo("local", PROJECT, (REGION,))
QUOTAS = {"custom_model_training_cpus": 8, "custom_model_training_cpus@us-west1": 100}


def held(end: Path, replicas: int = 1) -> list[dict[str, Any]]:
    """The worker pools of a job that runs until the file exists."""
    code = f"import pathlib, time\nwhile not pathlib.Path({str(end)!r}).exists(): time.sleep(0.02)"
    return [python(code), *([python(code, replicas - 1)] if replicas > 1 else [])]


async def _reason(backend: VertexBackend, name: str, words: str) -> Job:
    async def look() -> Job | None:
        job = await with_reasons(backend, await backend.job_service(name).get(name))
        assert not job.state.terminal, job
        return job if words in " ".join(job.waiting) else None

    job: Job = await until(look, words)
    return job


async def _create(clients: Clients, *pools: dict[str, Any], **job: Any) -> str:
    return str((await clients.create(*pools, **job)).name)


async def test_a_queued_job_names_the_quota_and_its_users(tmp_path: Path) -> None:
    end = tmp_path / "end"
    settings: dict[str, Any] = {"quotas": QUOTAS, "queue_beyond_quota": True}
    async with (
        emulator(**settings) as (running, clients),
        VertexBackend(
            ContextInfo("local", PROJECT, (REGION, "us-west1")), LocalEndpoint(running.state)
        ) as backend,
    ):
        user = await _create(clients, *held(end), name="bert")
        await clients.reach(user, "RUNNING")
        name = await _create(clients, *held(end, 2), name="large")
        job = await _reason(backend, name, "short 4")
        assert job.waiting == (
            "Training quota in us-central1: CPUs: needs 8, 4 free of 8, short 4; used by bert (4).",
        )
        assert job.diagnosis is not None and job.diagnosis.short == "short 4 CPUs"
        assert job.diagnosis.fix == (
            "The job starts when bert ends; or request more quota, or launch in us-west1."
        )
        verdict = waiting_verdict(job)
        assert verdict is not None and verdict.cause == job.waiting[0] and verdict.next == job.diagnosis.fix
        # A job that would fit waits behind the earlier one.
        behind = await _create(clients, *held(end), name="small")
        assert (
            "1 earlier job for the same quota: large"
            in (await _reason(backend, behind, "earlier")).waiting[0]
        )
        beyond = await _create(clients, *held(end, 3), name="beyond")
        job = await _reason(backend, beyond, "short 8")
        assert job.diagnosis is not None and "The job needs more than the limit" in job.diagnosis.fix
        listed = [job async for page in backend.list_jobs() for job in page.jobs]
        waiting = {job.display_name: job.waiting for job in await all_with_reasons(backend, listed)}
        assert waiting["bert"] == () and waiting["large"][0].endswith("used by bert (4).")
        # A parent waits as its job does.
        pipelines = Pipelines(clients)
        made = await pipelines.begin(inputs={"worker_pool_specs": held(end, 3)})
        job = await _reason(backend, made.name, "Part ")
        assert ": Training quota in us-central1: CPUs: needs 12" in job.waiting[0]


async def test_a_pending_job_compares_its_wait_with_earlier_jobs(tmp_path: Path) -> None:
    end = tmp_path / "end"
    async with (
        emulator(queue_beyond_quota=True) as (running, clients),
        VertexBackend(INFO, LocalEndpoint(running.state)) as backend,
    ):
        earlier = await _create(clients, *held(end))
        await clients.reach(earlier, "RUNNING")
        await clients.admin(do="scarcity", stockout=True)
        refused = await _create(clients, *held(end))
        await clients.reach(refused, "FAILED")
        await clients.admin(do="scarcity", delay=600)
        name = await _create(clients, *held(end, 2), name="slow")
        job = await _reason(
            backend, name, "The job waits for machines in us-central1: 2 × n1-standard-4, standard."
        )
        assert "1 earlier job of this shape waited" in job.waiting[0]
        assert job.waiting[0].endswith("here; 1 got no machines.")
        await clients.admin(do="scarcity", stockout=True)
        flex = {"scheduling": {"strategy": "FLEX_START", "max_wait_duration": "7200s"}}
        name = await _create(clients, {**held(end)[0], "machine_spec": L4}, spec=flex)
        job = await _reason(backend, name, "1 × g2-standard-4 + 1 L4, flex_start.")
        assert job.waiting[1].startswith("FLEX_START waits 1h59 more, of 2h00")
        assert job.diagnosis is not None and job.diagnosis.short == "gives up in 1h59"


async def test_a_job_of_a_persistent_resource_names_its_holders(tmp_path: Path) -> None:
    end = tmp_path / "end"
    four = {"machineSpec": {"machineType": "n1-standard-4"}, "replicaCount": 4}
    async with (
        emulator(persistent_resources={"mine": {"resourcePools": [four]}}) as (running, clients),
        VertexBackend(INFO, LocalEndpoint(running.state)) as backend,
    ):
        on = {"persistent_resource_id": "mine"}
        holder = await _create(clients, *held(end, 3), name="bert", spec=on)
        await clients.reach(holder, "RUNNING")
        waiting = await _create(clients, *held(end, 2), name="next", spec=on)
        job = await _reason(backend, waiting, "3 of 4 replicas are used by bert (3)")
        assert job.diagnosis is not None and job.diagnosis.short == ""
        assert job.diagnosis.fix.startswith("The job starts when bert ends, or the resource gets")
        last = await _create(clients, *held(end, 2), name="last", spec=on)
        assert "1 job before this job, next." in (await _reason(backend, last, "before this job")).waiting[0]
