"""Google's own pipeline components (google-cloud-pipeline-components), run without their launchers.

A component of Google is a container with a launcher, a module of google_cloud_pipeline_components that calls
the API with a payload and waits. Here the emulator makes the same call. Payloads and outputs follow version
2.22.0.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from google.cloud.aiplatform_v1.types import endpoint as endpoint_types
from google.cloud.aiplatform_v1.types import endpoint_service, job_service, model_service
from google.cloud.aiplatform_v1.types import operation as operation_types
from google.protobuf import json_format
from google.rpc import code_pb2

from tui.domain.document.decoding import decode_json
from tui.emulator.interfaces import CustomJobPb
from tui.emulator.messages import Pb
from tui.emulator.pipelines.children import ApiCall, Children, NewChild
from tui.emulator.pipelines.planner import Leaf, PlanNode, Values
from tui.emulator.rpc.methods import WireError, message_class
from tui.emulator.rpc.project_names import with_project_id, with_project_number
from tui.emulator.vertex.validate import spec_problems

Json = Mapping[str, Any]

PACKAGE = "google_cloud_pipeline_components"
CUSTOM_JOB, TUNING_JOB, GET_MODEL = "CustomJob", "HyperparameterTuningJob", "GetModel"
RUN_LABEL = "vertex-ai-pipelines-run-billing-id"
"""Label of every resource that Google's components create, in addition to the labels of the pipeline job."""
_MODULE = re.compile(rf"{PACKAGE}\.container\.v1\.(?P<name>[a-z_.]+)\.launcher")
_LAUNCHERS = {
    "custom_job": CUSTOM_JOB,
    "hyperparameter_tuning_job": TUNING_JOB,
    "model.upload_model": "UploadModel",
    "model.get_model": GET_MODEL,
    "model.delete_model": "DeleteModel",
    "endpoint.create_endpoint": "CreateEndpoint",
    "endpoint.delete_endpoint": "DeleteEndpoint",
    "endpoint.deploy_model": "DeployModel",
    "endpoint.undeploy_model": "UndeployModel",
}
"""Action of each supported launcher, by its module."""
_SERVED = (
    "CustomTrainingJobOp, HyperparameterTuningJobRunOp, ModelUploadOp, ModelGetOp, ModelDeleteOp, "
    "EndpointCreateOp, EndpointDeleteOp, ModelDeployOp and ModelUndeployOp"
)


class BadComponent(Exception):
    """The component can't be run. The message gives the reason."""


@dataclass(frozen=True, slots=True)
class Launch:
    """Request to a launcher: its `type`, its flags by name, and the payload without empty fields."""

    type: str
    flags: Mapping[str, str]
    payload: dict[str, Any]
    inputs: Values
    labels: Mapping[str, str]
    name: str
    """Default display name of a job."""
    parent: str
    """The location that the flags name; by default the location of the pipeline."""
    pipeline: str
    """Name of the pipeline job."""


def is_googles(leaf: Leaf) -> bool:
    """Return whether a leaf is a component of Google that calls the API."""
    return _module(leaf) != ""


def is_custom_job(leaf: Leaf) -> bool:
    """Return whether a leaf creates a custom job."""
    return _kind(_module(leaf)) == CUSTOM_JOB


def read_launch(
    node: PlanNode, args: list[str], labels: Mapping[str, str], name: str, pipeline: str
) -> Launch:
    """Parse the request to a leaf's launcher from its arguments. `pipeline` is the name of the job with
    `labels`.

    Raises:
        BadComponent: the emulator does not run the component, or the payload is not a JSON object.
    """
    leaf = node.leaf
    assert leaf is not None
    module = _module(leaf)
    kind = _kind(module)
    flags = dict(zip(args[::2], args[1::2], strict=False))
    requested = flags.get("--type", kind)
    if kind is None or requested != kind:
        component = f"{module}, --type {requested}" if kind is not None else module
        raise BadComponent(
            f"the emulator does not run Google's component {node.title!r} ({component}); it runs {_SERVED}"
        )
    payload: Any = {}
    if kind != GET_MODEL:
        try:
            payload = decode_json(flags.get("--payload", ""), strict=False)
        except ValueError as error:
            raise BadComponent(f"the payload of {node.title!r} must be JSON: {error}") from error
        if not isinstance(payload, dict):
            raise BadComponent(f"the payload of {node.title!r} must be a JSON object")
    project, location = _place(pipeline.rpartition("/pipelineJobs/")[0])
    where = f"projects/{flags.get('--project') or project}/locations/{flags.get('--location') or location}"
    return Launch(kind, flags, payload, node.inputs, labels, name, where, pipeline)


def custom_job(launch: Launch) -> Pb:
    """Return the custom job of CustomTrainingJobOp. Raises BadComponent."""
    payload = without_empty(_labelled(launch))
    scheduling = (payload.get("job_spec") or {}).get("scheduling") or {}
    if scheduling.get("strategy") != "FLEX_START":
        # The component has a default for max_wait_duration, which the launcher drops.
        scheduling.pop("max_wait_duration", None)
    job = _parsed(payload, CustomJobPb(), "custom job", ignore_unknown=True)
    job.display_name = job.display_name or launch.name[:128]
    wrong = [f"{where} {problem}" for where, problem in spec_problems(job.job_spec)]
    if wrong:
        raise BadComponent(f"the service would refuse the component's job: {'; '.join(wrong)}")
    return job


