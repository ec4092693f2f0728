"""What of an object no update changes, and when it ends."""

from __future__ import annotations

from typing import Any

from tui.emulator.kubernetes.resources import NAMESPACES

Obj = dict[str, Any]


def desired(obj: Obj) -> Obj:
    """What a generation counts: all but the metadata and the status."""
    return {key: value for key, value in obj.items() if key not in {"metadata", "status"}}


def keep_identity(new: Obj, old: Obj) -> None:
    """What no update changes: type, name, uid, times and versions that the server sets."""
    new["apiVersion"], new["kind"] = old["apiVersion"], old["kind"]
    meta, before = new.setdefault("metadata", {}), old["metadata"]
    for field in ("labels", "annotations", "finalizers", "ownerReferences"):
        if not meta.get(field):
            meta.pop(field, None)
    for field in (
        "name",
        "namespace",
        "uid",
        "creationTimestamp",
        "generation",
        "generateName",
        "resourceVersion",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "selfLink",
    ):
        if field in before:
            meta[field] = before[field]
        else:
            meta.pop(field, None)


def is_gone(obj: Obj) -> bool:
    """Whether nothing is in the way of the object's deletion."""
    meta = obj["metadata"]
    if "deletionTimestamp" not in meta or meta.get("finalizers"):
        return False
    waits_for_contents = obj["kind"] == NAMESPACES.kind and (obj.get("spec") or {}).get("finalizers")
    return not waits_for_contents and not meta.get("deletionGracePeriodSeconds")


def grace_of(pod: Obj, grace: float | None) -> int:
    spec = pod.get("spec") or {}
    if not spec.get("nodeName") or (pod.get("status") or {}).get("phase") in {"Succeeded", "Failed"}:
        # No kubelet has to end anything.
        return 0
    own = spec.get("terminationGracePeriodSeconds")
    # Less than a second of grace is no grace.
    return int(grace) if grace is not None else int(30 if own is None else own)
