"""Training pipelines through the backend: a job with a child, on the emulator."""

from __future__ import annotations

from typing import Any

import pytest

from tests.waiting import until
from tests.wire.backend_emulator_support import REGION, pool
from tests.wire.backend_training_pipelines_support import FOREVER, backend, reach
from tui.backends.interface import (
    Backend,
    FailedPrecondition,
    InvalidRequest,
    LaunchRequest,
    LogQuery,
    NotFound,
)
from tui.domain.core.job import Job, with_parents
from tui.domain.core.metric import CPU
from tui.domain.core.states import JobState
from tui.domain.profile.vertex_formats import TRAINING_PIPELINE
from tui.store.jobs.table import JobStore

PIPELINE = "training_pipeline"


def pipeline(*pools: dict[str, Any], name: str = "x") -> LaunchRequest:
    job = {"displayName": name, "jobSpec": {"workerPoolSpecs": list(pools)}}
    return LaunchRequest(REGION, TRAINING_PIPELINE.resource(job))


async def listed(found: Backend) -> dict[str, Job]:
    jobs = [job async for page in found.list_jobs() for job in page.jobs]
    return {job.kind: job for job in with_parents(jobs)}


async def test_a_pipeline_is_a_job_whose_task_has_the_log_and_the_figures() -> None:
    async with backend() as found:
        pipelines = found.jobs[PIPELINE]
        made = await pipelines.create(pipeline(pool(FOREVER), pool(FOREVER, 2), name="bert"))
        assert (made.kind, made.display_name, made.replica_count) == (PIPELINE, "bert", 3)
        assert [group.name for group in made.groups] == ["workerpool0", "workerpool1"]
        job = await reach(found, made.name, JobState.RUNNING)
        (task,) = job.tasks
        assert (task.id, task.state) == ("custom-job", JobState.RUNNING)
        assert job.runner == task.job != job.name
        assert not job.runs_itself

        both = await listed(found)
        child = both["custom_job"]
        assert (child.name, child.parent, child.display_name) == (task.job, job.name, "bert-custom-job")
        assert both[PIPELINE].name == job.name
        assert both[PIPELINE].parent == ""

        lines = []
        async for batch in found.logs.tail(LogQuery(job.runner)):
            lines += [entry.message for entry in batch.entries if entry.message == "up"]
            if len(lines) == 3:
                break
        # The first samples come after the lines.
        await until(lambda: _measured(found, job.runner), "a sample of the CPU")

        await pipelines.cancel(job.name)
        ended = await reach(found, job.name, JobState.CANCELLED)
        assert (await reach(found, child.name, JobState.CANCELLED)).state is ended.state
        with pytest.raises(FailedPrecondition):
            await pipelines.cancel(job.name)


async def _measured(found: Backend, name: str) -> bool:
    return bool((await found.metrics.read(name, metrics=[CPU])).series)


async def test_a_pipeline_is_found_and_deleted_and_its_custom_job_stays() -> None:
    async with backend() as found:
        pipelines = found.jobs[PIPELINE]
        made = await pipelines.create(pipeline(pool("pass"), name="quick"))
        ended = await reach(found, made.name, JobState.SUCCEEDED)
        for reference in (made.id, made.name, "quick"):
            assert [job.name for job in await found.find_jobs(reference)] == [made.name]
        spec = await pipelines.spec(made.name)
        assert spec["trainingTaskInputs"]["workerPoolSpecs"][0]["containerSpec"]["imageUri"] == "python:3.11"
        # The inputs are JSON, whose numbers are floats on the wire.
        assert repr(spec["trainingTaskInputs"]["workerPoolSpecs"][0]["replicaCount"]) == "1"
        assert set(spec["labels"]) == {"vxtui-launch"}

        await pipelines.delete(made.name)
        with pytest.raises(NotFound):
            await pipelines.get(made.name)
        with pytest.raises(NotFound):
            await pipelines.delete(made.name)
        assert list(await listed(found)) == ["custom_job"]
        assert (await found.job_service(ended.runner).get(ended.runner)).state is JobState.SUCCEEDED


async def test_a_failed_pipeline_names_the_replica_as_its_custom_job_does() -> None:
    async with backend() as found:
        made = await found.jobs[PIPELINE].create(pipeline(pool("raise SystemExit(3)"), name="bad"))
        ended = await reach(found, made.name, JobState.FAILED)
        assert ended.error is not None
        assert [(r.id, r.state, r.exit_code) for r in ended.replicas] == [
            ("workerpool0-0", JobState.FAILED, 3)
        ]


async def test_a_request_that_is_no_pipeline_is_refused() -> None:
    async with backend() as found:
        with pytest.raises(InvalidRequest, match="training pipeline"):
            await found.jobs[PIPELINE].create(pipeline(pool("pass"), name=7))  # type: ignore[arg-type]
        with pytest.raises(InvalidRequest, match="inputs"):
            await found.jobs[PIPELINE].create(pipeline({"replicaCount": "many"}))
        with pytest.raises(InvalidRequest):
            await found.jobs[PIPELINE].get("projects/p/locations/r/customJobs/1")


async def test_the_store_knows_the_child_whichever_is_listed_first() -> None:
    async with backend() as found:
        made = await found.jobs[PIPELINE].create(pipeline(pool("pass"), name="quick"))
        await reach(found, made.name, JobState.SUCCEEDED)
        pages = [page async for page in found.list_jobs()]
        for order in (pages, pages[::-1]):
            store = JobStore()
            store.begin()
            now = order[0].read_at
            assert now is not None
            for page in order:
                store.apply(page, now)
            store.finish(now)
            kinds = {job.kind: job for job in store.jobs.values()}
            assert kinds["custom_job"].parent == kinds[PIPELINE].name
            assert not store.apply(order[0], now)
