"""Defaults and checks of the built-in types that no schema says."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from tui.emulator.kubernetes.errors import Cause
from tui.emulator.kubernetes.resources import EVENTS, JOBS, NAMESPACES, PODS, SERVICES, Resource

Obj = dict[str, Any]
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_QUANTITY = re.compile(
    r"[+-]?(\d+(\.\d*)?|\.\d+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?\d+)?"
)  # fmt: skip
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
_NOT_NEGATIVE = (
    "parallelism", "completions", "backoffLimit", "activeDeadlineSeconds", "ttlSecondsAfterFinished"
)  # fmt: skip
_IMMUTABLE_JOB = ("completions", "completionMode", "selector", "template", "podFailurePolicy", "managedBy")


def complete(resource: Resource, obj: Obj) -> None:
    """What a new object has that its creator did not say."""
    if resource == NAMESPACES:
        obj.setdefault("spec", {}).setdefault("finalizers", ["kubernetes"])
        obj.setdefault("status", {}).setdefault("phase", "Active")
        labels = obj["metadata"].setdefault("labels", {})
        labels.setdefault("kubernetes.io/metadata.name", obj["metadata"]["name"])
    elif resource == PODS:
        spec = obj.get("spec")
        if isinstance(spec, dict):
            _complete_pod(spec, _POD_DEFAULTS)
            spec.setdefault("tolerations", []).extend(_not_ready(spec["tolerations"]))
        status = obj.setdefault("status", {})
        status.setdefault("phase", "Pending")
        status.setdefault("qosClass", _qos(spec or {}))
    elif resource == JOBS:
        _complete_job(obj)
    elif resource == SERVICES:
        spec = obj.setdefault("spec", {})
        spec.setdefault("type", "ClusterIP")
        spec.setdefault("sessionAffinity", "None")


def _complete_pod(spec: Obj, defaults: Mapping[str, Any]) -> None:
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
            # A null is what is not given.
            resources = container["resources"] = container.get("resources") or {}
            limits = resources.get("limits")
            if isinstance(limits, dict) and limits:
                # What is limited and not requested is requested as much.
                resources["requests"] = {**limits, **(resources.get("requests") or {})}


def _complete_job(obj: Obj) -> None:
    spec = obj.get("spec")
    if not isinstance(spec, dict):
        return
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
    template = spec.get("template")
    if not isinstance(template, dict):
        return
    if not spec.get("manualSelector"):
        controller = {"batch.kubernetes.io/controller-uid": meta["uid"]}
        spec["selector"] = {"matchLabels": dict(controller)}
        labels = template.setdefault("metadata", {}).setdefault("labels", {})
        named = {"batch.kubernetes.io/job-name": meta["name"], "job-name": meta["name"]}
        labels |= {**controller, "controller-uid": meta["uid"], **named}
    if isinstance(template.get("spec"), dict):
        _complete_pod(template["spec"], _TEMPLATE_DEFAULTS)


def _not_ready(present: Any) -> list[Obj]:
    """The tolerations that every pod gets for a node in trouble."""
    keys = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
    has = {one.get("key") for one in present if isinstance(one, dict) and one.get("effect") == "NoExecute"}
    return [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
        for key in keys if key not in has
    ]  # fmt: skip


def _qos(spec: Obj) -> str:
    resources = [one.get("resources") or {} for one in spec.get("containers") or [] if isinstance(one, dict)]
    named = [
        {key for part in ("requests", "limits") for key in (one.get(part) or {}) if key in {"cpu", "memory"}}
        for one in resources
    ]  # fmt: skip
    if not any(named):
        return "BestEffort"
    full = all(
        {"cpu", "memory"} <= set(one.get("limits") or {})
        and all((one.get("requests") or {}).get(key) == one["limits"][key] for key in ("cpu", "memory"))
        for one in resources
    )
    return "Guaranteed" if full else "Burstable"


def built_in_causes(resource: Resource, obj: Obj, old: Obj | None) -> Iterator[Cause]:
    """What is invalid in an object of a built-in type that its schema allows."""
    spec = obj.get("spec") or {}
    if resource == PODS:
        if old is None:
            yield from _pod_causes(spec, "spec")
        elif spec != old.get("spec"):
            yield from _pod_change(spec, old["spec"])
    elif resource == JOBS and (old is None or spec != old.get("spec")):
        if old is None:
            yield from _pod_causes(spec["template"].get("spec") or {}, "spec.template.spec")
        yield from _job_causes(spec, (old or {}).get("spec"))
    elif resource == EVENTS and not (obj.get("involvedObject") or {}).get("name"):
        yield Cause("involvedObject.name", "Required value", "FieldValueRequired")


def _pod_causes(spec: Obj, at: str) -> Iterator[Cause]:
    containers = spec.get("containers") or []
    if not containers:
        yield Cause(f"{at}.containers", "Required value", "FieldValueRequired")
    policy = spec.get("restartPolicy")
    if policy not in {None, "Always", "OnFailure", "Never"}:
        said = f'Unsupported value: "{policy}": supported values: "Always", "Never", "OnFailure"'
        yield Cause(f"{at}.restartPolicy", said, "FieldValueNotSupported")
    volumes = {one.get("name") for one in spec.get("volumes") or []}
    for field in ("initContainers", "containers"):
        for number, container in enumerate(spec.get(field) or []):
            yield from _container_causes(container, f"{at}.{field}[{number}]", volumes)


def _container_causes(container: Obj, at: str, volumes: set[Any]) -> Iterator[Cause]:
    name = str(container.get("name") or "")
    if not _LABEL.fullmatch(name):
        why = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-'"
        yield Cause(f"{at}.name", f'Invalid value: "{name}": {why}')
    if not container.get("image"):
        yield Cause(f"{at}.image", "Required value", "FieldValueRequired")
    policy = container.get("imagePullPolicy")
    if policy not in {None, "Always", "IfNotPresent", "Never"}:
        said = f'Unsupported value: "{policy}": supported values: "Always", "IfNotPresent", "Never"'
        yield Cause(f"{at}.imagePullPolicy", said, "FieldValueNotSupported")
    for number, mount in enumerate(container.get("volumeMounts") or []):
        if mount.get("name") not in volumes:
            said = f'Not found: "{mount.get("name")}"'
            yield Cause(f"{at}.volumeMounts[{number}].name", said, "FieldValueNotFound")
    resources = container.get("resources") or {}
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    for part, amounts in (("requests", requests), ("limits", limits)):
        for key, amount in amounts.items():
            if not _QUANTITY.fullmatch(str(amount)):
                why = (
                    "quantities must match the regular expression "
                    "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
                )
                yield Cause(f"{at}.resources.{part}[{key}]", f'Invalid value: "{amount}": {why}')
    for key, amount in requests.items():
        extended = "/" in key
        if extended and str(amount) != str(limits.get(key)):
            said = f'Invalid value: "{amount}": must be equal to {key} limit'
            yield Cause(f"{at}.resources.requests", said)


def _pod_change(new: Obj, old: Obj) -> Iterator[Cause]:
    free = {
        "tolerations",
        "activeDeadlineSeconds",
        "terminationGracePeriodSeconds",
        "schedulingGates",
        "nodeName",
    }

    def fixed(spec: Obj) -> Obj:
        kept = {key: value for key, value in spec.items() if key not in free}
        if old.get("schedulingGates"):
            kept.pop("nodeSelector", None)
            kept.pop("affinity", None)
        for field in ("containers", "initContainers"):
            if field in kept:
                kept[field] = [{**one, "image": ""} for one in kept[field]]
        return kept

    if fixed(new) != fixed(old):
        yield Cause(
            "spec",
            "Forbidden: pod updates may not change fields other than `spec.containers[*].image`,"
            "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions "
            "to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it "
            "was previously negative)",
            "FieldValueForbidden",
        )


def _job_causes(spec: Obj, old: Obj | None) -> Iterator[Cause]:
    policy = (spec["template"].get("spec") or {}).get("restartPolicy")
    if policy not in {"OnFailure", "Never"}:
        given = f'"{policy}"' if policy else '""'
        said = f'Unsupported value: {given}: supported values: "OnFailure", "Never"'
        reason = "FieldValueNotSupported" if policy else "FieldValueRequired"
        said = said if policy else 'Required value: valid values: "OnFailure", "Never"'
        yield Cause("spec.template.spec.restartPolicy", said, reason)
    for field in _NOT_NEGATIVE:
        value = spec.get(field)
        if isinstance(value, int) and value < 0:
            yield Cause(f"spec.{field}", f"Invalid value: {value}: must be greater than or equal to 0")
    if spec.get("completionMode") == "Indexed" and spec.get("completions") is None:
        why = "Required value: when completion mode is Indexed"
        yield Cause("spec.completions", why, "FieldValueRequired")
    for field in _IMMUTABLE_JOB if old is not None else ():
        changed = spec.get(field) != (old or {}).get(field)
        # The places of pods can be chosen while the job is suspended; Kueue does.
        if field == "template" and (old or {}).get("suspend"):
            changed = _apart_from_places(spec["template"]) != _apart_from_places((old or {})["template"])
        elastic = field == "completions" and spec.get("completionMode") == "Indexed"
        if changed and not (elastic and spec.get("completions") == spec.get("parallelism")):
            yield Cause(f"spec.{field}", "Invalid value: field is immutable")


def _apart_from_places(template: Obj) -> Obj:
    places = {"nodeSelector", "tolerations", "affinity", "schedulingGates"}
    kept = {key: value for key, value in (template.get("spec") or {}).items() if key not in places}
    return {"spec": kept}
