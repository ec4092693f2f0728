"""Training pipelines as the unmodified client sees them: a custom job each, and its state."""

from __future__ import annotations

import json
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.api_core import exceptions
from google.rpc import error_details_pb2

from tests.wire.control import (
    NEVER,
    NUMBERED,
    PARENT,
    emulator,
    python,
    served,
    state_dir,
)
from tests.wire.serving import Serving
from tests.wire.training_pipelines_support import Pipelines, child

FOREVER = "import time; time.sleep(600)"


@pytest.fixture
async def pipelines() -> AsyncIterator[Pipelines]:
    async with emulator() as (_, clients):
        yield Pipelines(clients)


@pytest.fixture
async def idle() -> AsyncIterator[Pipelines]:
    """Custom jobs stay QUEUED."""
    async with emulator(**NEVER) as (_, clients):
        yield Pipelines(clients)


async def test_a_pipeline_runs_its_custom_job_to_the_end(pipelines: Pipelines, tmp_path: Path) -> None:
    out = tmp_path / "seen.json"
    code = f"import json, os, sys; json.dump([dict(os.environ), sys.argv[1:]], open({str(out)!r}, 'w'))"
    pool = python(code)
    pool["container_spec"]["args"] = ["--lr", 0.5, "--epochs", 3]
    made = await pipelines.create(
        inputs={"worker_pool_specs": [pool], "base_output_directory": {"output_uri_prefix": "gs://b/run"}},
        labels={"team": "nlp"},
    )
    assert made.name.startswith(f"{NUMBERED}/trainingPipelines/")
    assert made.create_time == made.update_time and not made.start_time
    ended = await pipelines.reach(made.name, "SUCCEEDED")
    job = await pipelines.jobs.get(child(ended))
    assert job.display_name == "bert-custom-job" and job.state.name == "JOB_STATE_SUCCEEDED"
    assert (ended.start_time, ended.end_time) == (job.start_time, job.end_time)
    assert ended.labels == {"team": "nlp"} and ended.training_task_inputs == made.training_task_inputs
    env, arguments = json.loads(out.read_text())
    assert arguments == ["--lr", "0.5", "--epochs", "3"]
    assert {name: env[name] for name in env if name.startswith("AIP_")} == {
        "AIP_MODEL_DIR": "gs://b/run/model/",
        "AIP_CHECKPOINT_DIR": "gs://b/run/checkpoints/",
        "AIP_TENSORBOARD_LOG_DIR": "gs://b/run/logs/",
    }


async def test_a_pipeline_names_its_job_later_and_runs_while_that_is_provisioned() -> None:
    async with emulator(provisioning_seconds=600) as (_, clients):
        pipelines = Pipelines(clients)
        made = await pipelines.begin()
        assert made.state.name == "PIPELINE_STATE_PENDING" and not made.training_task_metadata
        running = await pipelines.reach(made.name, "RUNNING")
        assert await clients.state(child(running)) == "JOB_STATE_PENDING"


async def test_a_pipeline_beyond_the_quota_fails_with_code_8() -> None:
    async with emulator(quotas={"custom_model_training_cpus": 3}) as (_, clients):
        failed = await Pipelines(clients).reach((await Pipelines(clients).begin()).name, "FAILED")
        assert (failed.error.code, failed.error.message) == (
            8,
            "The following quota metrics exceed quota limits: "
            "aiplatform.googleapis.com/custom_model_training_cpus",
        )


async def test_a_failed_job_fails_its_pipeline_with_the_same_error(pipelines: Pipelines) -> None:
    made = await pipelines.create("raise SystemExit(3)")
    failed = await pipelines.reach(made.name, "FAILED")
    job = await pipelines.jobs.get(child(failed))
    assert failed.error == job.error and "non-zero status of 3." in failed.error.message