def tuning_job_request(launch: Launch) -> Pb:
    """Return the request of HyperparameterTuningJobRunOp. Raises BadComponent."""
    request = job_service.CreateHyperparameterTuningJobRequest.pb()(parent=launch.parent)
    payload = without_empty(_labelled(launch))
    _parsed(payload, request.hyperparameter_tuning_job, "hyperparameter tuning job")
    return request


def call_of(launch: Launch, children: Children) -> ApiCall:
    """Return the operation of any other component. Raises BadComponent."""
    return _CALLS[launch.type](launch, children)


async def model_read(launch: Launch, node: PlanNode, children: Children) -> Values:
    """Return the outputs of ModelGetOp, which starts nothing. Raises WireError."""
    name = f"{launch.parent}/models/{launch.flags.get('--model_name', '')}"
    request = model_service.GetModelRequest.pb()(name=name)
    model: Any = await children.methods["GetModel"](request)
    return Values({}, _artifact(node, "model", f"{model.name.partition('@')[0]}@{model.version_id}"))


def started_outputs(name: str) -> Values:
    """Return the outputs that a launcher writes once the child with this name exists."""
    collection = name.split("/")[-2]
    kind = {"customJobs": CUSTOM_JOB, "hyperparameterTuningJobs": TUNING_JOB}.get(collection, "VertexLro")
    resources = [{"resourceType": kind, "resourceUri": f"{_address(name)}{with_project_number(name)}"}]
    return Values({"gcp_resources": json.dumps({"resources": resources}, indent=2)})


def ended_outputs(node: PlanNode, name: str, reply: Any) -> Values:
    """Return the outputs of a task whose child has succeeded; `reply` is the response of an operation."""
    begun = started_outputs(name)
    uploaded, endpoint = model_service.UploadModelResponse.pb()(), endpoint_types.Endpoint.pb()()
    artifacts: dict[str, Any] = {}
    if reply is not None and reply.Unpack(uploaded):
        version = f"@{uploaded.model_version_id}" if uploaded.model_version_id else ""
        artifacts = _artifact(node, "model", f"{uploaded.model}{version}")
    elif reply is not None and reply.Unpack(endpoint):
        artifacts = _artifact(node, "endpoint", endpoint.name)
    return Values(begun.parameters, artifacts)


def without_empty(value: Any) -> Any:
    """Return the JSON without empty fields, as the launchers send it: 0 and false are empty too."""
    if isinstance(value, Mapping):
        kept = {name: without_empty(inner) for name, inner in value.items()}
        return {name: inner for name, inner in kept.items() if inner}
    if isinstance(value, list):
        items = [without_empty(inner) for inner in value]
        return [item for item in items if item or isinstance(item, bool | int | float | str)]
    return value


def _upload(launch: Launch, children: Children) -> ApiCall:
    payload = _labelled(launch)
    unmanaged = launch.inputs.artifacts.get("unmanaged_container_model")
    if unmanaged:
        metadata = unmanaged[0].get("metadata") or {}
        payload["predict_schemata"] = metadata.get("predictSchemata") or {}
        payload["container_spec"] = metadata.get("containerSpec") or {}
        payload["artifact_uri"] = unmanaged[0].get("uri")
    explained = (payload.get("explanation_spec") or {}).get("metadata")
    payload = without_empty(payload)
    if explained:
        # The empty outputs of an explanation have a meaning.
        payload["explanation_spec"] = {**payload.get("explanation_spec", {}), "metadata": explained}
    request = model_service.UploadModelRequest.pb()(parent=launch.parent)
    if payload.get("pipeline_job"):
        # The component names the run by its number, which differs from its name here.
        payload["pipeline_job"] = launch.pipeline
    request.parent_model = launch.flags.get("--parent_model_name", "").rsplit("@", 1)[0]
    _parsed(payload, request.model, "model")
    return _call(children, "UploadModel", launch.parent, request, model_service)


def _create_endpoint(launch: Launch, children: Children) -> ApiCall:
    request = endpoint_service.CreateEndpointRequest.pb()(parent=launch.parent)
    _parsed(without_empty(_labelled(launch)), request.endpoint, "endpoint")
    return _call(children, "CreateEndpoint", launch.parent, request, endpoint_service)


def _deploy(launch: Launch, children: Children) -> ApiCall:
    request = endpoint_service.DeployModelRequest.pb()()
    _parsed(without_empty(launch.payload), request, "deployment")
    endpoint = _resource(request.endpoint, "endpoints")
    return _call(children, "DeployModel", endpoint, request, endpoint_service)


