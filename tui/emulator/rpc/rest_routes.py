"""The REST path of each RPC, as its service documents it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from tui.emulator.rpc.methods import Method

FIELD_SEPARATOR = "__"
_AIPLATFORM = "google.cloud.aiplatform.v1"
_OPERATION = "{name=projects/*/locations/**/operations/*}"


def _operation(verb: str, suffix: str = "") -> tuple[tuple[str, str, str], ...]:
    """Return the paths of an RPC on one operation. The REST clients of models and endpoints use /ui/."""
    return tuple((verb, f"/{version}/{_OPERATION}{suffix}", "") for version in ("v1", "ui"))


# (HTTP method, path, field that the body fills: "*" for the whole request, "" for none)
_BINDINGS: dict[tuple[str, str], tuple[tuple[str, str, str], ...]] = {
    ("vxtui.emulator.v1.Admin", "Call"): (("POST", "/vxtui/v1/admin", "*"),),
    ("google.longrunning.Operations", "GetOperation"): _operation("GET"),
    ("google.longrunning.Operations", "ListOperations"): (
        ("GET", "/v1/{name=projects/*/locations/*}/operations", ""),
        ("GET", "/v1/{name=projects/*/locations/*/customJobs/*}/operations", ""),
        ("GET", "/v1/{name=projects/*/locations/*/trainingPipelines/*}/operations", ""),
    ),
    ("google.longrunning.Operations", "WaitOperation"): _operation("POST", ":wait"),
    ("google.longrunning.Operations", "CancelOperation"): _operation("POST", ":cancel"),
    ("google.longrunning.Operations", "DeleteOperation"): _operation("DELETE"),
    ("google.cloud.location.Locations", "ListLocations"): (("GET", "/v1/{name=projects/*}/locations", ""),),
    ("google.cloud.location.Locations", "GetLocation"): (("GET", "/v1/{name=projects/*/locations/*}", ""),),
    ("google.api.cloudquotas.v1.CloudQuotas", "ListQuotaInfos"): (
        ("GET", "/v1/{parent=*/*/locations/*/services/*}/quotaInfos", ""),
    ),
    ("google.api.cloudquotas.v1.CloudQuotas", "GetQuotaInfo"): (
        ("GET", "/v1/{name=*/*/locations/*/services/*/quotaInfos/*}", ""),
    ),
    ("google.monitoring.v3.MetricService", "ListTimeSeries"): (
        ("GET", "/v3/{name=projects/*}/timeSeries", ""),
    ),
    ("google.monitoring.v3.MetricService", "ListMetricDescriptors"): (
        ("GET", "/v3/{name=projects/*}/metricDescriptors", ""),
    ),
    ("google.monitoring.v3.MetricService", "GetMetricDescriptor"): (
        ("GET", "/v3/{name=projects/*/metricDescriptors/**}", ""),
    ),
    ("google.monitoring.v3.MetricService", "ListMonitoredResourceDescriptors"): (
        ("GET", "/v3/{name=projects/*}/monitoredResourceDescriptors", ""),
    ),
    ("google.monitoring.v3.MetricService", "GetMonitoredResourceDescriptor"): (
        ("GET", "/v3/{name=projects/*/monitoredResourceDescriptors/*}", ""),
    ),
    ("google.logging.v2.LoggingServiceV2", "WriteLogEntries"): (("POST", "/v2/entries:write", "*"),),
    ("google.logging.v2.LoggingServiceV2", "ListLogEntries"): (("POST", "/v2/entries:list", "*"),),
    ("google.logging.v2.LoggingServiceV2", "ListLogs"): (("GET", "/v2/{parent=*/*}/logs", ""),),
    ("google.logging.v2.LoggingServiceV2", "DeleteLog"): (("DELETE", "/v2/{log_name=*/*/logs/*}", ""),),
    ("google.logging.v2.LoggingServiceV2", "ListMonitoredResourceDescriptors"): (
        ("GET", "/v2/monitoredResourceDescriptors", ""),
    ),
}

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
"""Kinds of aiplatform that live below another resource, and the pattern of that resource."""
_SHORT = {
    "TensorboardExperiment": "experiments",
    "TensorboardRun": "runs",
    "TensorboardTimeSeries": "timeSeries",
}
_VERBS: dict[str, tuple[str, str, str]] = {
    "UploadModel": ("POST", "/v1/{parent=projects/*/locations/*}/models:upload", "*"),
    "ListModelVersions": ("GET", f"/v1/{{name={_MODEL}}}:listVersions", ""),
    "DeleteModelVersion": ("DELETE", f"/v1/{{name={_MODEL}}}:deleteVersion", ""),
    "MergeVersionAliases": ("POST", f"/v1/{{name={_MODEL}}}:mergeVersionAliases", "*"),
    "DeployModel": ("POST", f"/v1/{{endpoint={_ENDPOINT}}}:deployModel", "*"),
    "UndeployModel": ("POST", f"/v1/{{endpoint={_ENDPOINT}}}:undeployModel", "*"),
    "MutateDeployedModel": ("POST", f"/v1/{{endpoint={_ENDPOINT}}}:mutateDeployedModel", "*"),
    "RebootPersistentResource": (
        "POST", "/v1/{name=projects/*/locations/*/persistentResources/*}:reboot", "*"
    ),
    "PauseSchedule": ("POST", "/v1/{name=projects/*/locations/*/schedules/*}:pause", "*"),
    "ResumeSchedule": ("POST", "/v1/{name=projects/*/locations/*/schedules/*}:resume", "*"),
    "BatchCancelPipelineJobs": (
        "POST", "/v1/{parent=projects/*/locations/*}/pipelineJobs:batchCancel", "*"
    ),
    "BatchDeletePipelineJobs": (
        "POST", "/v1/{parent=projects/*/locations/*}/pipelineJobs:batchDelete", "*"
    ),
    "Predict": ("POST", f"/v1/{{endpoint={_ENDPOINT}}}:predict", "*"),
    "RawPredict": ("POST", f"/v1/{{endpoint={_ENDPOINT}}}:rawPredict", "*"),
    "AddContextArtifactsAndExecutions": (
        "POST", f"/v1/{{context={_STORE}/contexts/*}}:addContextArtifactsAndExecutions", "*"
    ),
    "AddContextChildren": ("POST", f"/v1/{{context={_STORE}/contexts/*}}:addContextChildren", "*"),
    "RemoveContextChildren": ("POST", f"/v1/{{context={_STORE}/contexts/*}}:removeContextChildren", "*"),
    "QueryContextLineageSubgraph": (
        "GET", f"/v1/{{context={_STORE}/contexts/*}}:queryContextLineageSubgraph", ""
    ),
    "AddExecutionEvents": ("POST", f"/v1/{{execution={_STORE}/executions/*}}:addExecutionEvents", "*"),
    "QueryExecutionInputsAndOutputs": (
        "GET", f"/v1/{{execution={_STORE}/executions/*}}:queryExecutionInputsAndOutputs", ""
    ),
    "QueryArtifactLineageSubgraph": (
        "GET", f"/v1/{{artifact={_STORE}/artifacts/*}}:queryArtifactLineageSubgraph", ""
    ),
    "BatchCreateTensorboardRuns": ("POST", f"/v1/{{parent={_EXPERIMENT}}}/runs:batchCreate", "*"),
    "BatchCreateTensorboardTimeSeries": ("POST", f"/v1/{{parent={_EXPERIMENT}}}:batchCreate", "*"),
    "WriteTensorboardRunData": ("POST", f"/v1/{{tensorboard_run={_RUN}}}:write", "*"),
    "WriteTensorboardExperimentData": ("POST", f"/v1/{{tensorboard_experiment={_EXPERIMENT}}}:write", "*"),
    "ReadTensorboardTimeSeriesData": ("GET", f"/v1/{{tensorboard_time_series={_SERIES}}}:read", ""),
    "BatchReadTensorboardTimeSeriesData": ("GET", f"/v1/{{tensorboard={_BOARD}}}:batchRead", ""),
    "ExportTensorboardTimeSeriesData": (
        "POST", f"/v1/{{tensorboard_time_series={_SERIES}}}:exportTensorboardTimeSeries", "*"
    ),
}  # fmt: skip
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
    """Return the routes of the methods that REST supports: unary ones with a documented path.

    Paths with a verb come first: `contexts/1:addContextChildren` has the form of a name too.
    """
    routes: list[tuple[str, Route]] = []
    for method in methods:
        if method.unary is None:
            continue
        bindings = _BINDINGS.get((method.service, method.name)) or _standard(method)
        routes += [(path, Route(verb, _compile(path), body, method)) for verb, path, body in bindings]
    return [route for _, route in sorted(routes, key=lambda entry: ":" not in entry[0])]


def _standard(method: Method) -> tuple[tuple[str, str, str], ...]:
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
    above = _NESTED.get(kind, "projects/*/locations/*")
    parent = f"/v1/{{parent={above}}}/{collection}"
    name = f"/v1/{{name={above}/{collection}/*}}"
    body = re.sub(r"(?<!^)(?=[A-Z])", "_", kind).lower()
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
    """Compile `{field=a/*/b}`: `*` is one segment, `**` one or more. v1beta1 means the same as v1."""
    pattern, at = "", 0
    for match in _VARIABLE.finditer(template):
        pattern += re.escape(template[at : match.start()])
        segments = re.escape(match[2]).replace(r"\*\*", ".+").replace(r"\*", "[^/]+")
        pattern += f"(?P<{match[1].replace('.', FIELD_SEPARATOR)}>{segments})"
        at = match.end()
    pattern += re.escape(template[at:])
    return re.compile(re.sub(r"^/v1/", "/v1(?:beta1)?/", pattern))
