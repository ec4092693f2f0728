"""The REST path of each RPC, as its service documents it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from tui.emulator.messages import snake_case
from tui.emulator.rpc.methods import Method

FIELD_SEPARATOR = "__"
_AIPLATFORM = "google.cloud.aiplatform.v1"
_OPERATION = "{name=projects/*/locations/**/operations/*}"


Binding = tuple[str, str, str]
"""HTTP method, path, and the field that the body fills: "*" means the entire request, "" no field."""


def _get(path: str) -> Binding:
    return "GET", path, ""


def _post(path: str) -> Binding:
    return "POST", path, "*"


def _operation(verb: str, suffix: str = "") -> tuple[Binding, ...]:
    """Return the paths of an RPC on one operation. The REST clients of models and endpoints use /ui/."""
    return tuple((verb, f"/{version}/{_OPERATION}{suffix}", "") for version in ("v1", "ui"))


_PARENT = "projects/*/locations/*"
_BINDINGS: dict[str, tuple[Binding, ...]] = {
    "Admin.Call": (_post("/vxtui/v1/admin"),),
    "Operations.GetOperation": _operation("GET"),
    "Operations.ListOperations": (
        _get(f"/v1/{{name={_PARENT}}}/operations"),
        _get(f"/v1/{{name={_PARENT}/customJobs/*}}/operations"),
        _get(f"/v1/{{name={_PARENT}/trainingPipelines/*}}/operations"),
    ),
    "Operations.WaitOperation": _operation("POST", ":wait"),
    "Operations.CancelOperation": _operation("POST", ":cancel"),
    "Operations.DeleteOperation": _operation("DELETE"),
    "Locations.ListLocations": (_get("/v1/{name=projects/*}/locations"),),
    "Locations.GetLocation": (_get(f"/v1/{{name={_PARENT}}}"),),
    "CloudQuotas.ListQuotaInfos": (_get("/v1/{parent=*/*/locations/*/services/*}/quotaInfos"),),
    "CloudQuotas.GetQuotaInfo": (_get("/v1/{name=*/*/locations/*/services/*/quotaInfos/*}"),),
    "MetricService.ListTimeSeries": (_get("/v3/{name=projects/*}/timeSeries"),),
    "MetricService.ListMetricDescriptors": (_get("/v3/{name=projects/*}/metricDescriptors"),),
    "MetricService.GetMetricDescriptor": (_get("/v3/{name=projects/*/metricDescriptors/**}"),),
    "LoggingServiceV2.WriteLogEntries": (_post("/v2/entries:write"),),
    "LoggingServiceV2.ListLogEntries": (_post("/v2/entries:list"),),
    "LoggingServiceV2.ListLogs": (_get("/v2/{parent=*/*}/logs"),),
    "LoggingServiceV2.DeleteLog": (("DELETE", "/v2/{log_name=*/*/logs/*}", ""),),
    "LoggingServiceV2.ListMonitoredResourceDescriptors": (_get("/v2/monitoredResourceDescriptors"),),
}
"""Paths by service and RPC."""

_STORE = "projects/*/locations/*/metadataStores/*"
_BOARD = "projects/*/locations/*/tensorboards/*"
_MODEL = "projects/*/locations/*/models/*"
_ENDPOINT = "projects/*/locations/*/endpoints/*"
_EXPERIMENT = f"{_BOARD}/experiments/*"
_RUN = f"{_EXPERIMENT}/runs/*"
_SERIES = f"{_RUN}/timeSeries/*"
_NESTED = {
    "Context": _STORE, "Execution": _STORE, "Artifact": _STORE, "MetadataSchema": _STORE,
    "TensorboardExperiment": _BOARD, "TensorboardRun": _EXPERIMENT, "TensorboardTimeSeries": _RUN,
}  # fmt: skip
"""Pattern of the parent resource for kinds of aiplatform that live below another resource."""
_SHORT = {
    "TensorboardExperiment": "experiments",
    "TensorboardRun": "runs",
    "TensorboardTimeSeries": "timeSeries",
}
_CONTEXT = f"{{context={_STORE}/contexts/*}}"
_VERBS: dict[str, Binding] = {
    "UploadModel": _post(f"/v1/{{parent={_PARENT}}}/models:upload"),
    "ListModelVersions": _get(f"/v1/{{name={_MODEL}}}:listVersions"),
    "DeleteModelVersion": ("DELETE", f"/v1/{{name={_MODEL}}}:deleteVersion", ""),
    "MergeVersionAliases": _post(f"/v1/{{name={_MODEL}}}:mergeVersionAliases"),
    "DeployModel": _post(f"/v1/{{endpoint={_ENDPOINT}}}:deployModel"),
    "UndeployModel": _post(f"/v1/{{endpoint={_ENDPOINT}}}:undeployModel"),
    "MutateDeployedModel": _post(f"/v1/{{endpoint={_ENDPOINT}}}:mutateDeployedModel"),
    "RebootPersistentResource": _post(f"/v1/{{name={_PARENT}/persistentResources/*}}:reboot"),
    "PauseSchedule": _post(f"/v1/{{name={_PARENT}/schedules/*}}:pause"),
    "ResumeSchedule": _post(f"/v1/{{name={_PARENT}/schedules/*}}:resume"),
    "BatchCancelPipelineJobs": _post(f"/v1/{{parent={_PARENT}}}/pipelineJobs:batchCancel"),
    "BatchDeletePipelineJobs": _post(f"/v1/{{parent={_PARENT}}}/pipelineJobs:batchDelete"),
    "Predict": _post(f"/v1/{{endpoint={_ENDPOINT}}}:predict"),
    "RawPredict": _post(f"/v1/{{endpoint={_ENDPOINT}}}:rawPredict"),
    "AddContextArtifactsAndExecutions": _post(f"/v1/{_CONTEXT}:addContextArtifactsAndExecutions"),
    "AddContextChildren": _post(f"/v1/{_CONTEXT}:addContextChildren"),
    "RemoveContextChildren": _post(f"/v1/{_CONTEXT}:removeContextChildren"),
    "QueryContextLineageSubgraph": _get(f"/v1/{_CONTEXT}:queryContextLineageSubgraph"),
    "AddExecutionEvents": _post(f"/v1/{{execution={_STORE}/executions/*}}:addExecutionEvents"),
    "QueryExecutionInputsAndOutputs": _get(
        f"/v1/{{execution={_STORE}/executions/*}}:queryExecutionInputsAndOutputs"
    ),
    "QueryArtifactLineageSubgraph": _get(
        f"/v1/{{artifact={_STORE}/artifacts/*}}:queryArtifactLineageSubgraph"
    ),
    "BatchCreateTensorboardRuns": _post(f"/v1/{{parent={_EXPERIMENT}}}/runs:batchCreate"),
    "BatchCreateTensorboardTimeSeries": _post(f"/v1/{{parent={_EXPERIMENT}}}:batchCreate"),
    "WriteTensorboardRunData": _post(f"/v1/{{tensorboard_run={_RUN}}}:write"),
    "WriteTensorboardExperimentData": _post(f"/v1/{{tensorboard_experiment={_EXPERIMENT}}}:write"),
    "ReadTensorboardTimeSeriesData": _get(f"/v1/{{tensorboard_time_series={_SERIES}}}:read"),
    "BatchReadTensorboardTimeSeriesData": _get(f"/v1/{{tensorboard={_BOARD}}}:batchRead"),
    "ExportTensorboardTimeSeriesData": _post(
        f"/v1/{{tensorboard_time_series={_SERIES}}}:exportTensorboardTimeSeries"
    ),
}
"""RPCs of aiplatform whose paths end in a verb."""
_VARIABLE = re.compile(r"\{([\w.]+)=([^}]*)\}")


@dataclass(frozen=True, slots=True)
class Route:
    """One RPC with an HTTP method and a path; the path's named groups are request fields.

    FIELD_SEPARATOR in a group's name separates a field from its subfield.
    """

    http_method: str
    path: re.Pattern[str]
    body: str
    method: Method


def routes_of(methods: Iterable[Method]) -> list[Route]:
    """Return the routes of the methods that REST supports: unary methods with a documented path.

    Paths with a verb come first, because `contexts/1:addContextChildren` also matches the pattern of a name.
    """
    routes: list[tuple[str, Route]] = []
    for method in methods:
        if method.unary is None:
            continue
        bindings = _BINDINGS.get(f"{method.service.rpartition('.')[2]}.{method.name}") or _standard(method)
        routes += [(path, Route(verb, _compile(path), body, method)) for verb, path, body in bindings]
    return [route for _, route in sorted(routes, key=lambda entry: ":" not in entry[0])]


def _standard(method: Method) -> tuple[Binding, ...]:
    """Return the paths of Vertex's resources, which follow one pattern per verb."""
    match = re.fullmatch(r"(Create|Get|List|Cancel|Update|Delete|Purge)(\w+)", method.name)
    if not method.service.startswith(f"{_AIPLATFORM}."):
        return ()
    if match is None or method.name in _VERBS:
        return (_VERBS[method.name],)
    verb, kind = match.groups()
    if verb in {"List", "Purge"} and not kind.endswith("Series"):
        kind = kind.removesuffix("s")
    collection = _SHORT.get(kind, kind[0].lower() + kind[1:] + "s")
    above = _NESTED.get(kind, _PARENT)
    parent = f"/v1/{{parent={above}}}/{collection}"
    name = f"/v1/{{name={above}/{collection}/*}}"
    body = snake_case(kind)
    return {
        "Create": (("POST", parent, body),),
        "Get": (("GET", name, ""),),
        "List": (("GET", parent, ""),),
        "Cancel": (("POST", f"{name}:cancel", "*"),),
        "Update": (("PATCH", name.replace("{name=", f"{{{body}.name="), body),),
        "Delete": (("DELETE", name, ""),),
        "Purge": (("POST", f"{parent}:purge", "*"),),
    }[verb]


def _compile(template: str) -> re.Pattern[str]:
    """Compile `{field=a/*/b}`: `*` matches one segment, `**` one or more. v1beta1 means the same as v1."""
    pattern, at = "", 0
    for match in _VARIABLE.finditer(template):
        pattern += re.escape(template[at : match.start()])
        segments = re.escape(match[2]).replace(r"\*\*", ".+").replace(r"\*", "[^/]+")
        pattern += f"(?P<{match[1].replace('.', FIELD_SEPARATOR)}>{segments})"
        at = match.end()
    pattern += re.escape(template[at:])
    return re.compile(re.sub(r"^/v1/", "/v1(?:beta1)?/", pattern))
