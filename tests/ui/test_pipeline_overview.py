"""The Overview of a pipeline: how far its tasks are, and what the run was given."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.ui.double import console
from tests.ui.job_double import JobBackend
from tests.ui.jobs_screen_support import until
from tests.ui.pipeline_support import CHILD, PIPELINE, PipelineJobs
from tests.ui.training_pipeline_support import Kind, seen
from tui.domain.core.job import Job
from tui.domain.pipeline.run import PipelineRun
from tui.screens.job.screen import JobScreen

RUN = PipelineRun(
    pipeline="nightly [main]",
    root="gs://bucket/root",
    parameters={"rate": 0.1, "hf_token": "hf_abcdefghijklmnopqrstuvwxyz012345", "rows": [1, 2]},
    failure_policy="PIPELINE_FAILURE_POLICY_FAIL_FAST",
    schedule="projects/p/locations/us-central1/schedules/77",
)


async def overview(job: Job, tmp_path: Path) -> str:
    found = JobBackend(job, CHILD)
    found.use(jobs={"custom_job": Kind(found), "pipeline_job": PipelineJobs(found)})
    app = console(found, tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: len(app.store.jobs) == 2, "the list")
        app.open_job(job.name)
        await until(pilot, lambda: isinstance(app.screen, JobScreen) and app.screen.job, "the job")
        await until(pilot, lambda: "on a failure" in seen(app) or "tasks none yet" in seen(app), "the facts")
        return seen(app)


async def test_tasks_and_parameters_stand_there_and_no_secret(tmp_path: Path) -> None:
    text = await overview(replace(PIPELINE, details=RUN), tmp_path)
    assert "8 of 8 tasks 1 failed 1 from the cache 1 not triggered" in text
    assert "failed train The replica workerpool0-0 exited with a non-zero status of 1." in text
    assert "pipeline nightly [main]" in text and "writes to gs://bucket/root" in text
    assert "scheduled by 77" in text and "on a failure no further task starts" in text
    assert "parameters rate 0.1" in text and "rows [1, 2]" in text
    assert "hf_abcdefghijklmnopqrstuvwxyz012345" not in text and "hf_token" in text
    assert "strategy" not in text


async def test_a_pipeline_without_tasks_says_so(tmp_path: Path) -> None:
    assert "tasks none yet" in await overview(replace(PIPELINE, tasks=(), details=None), tmp_path)
