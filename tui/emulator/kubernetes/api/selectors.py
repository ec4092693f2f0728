"""Field selectors."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from tui.emulator.kubernetes.errors import BadRequest
from tui.emulator.kubernetes.resources import EVENTS, JOBS, NAMESPACES, NODES, PODS, ApiResource, Obj

Matches = Callable[[Obj], bool]

_FIELDS = {
    PODS: (
        "spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName",
        "spec.hostNetwork", "status.phase", "status.podIP", "status.podIPs", "status.nominatedNodeName",
    ),
    EVENTS: (
        "involvedObject.kind", "involvedObject.namespace", "involvedObject.name", "involvedObject.uid",
        "involvedObject.apiVersion", "involvedObject.resourceVersion", "involvedObject.fieldPath",
        "reason", "reportingComponent", "source", "type",
    ),
    NODES: ("spec.unschedulable",),
    NAMESPACES: ("status.phase",),
    JOBS: ("status.successful",),
}  # fmt: skip
"""Fields that a selector can use besides `metadata.name` and `metadata.namespace`."""

_FIELD = re.compile(r"([A-Za-z0-9_.\[\]]+)(==|=|!=)(.*)")


def parse_fields(text: str, resource: ApiResource) -> Matches | None:
    """Return the filter of a field selector; `None` selects everything. Raises BadRequest for an invalid
    selector or an unsupported field."""
    requirements = []
    for part in filter(None, text.split(",")):
        match = _FIELD.fullmatch(part.strip())
        if match is None:
            raise BadRequest(f"invalid selector: '{part}'; can't understand '{part}'")
        path, operator, value = match.groups()
        if path not in {"metadata.name", "metadata.namespace", *_FIELDS.get(resource, ())}:
            raise BadRequest(f"field label not supported: {path}")
        requirements.append((path.split("."), operator != "!=", value))
    if not requirements:
        return None
    return lambda obj: all((_text(obj, path) == value) is same for path, same, value in requirements)


def both(first: Matches | None, second: Matches | None) -> Matches | None:
    """Return the filter that combines two filters."""
    if first is None or second is None:
        return first or second
    return lambda obj: first(obj) and second(obj)


def _text(obj: Obj, path: list[str]) -> str:
    value: Any = obj
    for part in path:
        value = value.get(part) if isinstance(value, dict) else None
    if isinstance(value, dict):
        value = value.get("component")
    if value is True or value is False:
        return "true" if value else "false"
    return "" if value is None else str(value)
