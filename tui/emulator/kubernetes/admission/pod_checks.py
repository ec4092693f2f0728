"""Checks of pods beyond their schema."""

from __future__ import annotations

import json
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from tui.domain.kubernetes import quantity
from tui.emulator.kubernetes.admission.names import label_problems, value_problem
from tui.emulator.kubernetes.errors import FieldCause
from tui.emulator.kubernetes.resources import Obj

_STANDARD = {"cpu", "memory", "ephemeral-storage"}
_RESTARTS = ("Always", "OnFailure", "Never")
_PULLS = ("Always", "IfNotPresent", "Never")
_MOST = 2**31 - 1
_CHANGEABLE = {"tolerations", "activeDeadlineSeconds", "schedulingGates", "nodeName"}
"""Fields that may change after creation; the scheduler sets the node."""


def pod_causes(spec: Obj, at: str, *, job: bool = False) -> Iterator[FieldCause]:
    """Yield the invalid fields of a new pod or pod template; Jobs check the restart policy themselves."""
    volumes = {volume.get("name") for volume in spec.get("volumes") or []}
    yield from _volumes(spec.get("volumes") or [], at)
    if not spec.get("containers"):
        yield FieldCause(f"{at}.containers", "Required value", "FieldValueRequired")
    for field in ("initContainers", "containers"):
        names: set[str] = set()
        for number, container in enumerate(spec.get(field) or []):
            here = f"{at}.{field}[{number}]"
            yield from _container(container, here, volumes)
            name = str(container.get("name") or "")
            if name and name in names:
                yield FieldCause(f"{here}.name", f'Duplicate value: "{name}"', "FieldValueDuplicate")
            names.add(name)
    policy = spec.get("restartPolicy")
    if policy not in (None, *_RESTARTS) and not job:
        yield unsupported(f"{at}.restartPolicy", policy, _RESTARTS)
    deadline = spec.get("activeDeadlineSeconds")
    if isinstance(deadline, int) and not 1 <= deadline <= _MOST:
        yield FieldCause(f"{at}.activeDeadlineSeconds", f"Invalid value: {deadline}: {_between(1, _MOST)}")
    for value in (spec.get("nodeSelector") or {}).values():
        problem = value_problem(str(value))
        if problem:
            yield FieldCause(f"{at}.nodeSelector", f'Invalid value: "{value}": {problem}')
    for field in ("hostname", "subdomain"):
        for problem in label_problems(spec[field]) if spec.get(field) else []:
            yield FieldCause(f"{at}.{field}", f'Invalid value: "{spec[field]}": {problem}')
    for number, toleration in enumerate(spec.get("tolerations") or []):
        yield from _toleration(toleration, f"{at}.tolerations[{number}].operator")


def _volumes(volumes: list[Obj], at: str) -> Iterator[FieldCause]:
    names: set[str] = set()
    for number, volume in enumerate(volumes):
        here, name = f"{at}.volumes[{number}].name", str(volume.get("name") or "")
        if not name:
            yield FieldCause(here, "Required value", "FieldValueRequired")
        for problem in label_problems(name) if name else []:
            yield FieldCause(here, f'Invalid value: "{name}": {problem}')
        if name and name in names:
            yield FieldCause(here, f'Duplicate value: "{name}"', "FieldValueDuplicate")
        names.add(name)
        kinds = sorted(set(volume) - {"name"})
        for kind in kinds[1:]:
            why = "Forbidden: may not specify more than 1 volume type"
            yield FieldCause(f"{at}.volumes[{number}].{kind}", why, "FieldValueForbidden")


def _toleration(toleration: Obj, at: str) -> Iterator[FieldCause]:
    operator, value = toleration.get("operator") or "Equal", toleration.get("value")
    if operator == "Exists" and value:
        yield FieldCause(at, f"Invalid value: \"{value}\": value must be empty when `operator` is 'Exists'")
    elif operator not in {"Equal", "Exists"}:
        yield unsupported(at, operator, ("Equal", "Exists"))


def _container(container: Obj, at: str, volumes: set[Any]) -> Iterator[FieldCause]:
    name, image = str(container.get("name") or ""), str(container.get("image") or "")
    if not name:
        yield FieldCause(f"{at}.name", "Required value", "FieldValueRequired")
    for problem in label_problems(name) if name else []:
        yield FieldCause(f"{at}.name", f'Invalid value: "{name}": {problem}')
    if not image:
        yield FieldCause(f"{at}.image", "Required value", "FieldValueRequired")
    elif image != image.strip():
        why = "must not have leading or trailing whitespace"
        yield FieldCause(f"{at}.image", f'Invalid value: "{image}": {why}')
    yield from _ports(container.get("ports") or [], at)
    yield from _environment(container.get("env") or [], at)
    for number, mount in enumerate(container.get("volumeMounts") or []):
        here = f"{at}.volumeMounts[{number}]"
        if mount.get("name") not in volumes:
            yield FieldCause(f"{here}.name", f'Not found: "{mount.get("name")}"', "FieldValueNotFound")
        paths = [other.get("mountPath") for other in (container.get("volumeMounts") or [])[:number]]
        if mount.get("mountPath") and mount["mountPath"] in paths:
            why = f'Invalid value: "{mount["mountPath"]}": must be unique'
            yield FieldCause(f"{here}.mountPath", why)
        if not mount.get("mountPath"):
            yield FieldCause(f"{here}.mountPath", "Required value", "FieldValueRequired")
    policy = container.get("imagePullPolicy")
    if policy not in (None, *_PULLS):
        yield unsupported(f"{at}.imagePullPolicy", policy, _PULLS)
    yield from _resources(container.get("resources") or {}, f"{at}.resources")


