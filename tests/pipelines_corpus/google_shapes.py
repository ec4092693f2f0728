"""Small pipelines of Google's own components, which only a service of Vertex AI runs."""

from google.cloud.aiplatform import hyperparameter_tuning
from google_cloud_pipeline_components.types import artifact_types
from google_cloud_pipeline_components.v1.batch_predict_job import ModelBatchPredictOp
from google_cloud_pipeline_components.v1.custom_job import CustomTrainingJobOp
from google_cloud_pipeline_components.v1.endpoint import (
    EndpointCreateOp,
    EndpointDeleteOp,
    ModelDeployOp,
    ModelUndeployOp,
)
from google_cloud_pipeline_components.v1.hyperparameter_tuning_job import (
    HyperparameterTuningJobRunOp,
    serialize_metrics,
    serialize_parameters,
)
from google_cloud_pipeline_components.v1.model import ModelDeleteOp, ModelGetOp, ModelUploadOp
from kfp import dsl

MACHINE = {"dedicated_resources_machine_type": "n1-standard-4", "dedicated_resources_min_replica_count": 1}
POOLS = [
    {
        "machine_spec": {"machine_type": "n1-standard-4"},
        "replica_count": 1,
        "container_spec": {"image_uri": "python:3.11", "command": ["COMMAND"], "args": ["ARGUMENT"]},
    }
]


def served_model(uri: str):
    """A model that a server answers for; the tests put their own command in the place of COMMAND."""
    spec = {"imageUri": "python:3.11", "command": ["COMMAND", "ARGUMENT"]}
    return dsl.importer(
        artifact_uri=uri,
        artifact_class=artifact_types.UnmanagedContainerModel,
        metadata={"containerSpec": spec},
    ).outputs["artifact"]


@dsl.pipeline
def deployment(uri: str = "gs://pipelines/model") -> None:
    """Upload, a second version, deploy one of them, read it."""
    unmanaged = served_model(uri)
    first = ModelUploadOp(display_name="scorer", unmanaged_container_model=unmanaged, labels={"team": "a"})
    second = ModelUploadOp(
        display_name="scorer", unmanaged_container_model=unmanaged, parent_model=first.outputs["model"],
        version_aliases=["canary"],
    )  # fmt: skip
    endpoint = EndpointCreateOp(display_name="scoring")
    ModelDeployOp(
        model=second.outputs["model"], endpoint=endpoint.outputs["endpoint"], traffic_split={"0": 100},
        deployed_model_display_name="canary", **MACHINE,
    )  # fmt: skip


@dsl.pipeline
def removal(model: str, endpoint_uri: str, endpoint: str) -> None:
    """Take a model off its endpoint, and delete both."""
    found = ModelGetOp(model_name=model)
    where = dsl.importer(
        artifact_uri=endpoint_uri, artifact_class=artifact_types.VertexEndpoint,
        metadata={"resourceName": endpoint},
    )  # fmt: skip
    undeployed = ModelUndeployOp(model=found.outputs["model"], endpoint=where.outputs["artifact"])
    EndpointDeleteOp(endpoint=where.outputs["artifact"]).after(undeployed)
    ModelDeleteOp(model=found.outputs["model"]).after(undeployed)


@dsl.pipeline
def tuning(trials: int = 3) -> None:
    """A study, and a task after it."""
    parameters = {
        "rate": hyperparameter_tuning.DoubleParameterSpec(min=0, max=1, scale="linear"),
        "layers": hyperparameter_tuning.DiscreteParameterSpec(values=[1, 2], scale=None),
    }
    HyperparameterTuningJobRunOp(
        display_name="study",
        base_output_directory="gs://pipelines/study",
        worker_pool_specs=POOLS,
        study_spec_metrics=serialize_metrics({"loss": "minimize"}),
        study_spec_parameters=serialize_parameters(parameters),
        study_spec_algorithm="RANDOM_SEARCH",
        max_trial_count=trials,
        parallel_trial_count=2,
    )


@dsl.pipeline
def training() -> None:
    """A custom job."""
    CustomTrainingJobOp(display_name="training", worker_pool_specs=POOLS)


@dsl.pipeline
def unsupported() -> None:
    """A component that needs a service which the emulator does not have."""
    found = ModelGetOp(model_name="none")
    ModelBatchPredictOp(
        job_display_name="batch", model=found.outputs["model"], gcs_source_uris=["gs://pipelines/in"],
        gcs_destination_output_uri_prefix="gs://pipelines/out", machine_type="n1-standard-4",
    )  # fmt: skip


PIPELINES = {
    name: function
    for name, function in list(globals().items())
    if type(function).__name__ == "GraphComponent"
}
