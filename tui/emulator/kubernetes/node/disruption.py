"""Disruptions of pods: deletion with the condition DisruptionTarget."""

from __future__ import annotations

from tui.emulator.kubernetes.objects import Objects
from tui.emulator.kubernetes.resources import PODS, Obj
from tui.emulator.kubernetes.times import rfc3339

KIND = "DisruptionTarget"
SHUTDOWN = "Pod was terminated in response to imminent node shutdown."
EVICTION_API = "EvictionByEvictionAPI", "Eviction API: evicting"
TAINT = "DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint"
NODE_GONE = "DeletionByPodGC", "PodGC: node no longer exists"


def condition(reason: str, message: str) -> dict[str, str]:
    """Return the condition as a kubelet reports it."""
    return {"type": KIND, "status": "True", "reason": reason, "message": message}


def disrupt(
    objects: Objects,
    namespace: str,
    name: str,
    why: tuple[str, str],
    *,
    grace: float | None = None,
    uid: str = "",
) -> None:
    """Delete a pod with a condition that gives the reason. Raises ApiNotFound, ApiConflict."""
    now = rfc3339(objects.now())

    def edit(obj: Obj) -> None:
        conditions = obj.setdefault("status", {}).setdefault("conditions", [])
        conditions[:] = [present for present in conditions if present["type"] != KIND]
        conditions.append({**condition(*why), "lastProbeTime": None, "lastTransitionTime": now})

    if not uid or objects.get(PODS, namespace, name)["metadata"]["uid"] == uid:
        objects.change(PODS, namespace, name, edit, status=True)
    objects.delete(PODS, namespace, name, grace=grace, uid=uid)
