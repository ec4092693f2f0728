"""The fields of an object that updates can't change, and when its deletion completes."""

from __future__ import annotations

from tui.emulator.kubernetes.resources import NAMESPACES, Obj


def desired(obj: Obj) -> Obj:
    """Return the fields whose changes raise the generation: all but metadata and status."""
    return {key: value for key, value in obj.items() if key not in {"metadata", "status"}}


def keep_identity(new: Obj, old: Obj) -> None:
    """Restore the fields that no update changes: type, name, uid, times and versions set by the server."""
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
    """Return whether nothing delays the object's deletion."""
    meta = obj["metadata"]
    if "deletionTimestamp" not in meta or meta.get("finalizers"):
        return False
    waits_for_contents = obj["kind"] == NAMESPACES.kind and (obj.get("spec") or {}).get("finalizers")
    return not waits_for_contents and not meta.get("deletionGracePeriodSeconds")


def grace_of(pod: Obj, grace: float | None) -> int:
    spec = pod.get("spec") or {}
    if not spec.get("nodeName") or (pod.get("status") or {}).get("phase") in {"Succeeded", "Failed"}:
        # No kubelet has to stop containers.
        return 0
    own = spec.get("terminationGracePeriodSeconds")
    # Less than a second counts as no grace period.
    return int(grace) if grace is not None else int(30 if own is None else own)