async def test_cancel_ends_the_custom_job(pipelines: Pipelines) -> None:
    made = await pipelines.create(FOREVER)
    await pipelines.reach(made.name, "RUNNING")
    await pipelines.client.cancel_training_pipeline(name=made.name)
    assert (await pipelines.get(made.name)).state.name in {
        "PIPELINE_STATE_CANCELLING", "PIPELINE_STATE_CANCELLED",
    }  # fmt: skip
    cancelled = await pipelines.reach(made.name, "CANCELLED")
    assert await pipelines.jobs.state(child(cancelled)) == "JOB_STATE_CANCELLED"
    with pytest.raises(exceptions.FailedPrecondition, match=r"is in state .* and cannot be canceled"):
        await pipelines.client.cancel_training_pipeline(name=made.name)


async def test_preempting_a_pipeline_preempts_its_custom_job(pipelines: Pipelines) -> None:
    made = await pipelines.create(FOREVER)
    for reference in (made.name, made.name.rpartition("/")[2], "bert"):
        await pipelines.jobs.reach(child(made), "RUNNING")
        hit = await pipelines.jobs.admin(do="preempt", job=reference, replica="workerpool0-0")
        assert hit == {"job": child(made), "replicas": ["workerpool0-0"]}
    await pipelines.client.cancel_training_pipeline(name=made.name)
    await pipelines.reach(made.name, "CANCELLED")
    with pytest.raises(grpc.RpcError, match="has ended"):
        await pipelines.jobs.admin(do="preempt", job=made.name)
    with pytest.raises(grpc.RpcError, match="does not exist"):
        await pipelines.jobs.admin(do="preempt", job="nothing")


async def test_a_cancelled_child_and_a_deleted_pipeline(idle: Pipelines) -> None:
    made = await idle.create()
    with pytest.raises(exceptions.FailedPrecondition, match="cancel the"):
        await idle.client.delete_training_pipeline(name=made.name)
    await idle.jobs.jobs.cancel_custom_job(name=child(made))
    await idle.reach(made.name, "CANCELLED")
    operation = await idle.client.delete_training_pipeline(name=made.name)
    await operation.result(timeout=60)
    with pytest.raises(exceptions.NotFound, match="TrainingPipeline"):
        await idle.get(made.name)
    assert await idle.listed() == []
    assert await idle.jobs.state(child(made)) == "JOB_STATE_CANCELLED", "the custom job stays"


async def test_lists_are_filtered_paged_and_masked(idle: Pipelines) -> None:
    for number in range(5):
        await idle.create(display_name=f"p{number}", labels={"parity": str(number % 2)})
    assert await idle.listed(page_size=2) == ["p4", "p3", "p2", "p1", "p0"]
    assert await idle.listed('labels.parity="1" AND state="PIPELINE_STATE_PENDING"') == ["p3", "p1"]
    assert await idle.listed('training_task_definition:"*automl*"') == []
    pager = await idle.client.list_training_pipelines(
        request={"parent": PARENT, "page_size": 1, "read_mask": {"paths": ["name", "state"]}}
    )
    first = next(iter(pager.training_pipelines))
    assert first.name and first.state and not first.display_name and not first.training_task_inputs
    assert await idle.jobs.listed('display_name="p3-custom-job"') == ["p3-custom-job"]


GIVEN = "training_pipeline"
UPLOADED = f"{GIVEN}.model_to_upload"
INPUTS = f"{GIVEN}.training_task_inputs"
POOL = python("pass")


