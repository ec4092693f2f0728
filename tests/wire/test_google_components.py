"""Google's pipeline components, as their compiler wrote them: each calls the emulator's own services."""

from __future__ import annotations

import json
import signal

import pytest
from google.api_core import exceptions
from google.cloud.aiplatform_v1.types.pipeline_job import PipelineTaskDetail

from tests.waiting import until
from tests.wire.control import PARENT, Clients, served, state_dir
from tests.wire.google_components_support import REPORTS, compiled
from tests.wire.pipelines import Pipelines, pipelines, said, states, tasks
from tests.wire.serving import SERVER, Serving
from tests.wire.tuning_support import REPORT

NEVER_HEALTHY = "import time; time.sleep(600)"
LABELS = {"run": "one"}


def resource(task: PipelineTaskDetail, name: str) -> str:
    """The name of the resource that an output artifact stands for."""
    (artifact,) = task.outputs[name].artifacts
    found = str(artifact.metadata["resourceName"])
    assert artifact.uri == f"https://us-central1-aiplatform.googleapis.com/v1/{found}"
    return found


def gcp_resource(task: PipelineTaskDetail) -> tuple[str, str]:
    """The type and the name of what a launcher says it has made."""
    (found,) = json.loads(said(task, "output")["gcp_resources"])["resources"]
    before, _, name = found["resourceUri"].partition("/v1/")
    assert before == "https://us-central1-aiplatform.googleapis.com"
    return found["resourceType"], name


async def test_models_are_uploaded_deployed_and_deleted_by_components() -> None:
    async with pipelines() as found:
        serving = Serving(found.jobs.channel)
        runtime = {"parameter_values": {"uri": "gs://pipelines/weights"}}
        job = await found.run(compiled("deployment", SERVER), labels=LABELS, runtime_config=runtime)
        assert not job.error.message, job.error
        details = tasks(job)
        first = resource(details["model-upload"], "model")
        second = resource(details["model-upload-2"], "model")
        assert first.endswith("@1") and second == first.removesuffix("1") + "2"
        kind, operation = gcp_resource(details["model-upload"])
        assert kind == "VertexLro"
        told = await serving.models.transport.operations_client.get_operation(operation)
        assert told.done and "UploadModelResponse" in told.response.type_url
        model = await serving.models.get_model(name=second)
        assert model.artifact_uri == "gs://pipelines/weights" and "canary" in model.version_aliases
        assert model.pipeline_job == job.name
        # Labels of a model are those of its first version.
        (run,) = (value for name, value in model.labels.items() if name.startswith("vertex-ai-pipelines"))
        assert model.labels["team"] == "a" and model.labels["run"] == "one" and run.isdigit()
        endpoint = await serving.endpoints.get_endpoint(name=resource(details["endpoint-create"], "endpoint"))
        (deployed,) = endpoint.deployed_models
        assert (deployed.display_name, deployed.model_version_id) == ("scorer", "2")
        assert deployed.dedicated_resources.max_replica_count == 1
        assert dict(endpoint.traffic_split) == {deployed.id: 100} and endpoint.labels["run"] == "one"
        assert await serving.ask(endpoint.name, "x") == [["x", None]]

        values = {
            "model": model.name.rpartition("/")[2] + "@2", "endpoint": endpoint.name,
            "endpoint_uri": f"https://us-central1-aiplatform.googleapis.com/v1/{endpoint.name}",
        }  # fmt: skip
        gone = await found.run(compiled("removal"), runtime_config={"parameter_values": values})
        assert not gone.error.message and set(states(gone).values()) == {"SUCCEEDED"}
        assert resource(tasks(gone)["model-get"], "model") == second
        with pytest.raises(exceptions.NotFound):
            await serving.models.get_model(name=model.name)
        with pytest.raises(exceptions.NotFound):
            await serving.endpoints.get_endpoint(name=endpoint.name)


async def test_a_tuning_job_of_a_component_is_one_with_trials() -> None:
    async with pipelines() as found:
        job = await found.run(compiled("tuning", REPORTS), labels=LABELS)
        assert not job.error.message, job.error
        (task,) = tasks(job).values()
        kind, name = gcp_resource(task)
        assert kind == "HyperparameterTuningJob"
        child = await found.jobs.jobs.get_hyperparameter_tuning_job(name=name)
        assert child.state.name == "JOB_STATE_SUCCEEDED" and child.display_name == "study"
        assert child.labels["run"] == "one" and child.study_spec.algorithm.name == "RANDOM_SEARCH"
        assert len(child.trials) == 3 and all(trial.final_measurement.metrics for trial in child.trials)
        trial = await found.jobs.get(child.trials[0].custom_job)
        assert trial.job_spec.base_output_directory.output_uri_prefix.startswith("gs://pipelines/study")


CALLS = f"""
import grpc, os
from google.cloud.aiplatform_v1.services.endpoint_service import EndpointServiceClient
from google.cloud.aiplatform_v1.services.endpoint_service.transports import EndpointServiceGrpcTransport
channel = grpc.insecure_channel(os.environ["AIPLATFORM_EMULATOR_HOST"])
client = EndpointServiceClient(transport=EndpointServiceGrpcTransport(channel=channel))
client.create_endpoint(parent={PARENT!r}, endpoint={{"display_name": "of a replica"}}).result()
"""


