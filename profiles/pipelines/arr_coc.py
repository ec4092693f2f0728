"""The pipeline of arr-coc: a sweep, four stages of training, and a canary release.

It compiles to `arr-coc.yaml` beside it, with kfp 2.17.0 and google-cloud-pipeline-components 2.22.0:

    python profiles/pipelines/arr_coc.py

Training and evaluation are custom jobs, whose machines, number and Spot are parameters; the steps between
them use the trainer's image, so they install nothing at run time.
"""

# ruff: noqa: PLR0917 - kfp calls them by name; it also needs annotations that are not strings

import copy
import os
import sys
from pathlib import Path

from google_cloud_pipeline_components import _placeholders
from google_cloud_pipeline_components.types.artifact_types import UnmanagedContainerModel, VertexModel
from google_cloud_pipeline_components.v1.custom_job import CustomTrainingJobOp
from google_cloud_pipeline_components.v1.hyperparameter_tuning_job import HyperparameterTuningJobRunOp
from google_cloud_pipeline_components.v1.model import ModelUploadOp
from kfp import compiler, dsl

IMAGE = os.environ.get("TRAINER_IMAGE", "us-docker.pkg.dev/vxtui/vxtui/trainer:latest")
PROJECT, LOCATION = _placeholders.PROJECT_ID_PLACEHOLDER, _placeholders.LOCATION_PLACEHOLDER


def named(component, name: str):
    """Copy a component under another name, which its tasks show."""
    renamed = copy.deepcopy(component)
    renamed.name = renamed.component_spec.name = name
    return renamed


def repeated(task):
    """Retry a task that calls Vertex AI, which is safe: each step first reads the present state."""
    return task.set_retry(num_retries=2)


def step(image: str, name: str, *args) -> dsl.ContainerSpec:
    """Run a step of the trainer; `args` are flags and their values."""
    return dsl.ContainerSpec(image=image, command=["python", "-m", "trainer.pipeline", name], args=list(args))


@dsl.container_component
def plan_sweep(pools: list, steps: int, samples: int, sweep: dsl.OutputPath(list)):
    return step(
        IMAGE, "plan-sweep", "--pools", pools, "--steps", steps, "--samples", samples, "--sweep-out", sweep
    )


@dsl.container_component
def plan_stages(
    tuning_job: str,
    pools: list,
    steps: int,
    samples: int,
    folder: str,
    texture: dsl.OutputPath(list),
    scorers: dsl.OutputPath(list),
    quality: dsl.OutputPath(list),
    integration: dsl.OutputPath(list),
    evaluation: dsl.OutputPath(list),
    result: dsl.OutputPath(str),
    baseline: dsl.OutputPath(str),
    candidate: dsl.OutputPath(str),
    best: dsl.OutputPath(str),
    loss: dsl.OutputPath(float),
):
    return step(
        IMAGE, "plan-stages", "--tuning-job", tuning_job, "--pools", pools, "--steps", steps,
        "--samples", samples, "--folder", folder, "--texture-out", texture, "--scorers-out", scorers,
        "--quality-out", quality, "--integration-out", integration, "--evaluation-out", evaluation,
        "--result-out", result, "--baseline-out", baseline, "--candidate-out", candidate,
        "--best-out", best, "--loss-out", loss,
    )  # fmt: skip


@dsl.container_component
def read_evaluation(result: str, likelihood: dsl.OutputPath(float), accuracy: dsl.OutputPath(float)):
    return step(
        IMAGE, "read-evaluation", "--result", result, "--likelihood-out", likelihood,
        "--accuracy-out", accuracy,
    )  # fmt: skip


@dsl.container_component
def prepare_endpoint(
    project: str,
    location: str,
    endpoint_name: str,
    model_name: str,
    baseline: str,
    image: str,
    machine_type: str,
    accelerator_type: str,
    accelerator_count: int,
    endpoint: dsl.OutputPath(str),
    stable: dsl.Output[VertexModel],
):
    return step(
        IMAGE, "prepare-endpoint", "--project", project, "--location", location,
        "--endpoint-name", endpoint_name, "--model-name", model_name, "--baseline", baseline,
        "--image", image, "--machine-type", machine_type, "--accelerator-type", accelerator_type,
        "--accelerator-count", accelerator_count, "--endpoint-out", endpoint, "--executor-input", "{{$}}",
    )  # fmt: skip


@dsl.container_component
def deploy_canary(
    endpoint: str,
    model: dsl.Input[VertexModel],
    percent: int,
    machine_type: str,
    accelerator_type: str,
    accelerator_count: int,
    deployed: dsl.OutputPath(str),
):
    return step(
        IMAGE, "deploy-canary", "--endpoint", endpoint, "--model", model.metadata["resourceName"],
        "--percent", percent, "--machine-type", machine_type, "--accelerator-type", accelerator_type,
        "--accelerator-count", accelerator_count, "--deployed-out", deployed,
    )  # fmt: skip


@dsl.container_component
def check_canary(
    endpoint: str,
    deployed: str,
    requests: int,
    max_error_rate: float,
    max_latency: float,
    questions: str,
    passed: dsl.OutputPath(bool),
    error_rate: dsl.OutputPath(float),
    latency: dsl.OutputPath(float),
    answers: dsl.OutputPath(int),
):
    return step(
        IMAGE, "check-canary", "--endpoint", endpoint, "--deployed", deployed, "--requests", requests,
        "--max-error-rate", max_error_rate, "--max-latency", max_latency, "--questions", questions,
        "--passed-out", passed, "--error-rate-out", error_rate, "--latency-out", latency,
        "--answers-out", answers,
    )  # fmt: skip


