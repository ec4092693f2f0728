"""Owners, labels and times of objects in REST form."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

Obj = dict[str, Any]


def name_of(obj: Mapping[str, Any]) -> str:
    """The object's name."""
    return str(obj["metadata"]["name"])


def namespace_of(obj: Mapping[str, Any]) -> str:
    """The object's namespace; empty for an object of the cluster."""
    return str(obj["metadata"].get("namespace", ""))


def uid_of(obj: Mapping[str, Any]) -> str:
    """The object's uid; empty before it is created."""
    return str(obj["metadata"].get("uid", ""))


def labels_of(obj: Mapping[str, Any]) -> dict[str, str]:
    """The object's labels."""
    return obj["metadata"].get("labels") or {}


def annotations_of(obj: Mapping[str, Any]) -> dict[str, str]:
    """The object's annotations."""
    return obj["metadata"].get("annotations") or {}


def phase_of(pod: Mapping[str, Any]) -> str:
    """The phase of a pod; Pending before it has one."""
    return str((pod.get("status") or {}).get("phase") or "Pending")


def is_terminating(obj: Mapping[str, Any]) -> bool:
    """Whether the object is being deleted."""
    return bool(obj["metadata"].get("deletionTimestamp"))


def controller_of(obj: Mapping[str, Any]) -> Obj | None:
    """The owner reference of the controller that made the object."""
    for reference in obj["metadata"].get("ownerReferences") or ():
        if reference.get("controller"):
            return dict(reference)
    return None


def is_controlled_by(obj: Mapping[str, Any], owner: Mapping[str, Any]) -> bool:
    """Whether `owner`, and not another object of its name, made the object."""
    reference = controller_of(obj)
    return reference is not None and reference["uid"] == uid_of(owner)


def owner_reference(owner: Mapping[str, Any]) -> Obj:
    """The reference of an object to the controller that makes it."""
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": name_of(owner),
        "uid": uid_of(owner),
        "controller": True,
        "blockOwnerDeletion": True,
    }


def owned(
    owner: Mapping[str, Any],
    api_version: str,
    kind: str,
    name: str,
    *,
    metadata: Obj | None = None,
    **fields: Any,
) -> Obj:
    """A new object that `owner` controls, in its namespace; `metadata` has labels and annotations."""
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {
            "name": name,
            "namespace": namespace_of(owner),
            **(metadata or {}),
            "ownerReferences": [owner_reference(owner)],
        },
        **fields,
    }


def seconds_until(start: str, after: float, now: datetime) -> float:
    """How long until `after` seconds from `start` have passed; negative when they have."""
    return after - (now - datetime.fromisoformat(start)).total_seconds()
