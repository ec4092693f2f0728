"""Status of PodGroups: counts of their pods, phase, and why they wait."""

from __future__ import annotations

import copy
from collections.abc import Iterable

from tui.emulator.kubernetes.controller import Controller, Key, key_of
from tui.emulator.kubernetes.objects import Objects
from tui.emulator.kubernetes.operators import conditions, store
from tui.emulator.kubernetes.operators.metadata import annotations_of, labels_of, namespace_of, phase_of
from tui.emulator.kubernetes.operators.training.gang import GROUP_ANNOTATION, GROUP_LABEL
from tui.emulator.kubernetes.resources import Obj
from tui.emulator.kubernetes.times import rfc3339
from tui.emulator.kubernetes.watching import WatchEvent

COSCHEDULING, VOLCANO = "scheduling.x-k8s.io", "scheduling.volcano.sh"


class PodGroupController(Controller):
    """Updates the status of both schedulers' PodGroups."""

    name = "podgroup-controller"

    def __init__(self, objects: Objects) -> None:
        super().__init__(objects)
        self.groups = {group: objects.resource("podgroups", group) for group in (COSCHEDULING, VOLCANO)}
        self.pods = objects.resource("pods")
        self.watched = (*self.groups.values(), self.pods)

    def keys(self, event: WatchEvent) -> Iterable[Key]:
        if event.resource != self.pods:
            return (key_of(event.resource, event.obj),)
        namespace = namespace_of(event.obj)
        return [Key(self.groups[group], namespace, name) for group, name in _groups_of(event.obj)]

    def reconcile(self, key: Key) -> float | None:
        group = self.objects.find(key.resource, key.namespace, key.name)
        if group is None:
            return None
        mine = (key.resource.group, key.name)
        members = [pod for pod in self.objects.list(self.pods, key.namespace) if mine in _groups_of(pod)]
        least = int((group.get("spec") or {}).get("minMember") or 1)
        status = copy.deepcopy(group.get("status") or {})
        status.update(_counts(members))
        volcano = key.resource.group == VOLCANO
        status["phase"] = _volcano_phase(members, least) if volcano else _phase(members, least)
        if volcano:
            self._say_why(status, members, least)
        store.set_status(self.objects, key.resource, group, status)
        return None

    def _say_why(self, status: Obj, members: list[Obj], least: int) -> None:
        """Set Volcano's conditions: Scheduled, or Unschedulable with the reason."""
        now = rfc3339(self.objects.now())
        if sum(bool(pod["spec"].get("nodeName")) for pod in members) >= least:
            message = "pod group is ready"
            conditions.put(status, "Scheduled", "tasks in gang are ready to be scheduled", message, now)
            if conditions.is_true(status, "Unschedulable"):
                conditions.put(status, "Unschedulable", "Scheduled", message, now, value="False")
            return
        for pod in members:
            why = conditions.find(pod.get("status") or {}, "PodScheduled")
            if why is not None and why["status"] == "False":
                conditions.put(
                    status, "Unschedulable", "NotEnoughResources", str(why.get("message", "")), now
                )
                return


def _groups_of(pod: Obj) -> list[tuple[str, str]]:
    groups = []
    if name := labels_of(pod).get(GROUP_LABEL):
        groups.append((COSCHEDULING, name))
    if name := annotations_of(pod).get(GROUP_ANNOTATION):
        groups.append((VOLCANO, name))
    return groups


def _counts(members: list[Obj]) -> dict[str, int]:
    phases = [phase_of(pod) for pod in members]
    return {
        "running": phases.count("Running"),
        "succeeded": phases.count("Succeeded"),
        "failed": phases.count("Failed"),
    }


def _phase(members: list[Obj], least: int) -> str:
    counts = _counts(members)
    if not members:
        return "Pending"
    if counts["failed"] and counts["failed"] + counts["running"] + counts["succeeded"] >= least:
        return "Failed"
    if counts["succeeded"] >= least:
        return "Finished"
    if counts["running"] + counts["succeeded"] >= least:
        return "Running"
    return "Scheduling"


def _volcano_phase(members: list[Obj], least: int) -> str:
    counts = _counts(members)
    if members and counts["succeeded"] >= least:
        return "Completed"
    if counts["running"] + counts["succeeded"] >= least:
        return "Running"
    return "Inqueue"
