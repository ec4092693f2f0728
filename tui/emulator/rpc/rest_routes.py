"""The REST path of each RPC, as its service documents it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from tui.emulator.rpc.methods import Method

_AIPLATFORM = "google.cloud.aiplatform.v1"
_OPERATION = "/v1/{name=projects/*/locations/**/operations/*}"

# (HTTP method, path, field that the body fills: "*" for the whole request, "" for none)
_BINDINGS: dict[tuple[str, str], tuple[tuple[str, str, str], ...]] = {
    ("vxtui.emulator.v1.Admin", "Call"): (("POST", "/vxtui/v1/admin", "*"),),
    ("google.longrunning.Operations", "GetOperation"): (("GET", _OPERATION, ""),),
    ("google.longrunning.Operations", "ListOperations"): (
        ("GET", "/v1/{name=projects/*/locations/*}/operations", ""),
        ("GET", "/v1/{name=projects/*/locations/*/customJobs/*}/operations", ""),
        ("GET", "/v1/{name=projects/*/locations/*/trainingPipelines/*}/operations", ""),
    ),
    ("google.longrunning.Operations", "WaitOperation"): (("POST", f"{_OPERATION}:wait", ""),),
    ("google.longrunning.Operations", "CancelOperation"): (("POST", f"{_OPERATION}:cancel", ""),),
    ("google.longrunning.Operations", "DeleteOperation"): (("DELETE", _OPERATION, ""),),
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

_VARIABLE = re.compile(r"\{(\w+)=([^}]*)\}")


@dataclass(frozen=True, slots=True)
class Route:
    """One RPC with an HTTP method and a path; the path's named groups are request fields."""

    http_method: str
    path: re.Pattern[str]
    body: str
    method: Method


def routes_of(methods: Iterable[Method]) -> list[Route]:
    """Routes of the methods that REST supports: unary ones with a documented path."""
    found = []
    for method in methods:
        if method.unary is None:
            continue
        bindings = _BINDINGS.get((method.service, method.name)) or _standard(method)
        found += [Route(verb, _compile(path), body, method) for verb, path, body in bindings]
    return found


def _standard(method: Method) -> tuple[tuple[str, str, str], ...]:
    """Paths of Vertex's resources, which have one pattern: create, get, list, cancel and delete."""
    match = re.fullmatch(r"(Create|Get|List|Cancel|Delete)(\w+)", method.name)
    if match is None or not method.service.startswith(f"{_AIPLATFORM}."):
        return ()
    verb, kind = match.groups()
    collection = kind[0].lower() + kind[1:] + ("" if verb == "List" else "s")
    parent = f"/v1/{{parent=projects/*/locations/*}}/{collection}"
    name = f"/v1/{{name=projects/*/locations/*/{collection}/*}}"
    body = re.sub(r"(?<!^)(?=[A-Z])", "_", kind).lower()
    return {
        "Create": (("POST", parent, body),),
        "Get": (("GET", name, ""),),
        "List": (("GET", parent, ""),),
        "Cancel": (("POST", f"{name}:cancel", "*"),),
        "Delete": (("DELETE", name, ""),),
    }[verb]


def _compile(template: str) -> re.Pattern[str]:
    """`{field=a/*/b}` as a pattern: `*` is one segment, `**` one or more. v1beta1 means the same as v1."""
    pattern, at = "", 0
    for match in _VARIABLE.finditer(template):
        pattern += re.escape(template[at : match.start()])
        segments = re.escape(match[2]).replace(r"\*\*", ".+").replace(r"\*", "[^/]+")
        pattern += f"(?P<{match[1]}>{segments})"
        at = match.end()
    pattern += re.escape(template[at:])
    return re.compile(re.sub(r"^/v1/", "/v1(?:beta1)?/", pattern))