async def test_a_custom_job_of_a_component_is_one_and_its_code_calls_the_api() -> None:
    async with pipelines() as found:
        job = await found.run(compiled("training", CALLS), labels=LABELS)
        assert not job.error.message, job.error
        (task,) = tasks(job).values()
        kind, name = gcp_resource(task)
        assert kind == "CustomJob" and name == task.executor_detail.custom_job_detail.job
        child = await found.jobs.get(name)
        assert child.display_name == "training" and child.labels["run"] == "one"
        listed = await Serving(found.jobs.channel).endpoints.list_endpoints(parent=PARENT)
        assert [each.display_name async for each in listed] == ["of a replica"]


async def test_a_component_that_is_not_run_or_is_refused_says_why() -> None:
    async with pipelines() as found:
        missing = await found.run(compiled("unsupported"))
        failed = tasks(missing)["model-get"]
        assert failed.state.name == "FAILED" and "models/none does not exist" in failed.error.message
        spec = compiled("unsupported")
        tasks_of_root = spec["root"]["dag"]["tasks"]
        batch = tasks_of_root["model-batch-predict"]
        del tasks_of_root["model-get"], batch["dependentTasks"], batch["inputs"]["artifacts"]
        told = tasks(await found.run(spec))["model-batch-predict"]
        assert "'model-batch-predict' (google_cloud_pipeline_components." in told.error.message
        assert "it runs CustomTrainingJobOp, HyperparameterTuningJobRunOp, " in told.error.message
        refused = await found.run(compiled("tuning"), runtime_config={"parameter_values": {"trials": 0}})
        (task,) = tasks(refused).values()
        assert "max_trial_count; Message: must be at least 1, not 0" in task.error.message


async def _begun(found: Pipelines, name: str) -> str:
    """The tuning job of a pipeline, once it has a trial."""

    async def look() -> str:
        for task in tasks(await found.get(name)).values():
            if "gcp_resources" in said(task, "output"):
                child = gcp_resource(task)[1]
                job = await found.jobs.jobs.get_hyperparameter_tuning_job(name=child)
                return child if job.trials else ""
        return ""

    return str(await until(look, "a trial"))


async def test_a_cancel_ends_what_components_have_begun() -> None:
    async with pipelines() as found:
        studies = await found.create(compiled("tuning", REPORT + "time.sleep(600)"))
        deploys = await found.create(compiled("deployment", NEVER_HEALTHY))
        child = await _begun(found, studies.name)

        async def deploying() -> bool:
            return states(await found.get(deploys.name)).get("model-deploy") == "RUNNING"

        await until(deploying, "the deployment")
        for job in (studies, deploys):
            await found.client.cancel_pipeline_job(name=job.name)
        for job, task in ((studies, "hyperparameter-tuning-job"), (deploys, "model-deploy")):
            ended = await found.reach(job.name, "CANCELLED")
            assert states(ended)[task] == "CANCELLED"
        job = await found.jobs.jobs.get_hyperparameter_tuning_job(name=child)
        assert job.state.name == "JOB_STATE_CANCELLED"
        serving = Serving(found.jobs.channel)
        details = tasks(await found.get(deploys.name))
        endpoint = resource(details["endpoint-create"], "endpoint")
        assert not (await serving.endpoints.get_endpoint(name=endpoint)).deployed_models
        operation = gcp_resource(details["model-deploy"])[1]
        told = await serving.endpoints.transport.operations_client.get_operation(operation)
        assert told.done and told.error.message == "The operation was cancelled."


# Seconds: three servers in processes of their own, two of which are killed.
async def test_a_killed_server_neither_loses_nor_repeats_what_components_have_begun() -> None:
    with state_dir() as state:
        state.prepare()
        state.config.write_text("provisioning_seconds: 0\nsample_period: 60\ncancel_grace_seconds: 1\n")
        ready = state.root / "ready"
        wait = f"import pathlib, time\nwhile not pathlib.Path({str(ready)!r}).exists(): time.sleep(0.05)\n"
        async with served(state, signal.SIGKILL) as clients:
            found = Pipelines(clients)
            studies = await found.create(compiled("tuning", wait + REPORTS))
            deploys = await found.create(compiled("deployment", wait + SERVER))
            child = await _begun(found, studies.name)

            async def deploying() -> bool:
                return states(await found.get(deploys.name)).get("model-deploy") == "RUNNING"

            await until(deploying, "the deployment")
        async with served(state, signal.SIGKILL) as clients:
            found = Pipelines(clients)
            assert (await found.get(deploys.name)).state.name == "PIPELINE_STATE_RUNNING"
        ready.touch()
        async with served(state) as clients:
            await _ended_once(clients, studies.name, deploys.name, child)


async def _ended_once(clients: Clients, studies: str, deploys: str, child: str) -> None:
    found, serving = Pipelines(clients), Serving(clients.channel)
    for name in (studies, deploys):
        assert not (await found.reach(name, "SUCCEEDED")).error.message
    (task,) = tasks(await found.get(studies)).values()
    assert gcp_resource(task)[1] == child
    listed = [job async for job in await clients.jobs.list_hyperparameter_tuning_jobs(parent=PARENT)]
    assert [job.name for job in listed] == [child]
    assert len((await clients.jobs.get_hyperparameter_tuning_job(name=child)).trials) == 3
    endpoints = [each async for each in await serving.endpoints.list_endpoints(parent=PARENT)]
    assert [len(each.deployed_models) for each in endpoints] == [1]
    models = [each async for each in await serving.models.list_models(parent=PARENT)]
    assert len(models) == 1
    versions = [each async for each in await serving.models.list_model_versions(name=models[0].name)]
    assert {each.version_id for each in versions} == {"1", "2"}
    assert await serving.ask(endpoints[0].name, "x") == [["x", None]]