@pytest.mark.parametrize(
    ("changes", "field", "words"),
    [
        ({"display_name": ""}, f"{GIVEN}.display_name", "is required"),
        ({"labels": {"Team": "x"}}, f"{GIVEN}.labels", "lowercase"),
        ({"training_task_definition": ""}, f"{GIVEN}.training_task_definition", "custom_task_1.0.0.yaml"),
        ({"training_task_definition": "gs://x"}, f"{GIVEN}.training_task_definition", "is not supported"),
        ({"model_to_upload": {"display_name": "m"}}, f"{UPLOADED}.container_spec", "is required"),
        ({"model_id": "m"}, f"{GIVEN}.model_id", "needs model_to_upload"),
        ({"input_data_config": {"dataset_id": "1"}}, f"{GIVEN}.input_data_config", "no managed datasets"),
        ({"inputs": {"worker_pool_specs": []}}, f"{INPUTS}.worker_pool_specs", "is required"),
        ({"inputs": {"wrokers": 1}}, INPUTS, "wrokers"),
        (
            {"inputs": {"worker_pool_specs": [{**POOL, "replica_count": 2}]}},
            f"{INPUTS}.worker_pool_specs[0].replica_count", "must be 1",
        ),
        (
            {"inputs": {"worker_pool_specs": [{**POOL, "machine_spec": {"machine_type": "n1-standart-4"}}]}},
            f"{INPUTS}.worker_pool_specs[0].machine_spec.machine_type", "n1-standard-4",
        ),
        ({"inputs": {"scheduling": {"timeout": "-1s"}}}, f"{INPUTS}.scheduling.timeout", "more than 0"),
    ],
)  # fmt: skip
async def test_a_bad_pipeline_names_the_field(
    idle: Pipelines, changes: dict[str, Any], field: str, words: str
) -> None:
    with pytest.raises(exceptions.InvalidArgument) as caught:
        await idle.create(**changes)
    detail = next(d for d in caught.value.details if isinstance(d, error_details_pb2.BadRequest))
    violations = {v.field: v.description for v in detail.field_violations}
    assert set(violations) == {field} and words in violations[field]
    assert await idle.listed() == [] and await idle.jobs.listed() == []


async def test_names_parents_and_persistent_resources(idle: Pipelines) -> None:
    with pytest.raises(exceptions.InvalidArgument, match="one location"):
        await idle.create(parent="projects/p/locations/-")
    with pytest.raises(exceptions.InvalidArgument, match="trainingPipelines"):
        await idle.get("42")
    with pytest.raises(exceptions.NotFound):
        await idle.get(f"{PARENT}/trainingPipelines/42")
    with pytest.raises(exceptions.NotFound, match="persistentResources/mine is not found"):
        await idle.create(inputs={"persistent_resource_id": "mine"})


async def test_a_pipeline_outlives_its_server(tmp_path: Path) -> None:
    release = tmp_path / "release"
    code = f"import pathlib, sys, time\nwhile not pathlib.Path({str(release)!r}).exists(): time.sleep(0.05)\n"
    with state_dir() as state:
        state.prepare()
        state.config.write_text("provisioning_seconds: 0")
        async with served(state, signal.SIGKILL) as clients:
            pipelines = Pipelines(clients)
            made = await pipelines.create(code + "sys.exit(3)")
            await pipelines.reach(made.name, "RUNNING")
        release.touch()
        async with served(state) as clients:
            ended = await Pipelines(clients).reach(made.name, "FAILED")
            assert child(ended) == child(made) and "status of 3." in ended.error.message


MODEL = {"display_name": "answers", "container_spec": {"image_uri": "python"}}


async def test_a_pipeline_that_succeeds_has_uploaded_its_model() -> None:
    async with emulator() as (_, clients):
        pipelines, serving = Pipelines(clients), Serving(clients.channel)
        output = {"base_output_directory": {"output_uri_prefix": "gs://weights/run"}}
        made = await pipelines.create(model_to_upload=MODEL, model_id="answers", inputs=output)
        done = await pipelines.reach(made.name, "SUCCEEDED")
        model = f"{NUMBERED}/models/answers"
        assert (done.model_to_upload.name, done.model_to_upload.version_id) == (model, "1")
        found = await serving.models.get_model(name=model)
        assert found.training_pipeline == made.name and found.artifact_uri == "gs://weights/run/model"

        again = await pipelines.create(model_to_upload=MODEL, parent_model=model)
        done = await pipelines.reach(again.name, "SUCCEEDED")
        assert done.model_to_upload.version_id == "2"
        with pytest.raises(exceptions.NotFound):
            await pipelines.create(model_to_upload=MODEL, parent_model=f"{PARENT}/models/none")
        with pytest.raises(exceptions.AlreadyExists):
            await pipelines.create(model_to_upload=MODEL, model_id="answers")
        failed = await pipelines.create("raise SystemExit(3)", model_to_upload=MODEL)
        await pipelines.reach(failed.name, "FAILED")
        assert [each.display_name async for each in await serving.models.list_models(parent=PARENT)] == [
            "answers"
        ]