@dsl.container_component
def promote(endpoint: str, deployed: str):
    return step(IMAGE, "promote", "--endpoint", endpoint, "--deployed", deployed)


@dsl.container_component
def roll_back(endpoint: str, deployed: str):
    return step(IMAGE, "roll-back", "--endpoint", endpoint, "--deployed", deployed)


def release(*, baseline, candidate, image, model_name, endpoint_name, **settings):
    """Create the tasks of the release, without the cache, since an endpoint changes."""
    machine = {name: settings[name] for name in ("machine_type", "accelerator_type", "accelerator_count")}
    prepared = prepare_endpoint(
        project=PROJECT, location=LOCATION, endpoint_name=endpoint_name, model_name=model_name,
        baseline=baseline, image=image, **machine,
    ).set_caching_options(False)  # fmt: skip
    repeated(prepared)
    served = {
        "imageUri": image, "command": ["python", "-m", "trainer.serving"],
        "predictRoute": "/predict", "healthRoute": "/health", "ports": [{"containerPort": 8080}],
    }  # fmt: skip
    unmanaged = dsl.importer(
        artifact_uri=candidate, artifact_class=UnmanagedContainerModel, metadata={"containerSpec": served}
    )
    uploaded = named(ModelUploadOp, "register")(
        display_name=model_name,
        unmanaged_container_model=unmanaged.outputs["artifact"],
        parent_model=prepared.outputs["stable"],
        version_aliases=["candidate"],
        location=LOCATION,
    ).set_caching_options(False)
    canary = deploy_canary(
        endpoint=prepared.outputs["endpoint"], model=uploaded.outputs["model"],
        percent=settings["canary_percent"], **machine,
    ).set_caching_options(False)  # fmt: skip
    repeated(canary)
    place = {"endpoint": prepared.outputs["endpoint"], "deployed": canary.outputs["deployed"]}
    checked = check_canary(
        **place, requests=settings["canary_requests"], max_error_rate=settings["max_error_rate"],
        max_latency=settings["max_latency"], questions=settings["questions"],
    ).set_caching_options(False)  # fmt: skip
    repeated(checked)
    with dsl.If(checked.outputs["passed"] == True, name="canary-is-good"):  # noqa: E712 - a channel
        repeated(promote(**place).set_caching_options(False))
    with dsl.Else(name="canary-is-bad"):
        roll_back(**place).set_caching_options(False)


@dsl.pipeline(name="arr-coc", description="Sweep, four stages, evaluation, canary")
def arr_coc(
    pools: list,
    folder: str,
    sweep: list,
    trials: int = 4,
    parallel_trials: int = 2,
    sweep_steps: int = 8,
    steps: int = 24,
    samples: int = 32,
    strategy: str = "STANDARD",
    timeout: str = "86400s",
    bar: float = 0.5,
    model_name: str = "arr-coc",
    endpoint_name: str = "arr-coc",
    image: str = IMAGE,
    machine_type: str = "n1-standard-4",
    accelerator_type: str = "",
    accelerator_count: int = 0,
    canary_percent: int = 10,
    canary_requests: int = 40,
    max_error_rate: float = 0.0,
    max_latency: float = 5.0,
    questions: str = "",
):
    planned = plan_sweep(pools=pools, steps=sweep_steps, samples=samples)
    tuned = named(HyperparameterTuningJobRunOp, "sweep")(
        display_name="arr-coc-sweep",
        base_output_directory=folder,
        worker_pool_specs=planned.outputs["sweep"],
        study_spec_metrics=[{"metric_id": "loss", "goal": 2}],
        study_spec_parameters=sweep,
        study_spec_algorithm="GRID_SEARCH",
        max_trial_count=trials,
        parallel_trial_count=parallel_trials,
        location=LOCATION,
    )
    stages = plan_stages(
        tuning_job=tuned.outputs["gcp_resources"], pools=pools, steps=steps, samples=samples, folder=folder
    )
    repeated(stages)
    before = None
    for name in ("texture", "scorers", "quality", "integration", "evaluation"):
        job = named(CustomTrainingJobOp, name)(
            display_name=f"arr-coc-{name}",
            worker_pool_specs=stages.outputs[name],
            strategy=strategy,
            timeout=timeout,
        )
        if before is not None:
            job.after(before)
        before = job
    judged = read_evaluation(result=stages.outputs["result"]).after(before)
    with dsl.If(judged.outputs["likelihood"] >= bar, name="good-enough"):
        release(
            baseline=stages.outputs["baseline"], candidate=stages.outputs["candidate"], image=image,
            model_name=model_name, endpoint_name=endpoint_name, machine_type=machine_type,
            accelerator_type=accelerator_type, accelerator_count=accelerator_count,
            canary_percent=canary_percent, canary_requests=canary_requests,
            max_error_rate=max_error_rate, max_latency=max_latency, questions=questions,
        )  # fmt: skip


if __name__ == "__main__":
    out = sys.argv[1] if len(sys.argv) > 1 else str(Path(__file__).with_name("arr-coc.yaml"))
    compiler.Compiler().compile(arr_coc, out)
