"""Owners, labels and times of REST objects."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from tui.emulator.kubernetes.resources import Obj


def name_of(obj: Obj) -> str:
    """Return the object's name."""
    return str(obj["metadata"]["name"])


def namespace_of(obj: Obj) -> str:
    """Return the object's namespace, or "" if it is cluster-scoped."""
    return str(obj["metadata"].get("namespace", ""))


def uid_of(obj: Obj) -> str:
    """Return the object's uid, or "" before its creation."""
    return str(obj["metadata"].get("uid", ""))


def labels_of(obj: Obj) -> dict[str, str]:
    """Return the object's labels."""
    return obj["metadata"].get("labels") or {}


def annotations_of(obj: Obj) -> dict[str, str]:
    """Return the object's annotations."""
    return obj["metadata"].get("annotations") or {}


def phase_of(pod: Obj) -> str:
    """Return the phase of a pod, Pending by default."""
    return str((pod.get("status") or {}).get("phase") or "Pending")


def is_terminating(obj: Obj) -> bool:
    """Return whether the object is being deleted."""
    return bool(obj["metadata"].get("deletionTimestamp"))


def controller_of(obj: Obj) -> Obj | None:
    """Return the owner reference of the object's controller."""
    for reference in obj["metadata"].get("ownerReferences") or ():
        if reference.get("controller"):
            return dict(reference)
    return None


def is_controlled_by(obj: Obj, owner: Obj) -> bool:
    """Return whether `owner` controls the object; another object with the owner's name does not count."""
    reference = controller_of(obj)
    return reference is not None and reference["uid"] == uid_of(owner)


def owner_reference(owner: Obj) -> Obj:
    """Return a controller reference to `owner`."""
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": name_of(owner),
        "uid": uid_of(owner),
        "controller": True,
        "blockOwnerDeletion": True,
    }


def owned(
    owner: Obj,
    api_version: str,
    kind: str,
    name: str,
    *,
    metadata: Obj | None = None,
    **fields: Any,
) -> Obj:
    """Return a new object in `owner`'s namespace, controlled by it; `metadata` has labels and annotations."""
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
    """Return the seconds until `after` seconds from `start` have passed; negative if they have."""
    return after - (now - datetime.fromisoformat(start)).total_seconds()