def _ports(ports: list[Obj], at: str) -> Iterator[FieldCause]:
    names: set[str] = set()
    for number, port in enumerate(ports):
        here, name, value = f"{at}.ports[{number}]", port.get("name"), port.get("containerPort")
        if name and name in names:
            yield FieldCause(f"{here}.name", f'Duplicate value: "{name}"', "FieldValueDuplicate")
        names.add(str(name or ""))
        if isinstance(value, int) and not 1 <= value <= 65535:
            yield FieldCause(f"{here}.containerPort", f"Invalid value: {value}: {_between(1, 65535)}")


def _environment(variables: list[Obj], at: str) -> Iterator[FieldCause]:
    for number, variable in enumerate(variables):
        here, name = f"{at}.env[{number}]", str(variable.get("name") or "")
        if not name:
            yield FieldCause(f"{here}.name", "Required value", "FieldValueRequired")
        elif "=" in name or not (name.isascii() and name.isprintable()):
            why = (
                "a valid environment variable name must consist only of printable ASCII characters other "
                "than '='"
            )
            yield FieldCause(f"{here}.name", f'Invalid value: "{name}": {why}')
        if variable.get("value") and variable.get("valueFrom"):
            why = "may not be specified when `value` is not empty"
            yield FieldCause(f"{here}.valueFrom", f'Invalid value: "": {why}')


def _resources(resources: Obj, at: str) -> Iterator[FieldCause]:
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    for part, amounts in (("limits", limits), ("requests", requests)):
        for key, amount in amounts.items():
            here = f"{at}.{part}[{key}]"
            if "/" not in key and key not in _STANDARD and not key.startswith("hugepages-"):
                for why in ("resource type or fully qualified", "resource for containers"):
                    yield FieldCause(here, f'Invalid value: "{key}": must be a standard {why}')
            yield from _amount(key, amount, here)
    for key in requests:
        if _extended(key) and key not in limits:
            why = "Required value: Limit must be set for non overcommitable resources"
            yield FieldCause(f"{at}.limits", why, "FieldValueRequired")
    for key, amount in requests.items():
        if key in limits:
            yield from _against_limit(key, amount, limits, f"{at}.requests")


def _amount(key: str, amount: Any, at: str) -> Iterator[FieldCause]:
    try:
        value = quantity.parse(str(amount))
    except ValueError:
        return
    if value < 0:
        yield FieldCause(at, f'Invalid value: "{amount}": must be greater than or equal to 0')
    if _extended(key) and Fraction(value).denominator != 1:
        thousandths = int(Fraction(value) * 1000)
        yield FieldCause(at, f'Invalid value: "{thousandths}m": must be an integer')


def _against_limit(key: str, amount: Any, limits: Obj, at: str) -> Iterator[FieldCause]:
    try:
        request, most = quantity.parse(str(amount)), quantity.parse(str(limits[key]))
    except ValueError:
        return
    if _extended(key) and request != most:
        yield FieldCause(at, f'Invalid value: "{amount}": must be equal to {key} limit of {limits[key]}')
    elif request > most:
        why = f"must be less than or equal to {key} limit of {limits[key]}"
        yield FieldCause(at, f'Invalid value: "{amount}": {why}')


def _extended(key: str) -> bool:
    """Return whether a resource is extended, so that a node can't overcommit it."""
    return "/" in key and not key.startswith("kubernetes.io/")


def _between(least: int, most: int) -> str:
    return f"must be between {least} and {most}, inclusive"


def unsupported(field: str, value: Any, supported: tuple[str, ...]) -> FieldCause:
    """Return the cause for a value that is not among the supported values."""
    words = ", ".join(f'"{name}"' for name in supported)
    message = f"Unsupported value: {json.dumps(value)}: supported values: {words}"
    return FieldCause(field, message, "FieldValueNotSupported")


def pod_change(new: Obj, old: Obj) -> Iterator[FieldCause]:
    """Yield the forbidden changes of a pod."""

    def fixed(spec: Obj) -> Obj:
        kept = {key: value for key, value in spec.items() if key not in _CHANGEABLE}
        if old.get("schedulingGates"):
            kept.pop("nodeSelector", None)
            kept.pop("affinity", None)
        for field in ("containers", "initContainers"):
            if field in kept:
                kept[field] = [{**container, "image": ""} for container in kept[field]]
        return kept

    if fixed(new) != fixed(old):
        yield FieldCause(
            "spec",
            "Forbidden: pod updates may not change fields other than `spec.containers[*].image`,"
            "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions "
            "to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it "
            "was previously negative)",
            "FieldValueForbidden",
        )