def _undeploy(launch: Launch, children: Children) -> ApiCall:
    undeployment = endpoint_service.UndeployModelRequest.pb()()
    payload = without_empty(launch.payload)
    full = _resource(payload.pop("model", ""), "models")
    model, _, version = full.partition("@")
    _parsed(payload, undeployment, "undeployment")
    endpoint = _resource(undeployment.endpoint, "endpoints")

    async def request(again: bool) -> Pb | None:
        get_endpoint = endpoint_service.GetEndpointRequest.pb()(name=endpoint)
        present: Any = await children.methods["GetEndpoint"](get_endpoint)
        for deployed in present.deployed_models:
            if deployed.model == with_project_number(model) and version in {"", deployed.model_version_id}:
                undeployment.deployed_model_id = deployed.id
                return undeployment
        if again:
            # The method first removes the model from the endpoint, and was interrupted after that.
            return None
        raise WireError(code_pb2.NOT_FOUND, f"Model {full} not found at endpoint {endpoint}.")

    metadata = endpoint_service.UndeployModelOperationMetadata.pb()()
    reply = endpoint_service.UndeployModelResponse.pb()()
    return ApiCall(endpoint, metadata, children.methods["UndeployModel"], request, reply)


def _delete_endpoint(launch: Launch, children: Children) -> ApiCall:
    name = _resource(launch.payload.get("endpoint"), "endpoints")
    request = endpoint_service.DeleteEndpointRequest.pb()(name=name)
    return _call(children, "DeleteEndpoint", name, request)


def _delete_model(launch: Launch, children: Children) -> ApiCall:
    # Delete all versions, as the launcher does.
    name = _resource(launch.payload.get("model"), "models").rsplit("@", 1)[0]
    request = model_service.DeleteModelRequest.pb()(name=name)
    return _call(children, "DeleteModel", name, request)


_CALLS: Mapping[str, Callable[[Launch, Children], ApiCall]] = {
    "UploadModel": _upload,
    "CreateEndpoint": _create_endpoint,
    "DeployModel": _deploy,
    "UndeployModel": _undeploy,
    "DeleteEndpoint": _delete_endpoint,
    "DeleteModel": _delete_model,
}


def new_child(launch: Launch, children: Children) -> NewChild:
    """Return the child of a launch. Raises BadComponent, WireError."""
    if launch.type == CUSTOM_JOB:
        return children.custom_job(*_place(launch.parent), custom_job(launch))
    if launch.type == TUNING_JOB:
        request = tuning_job_request(launch)
        children.check_tuning(request)
        job = request.hyperparameter_tuning_job
        return children.tuning_job(*_place(launch.parent), job, started_outputs)
    return children.operation(call_of(launch, children), started_outputs)


def _module(leaf: Leaf) -> str:
    """Return the module of Google's package that a leaf runs, or "" if there is none."""
    container = leaf.executor.container or {}
    words = [str(word) for word in container.get("command") or []]
    return next((word for word in words if word.startswith(f"{PACKAGE}.")), "")


def _kind(module: str) -> str | None:
    match = _MODULE.fullmatch(module)
    return _LAUNCHERS.get(match["name"]) if match else None


def _labelled(launch: Launch) -> dict[str, Any]:
    """Return the payload with the labels of the pipeline; its own labels take precedence."""
    return {**launch.payload, "labels": {**launch.labels, **(launch.payload.get("labels") or {})}}


def _parsed(payload: Json, into: Pb, noun: str, *, ignore_unknown: bool = False) -> Pb:
    try:
        return json_format.ParseDict(payload, into, ignore_unknown_fields=ignore_unknown)
    except json_format.ParseError as error:
        raise BadComponent(f"the payload of the component must be a {noun}: {error}") from error


def _resource(name: Any, collection: str) -> str:
    """Return the name of a resource in a payload, with the project's id. Raises BadComponent."""
    if not isinstance(name, str) or not re.fullmatch(
        rf"projects/[^/]+/locations/[^/]+/{collection}/[^/]+", name
    ):
        form = f"projects/[project_id]/locations/[location]/{collection}/[id]"
        raise BadComponent(f"{name!r} must have the form {form}")
    return with_project_id(name)


def _call(children: Children, method: str, parent: str, request: Pb, types: Any = None) -> ApiCall:
    """Prepare a call. `types` has the metadata of the operation, unless it is a deletion."""
    name = "Delete" if types is None else method
    metadata = message_class(types or operation_types, f"{name}OperationMetadata")()

    async def same(_again: bool) -> Pb:
        return request

    return ApiCall(parent, metadata, children.methods[method], same)


def _artifact(node: PlanNode, name: str, resource: str) -> dict[str, Any]:
    """Return the output artifact of a component, which represents a resource of the API."""
    leaf = node.leaf
    assert leaf is not None
    kind = dict(leaf.component.artifacts.get(name) or {})
    uri, metadata = f"{_address(resource)}{resource}", {"resourceName": resource}
    return {name: [{"name": name, "type": kind, "uri": uri, "metadata": metadata}]}


def _address(name: str) -> str:
    """Return the URL prefix that launchers write before a resource's name."""
    return f"https://{name.split('/')[3]}-aiplatform.googleapis.com/v1/"


def _place(parent: str) -> tuple[str, str]:
    _, project, _, location = parent.split("/")
    return project, location
