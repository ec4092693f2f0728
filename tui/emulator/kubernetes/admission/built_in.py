"""Defaults and checks of built-in types beyond their schemas."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from tui.emulator.kubernetes.admission.job_checks import job_causes
from tui.emulator.kubernetes.admission.pod_checks import pod_causes, pod_change
from tui.emulator.kubernetes.errors import FieldCause
from tui.emulator.kubernetes.resources import (
    CONFIG_MAPS,
    EVENTS,
    JOBS,
    NAMESPACES,
    PODS,
    SERVICES,
    ApiResource,
    Obj,
)

_DATA_KEY = re.compile(r"[-._a-zA-Z0-9]+")
_POD_DEFAULTS = {
    "restartPolicy": "Always", "dnsPolicy": "ClusterFirst", "schedulerName": "default-scheduler",
    "terminationGracePeriodSeconds": 30, "enableServiceLinks": True,
    "preemptionPolicy": "PreemptLowerPriority", "priority": 0,
}  # fmt: skip
_TEMPLATE_DEFAULTS = {
    key: value for key, value in _POD_DEFAULTS.items()
    if key not in {"restartPolicy", "enableServiceLinks", "preemptionPolicy", "priority"}
}  # fmt: skip
_CONTAINER_DEFAULTS = {
    "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"
}  # fmt: skip


def complete(resource: ApiResource, obj: Obj) -> None:
    """Fill in the defaults of a new object."""
    if resource == NAMESPACES:
        obj.setdefault("spec", {}).setdefault("finalizers", ["kubernetes"])
        obj.setdefault("status", {}).setdefault("phase", "Active")
        labels = obj["metadata"].setdefault("labels", {})
        labels.setdefault("kubernetes.io/metadata.name", obj["metadata"]["name"])
    elif resource == PODS:
        spec = obj["spec"] = obj.get("spec") or {}
        _complete_pod(spec, _POD_DEFAULTS)
        spec.setdefault("tolerations", []).extend(_not_ready(spec["tolerations"]))
        status = obj.setdefault("status", {})
        status.setdefault("phase", "Pending")
        if spec.get("schedulingGates"):
            status.setdefault("conditions", []).append(
                {
                    "type": "PodScheduled",
                    "status": "False",
                    "reason": "SchedulingGated",
                    "message": "Scheduling is blocked due to non-empty scheduling gates",
                    "lastTransitionTime": obj["metadata"].get("creationTimestamp"),
                }
            )
        status.setdefault("qosClass", qos_class(spec))
    elif resource == JOBS:
        _complete_job(obj)
        obj.setdefault("status", {})
    elif resource == SERVICES:
        spec = obj.setdefault("spec", {})
        spec.setdefault("type", "ClusterIP")
        spec.setdefault("sessionAffinity", "None")


def _complete_pod(spec: Obj, defaults: Obj) -> None:
    for key, value in defaults.items():
        if spec.get(key) is None:
            spec[key] = value
    spec.setdefault("securityContext", {})
    for field in ("initContainers", "containers"):
        for container in spec.get(field) or []:
            if not isinstance(container, dict):
                continue
            for key, value in _CONTAINER_DEFAULTS.items():
                container.setdefault(key, value)
            image = str(container.get("image", ""))
            newest = image.endswith(":latest") or ":" not in image.rpartition("/")[2]
            container.setdefault("imagePullPolicy", "Always" if newest else "IfNotPresent")
            # A null counts as a missing field.
            resources = container["resources"] = container.get("resources") or {}
            limits = resources.get("limits")
            if isinstance(limits, dict) and limits:
                # A limit without a request is also the request.
                resources["requests"] = {**limits, **(resources.get("requests") or {})}


def _complete_job(obj: Obj) -> None:
    spec = obj["spec"] = obj.get("spec") or {}
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault(
        "podReplacementPolicy", "Failed" if spec.get("podFailurePolicy") else "TerminatingOrFailed"
    )
    limited = spec.get("backoffLimitPerIndex") is not None
    spec.setdefault("backoffLimit", 2147483647 if limited else 6)
    meta = obj["metadata"]
    template = spec["template"] = spec.get("template") or {}
    spec.setdefault("manualSelector", False)
    if not spec["manualSelector"]:
        controller = {"batch.kubernetes.io/controller-uid": meta["uid"]}
        selector = spec["selector"] = spec.get("selector") or {}
        selector["matchLabels"] = {**(selector.get("matchLabels") or {}), **controller}
        labels = template.setdefault("metadata", {}).setdefault("labels", {})
        named = {"batch.kubernetes.io/job-name": meta["name"], "job-name": meta["name"]}
        labels |= {**controller, "controller-uid": meta["uid"], **named}
    template["spec"] = template.get("spec") or {}
    _complete_pod(template["spec"], _TEMPLATE_DEFAULTS)
    if not meta.get("labels") and (template.get("metadata") or {}).get("labels"):
        # The API server does this for old clients.
        meta["labels"] = dict(template["metadata"]["labels"])


def _not_ready(present: Any) -> list[Obj]:
    """Return the tolerations that every pod gets for unready and unreachable nodes."""
    keys = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
    has = {
        toleration.get("key")
        for toleration in present
        if isinstance(toleration, dict) and toleration.get("effect") == "NoExecute"
    }
    return [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
        for key in keys
        if key not in has
    ]


def qos_class(spec: Obj) -> str:
    """Return the quality-of-service class of a pod."""
    containers = [*(spec.get("initContainers") or []), *(spec.get("containers") or [])]
    resources = [container.get("resources") or {} for container in containers if isinstance(container, dict)]
    counted = {"cpu", "memory"}
    if not any(
        counted & set(resource.get(part) or ()) for resource in resources for part in ("requests", "limits")
    ):
        return "BestEffort"
    full = all(
        counted <= set(resource.get("limits") or {})
        and all(
            (resource.get("requests") or {}).get(key) == resource["limits"][key] for key in ("cpu", "memory")
        )
        for resource in resources
    )
    return "Guaranteed" if full else "Burstable"


def built_in_causes(resource: ApiResource, obj: Obj, old: Obj | None) -> Iterator[FieldCause]:
    """Yield the invalid fields of a built-in type that its schema allows."""
    spec = obj.get("spec") or {}
    if resource == PODS:
        if old is None:
            yield from pod_causes(spec, "spec")
        elif spec != old.get("spec"):
            yield from pod_change(spec, old["spec"])
    elif resource == JOBS and (old is None or spec != old.get("spec")):
        yield from job_causes(obj, old)
    elif resource == CONFIG_MAPS:
        yield from _config_map_causes(obj, old)
    elif resource == EVENTS and not (obj.get("involvedObject") or {}).get("name"):
        yield FieldCause("involvedObject.name", "Required value", "FieldValueRequired")


def _config_map_causes(obj: Obj, old: Obj | None) -> Iterator[FieldCause]:
    for field in ("data", "binaryData"):
        for key in obj.get(field) or {}:
            if not _DATA_KEY.fullmatch(key) or key in {".", ".."}:
                why = (
                    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. "
                    "'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is "
                    "'[-._a-zA-Z0-9]+')"
                )
                yield FieldCause(f"{field}[{key}]", f'Invalid value: "{key}": {why}')
    if (old or {}).get("immutable"):
        for field in ("immutable", "data", "binaryData"):
            if obj.get(field) != (old or {}).get(field):
                why = "Forbidden: field is immutable when `immutable` is set"
                yield FieldCause(field, why, "FieldValueForbidden")
