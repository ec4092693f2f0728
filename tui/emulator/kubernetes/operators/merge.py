"""Strategic merge: patches named list members instead of replacing the list."""

from __future__ import annotations

import copy
from typing import Any

KEYS = {
    "replicatedJobs": "name",
    "containers": "name",
    "initContainers": "name",
    "volumes": "name",
    "env": "name",
    "volumeMounts": "mountPath",
    "ports": "containerPort",
    "imagePullSecrets": "name",
    "schedulingGates": "name",
}
"""List field → key that identifies its members. Other lists are replaced."""


def merged(source: Any, patch: Any, field: str = "") -> Any:
    """Return a copy of `source` with the patch applied; null removes."""
    if isinstance(patch, dict):
        result = dict(source) if isinstance(source, dict) else {}
        for name, value in patch.items():
            if value is None:
                result.pop(name, None)
            else:
                result[name] = merged(result.get(name), value, name)
        return result
    key = KEYS.get(field)
    if key and isinstance(source, list) and isinstance(patch, list):
        return _merged_members(source, patch, key)
    return copy.deepcopy(patch)


def _merged_members(source: list[Any], patch: list[Any], key: str) -> list[Any]:
    changed = {member.get(key): member for member in patch}
    known = {member.get(key) for member in source}
    result = [
        merged(member, changed[member.get(key)]) if member.get(key) in changed else member
        for member in source
    ]
    return result + [copy.deepcopy(member) for member in patch if member.get(key) not in known]
