"""Binds pending pods to nodes by priority, gangs together, with kube-scheduler's conditions and events."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Sequence
from typing import Any

from tui.domain.kubernetes.quantity import NotAQuantity
from tui.emulator.kubernetes.errors import ApiError, ApiNotFound
from tui.emulator.kubernetes.node.scheduling import fit, gang
from tui.emulator.kubernetes.node.scheduling.fit import NodeRoom
from tui.emulator.kubernetes.node.scheduling.gang import GangAttempt, GroupKey
from tui.emulator.kubernetes.objects import Objects
from tui.emulator.kubernetes.resources import NODES, PODS, Obj
from tui.emulator.kubernetes.times import rfc3339
from tui.emulator.kubernetes.watching import WatchEvent

log = logging.getLogger(__name__)

TERMINAL = {"Succeeded", "Failed"}
LONG_PASS = 0.01
"""Duration in seconds of a pass that yields to other work afterwards."""
RETRY_SECONDS = 1.0
"""Delay after a failed pass."""
GATED = "Scheduling is blocked due to non-empty scheduling gates"


class Scheduler:
    """Passes over pending pods after each relevant change."""

    name = "scheduler"

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._groups = {
            group: objects.resource("podgroups", group) for group in (gang.COSCHEDULING, gang.VOLCANO)
        }
        self._claims = objects.resource("persistentvolumeclaims")
        self._rooms: dict[str, NodeRoom] = {}
        """Every node with its bound pods."""
        self._bound: dict[str, Obj] = {}
        """Bound pods that have not ended, by uid."""
        self._pending: dict[str, Obj] = {}
        """Pods without a node, by uid."""
        self._refusals: dict[str, str] = {}
        """Last refusal of each pending pod, by uid."""
        self._freed = True
        """Whether a refused pod may fit now."""

    async def run(self) -> None:
        """Run until cancelled."""
        changes = self._objects.watch((PODS, NODES, self._claims, *self._groups.values()))
        try:
            for resource in (NODES, PODS):
                for obj in self._objects.list(resource):
                    self._see(WatchEvent("ADDED", resource, obj))
            while not changes.closed:
                began = time.perf_counter()
                try:
                    self._schedule()
                except (ApiError, NotAQuantity) as error:
                    log.warning("pods could not be scheduled: %s", error)
                    self._freed = True
                    await asyncio.sleep(RETRY_SECONDS)
                # After a long pass, let other tasks run and let changes accumulate.
                took = time.perf_counter() - began
                await asyncio.sleep(min(1.0, 5 * took) if took > LONG_PASS else 0)
                matters = False
                while not matters and not changes.closed:
                    await changes.wait()
                    relevant = [self._see(event) for event in changes.take()]
                    matters = any(relevant)
        finally:
            changes.close()

    def _see(self, event: WatchEvent) -> bool:
        """Record a change; return whether it may make a pod schedulable."""
        if event.resource is NODES:
            if not _node_matters(event):
                return False
            self._note_node(event)
        elif event.resource is PODS:
            return self._note_pod(event)
        self._freed = True
        return True

    def _note_node(self, event: WatchEvent) -> None:
        name = str(event.obj["metadata"]["name"])
        if event.type == "DELETED":
            self._rooms.pop(name, None)
            return
        room = self._rooms[name] = NodeRoom(event.obj)
        for pod in self._bound.values():
            if pod["spec"]["nodeName"] == name:
                room.add(pod)

    def _note_pod(self, event: WatchEvent) -> bool:
        pod, uid = event.obj, str(event.obj["metadata"]["uid"])
        if event.type == "DELETED" or (pod.get("status") or {}).get("phase") in TERMINAL:
            self._refusals.pop(uid, None)
            was_pending = self._pending.pop(uid, None) is not None
            return self._unbind(uid) or was_pending
        if pod["spec"].get("nodeName"):
            self._note_bound(pod)
            return False
        if uid in self._bound:
            # The event predates the binding.
            return False
        if "deletionTimestamp" in pod["metadata"]:
            self._pending.pop(uid, None)
            return False
        known = self._pending.get(uid)
        self._pending[uid] = pod
        same = known is not None and _wants(known) == _wants(pod)
        if not same:
            self._refusals.pop(uid, None)
        return not same

    def _note_bound(self, pod: Obj) -> None:
        uid = str(pod["metadata"]["uid"])
        self._refusals.pop(uid, None)
        self._pending.pop(uid, None)
        if uid not in self._bound and (room := self._rooms.get(pod["spec"]["nodeName"])) is not None:
            room.add(pod)
        self._bound[uid] = pod

    def _unbind(self, uid: str) -> bool:
        """Release a pod's resources; return whether it had any."""
        pod = self._bound.pop(uid, None)
        if pod is None:
            return False
        if (room := self._rooms.get(pod["spec"]["nodeName"])) is not None:
            room.add(pod, -1)
        self._freed = True
        return True

    def _schedule(self) -> None:
        # A refused pod fits only after resources are freed; a gang may have grown.
        due = [
            pod
            for uid, pod in self._pending.items()
            if self._freed or uid not in self._refusals or GroupKey.of(pod)
        ]
        self._freed = False
        if not due:
            return
        rooms = list(self._rooms.values())
        due.sort(key=_order)
        done: set[GroupKey] = set()
        hopeless: dict[str, str] = {}
        ready = self._ungated(due)
        for pod in ready:
            key = GroupKey.of(pod)
            if key is None:
                self._schedule_one(pod, rooms, hopeless)
            elif key not in done:
                done.add(key)
                self._schedule_group(key, [p for p in ready if GroupKey.of(p) == key], rooms)

    def _schedule_one(self, pod: Obj, rooms: Sequence[NodeRoom], hopeless: dict[str, str]) -> None:
        # Nothing is freed within a pass, so equal pods are refused alike.
        alike = _scheduling_key(pod)
        if alike in hopeless:
            self._refuse(pod, hopeless[alike])
            return
        room, (refusals, lacking) = self._fit(pod, rooms)
        if room is not None:
            self._bind(pod, room.name)
            return
        hopeless[alike] = fit.explain(refusals, lacking)
        self._refuse(pod, hopeless[alike])

    def _schedule_group(self, key: GroupKey, ready: list[Obj], rooms: list[NodeRoom]) -> None:
        """Bind enough pods of a group at once, or none."""
        group = self._objects.find(self._groups[key.group], key.namespace, key.name)
        if group is None:
            for pod in ready:
                self._refuse(pod, f"PodGroup not found: {key.namespace}/{key.name}")
            return
        bound = sum(GroupKey.of(pod) == key for pod in self._bound.values())
        members = bound + sum(GroupKey.of(pod) == key for pod in self._pending.values())
        minimum = int((group.get("spec") or {}).get("minMember") or 1)
        attempt = GangAttempt(key, minimum, members, len(ready))
        if members < minimum:
            for pod in ready:
                self._refuse(pod, attempt.too_few(pod, len(rooms)))
            return
        trial = [room.copy() for room in rooms]
        placed: list[tuple[Obj, NodeRoom]] = []
        for pod in ready:
            room, why = self._fit(pod, trial)
            if room is None:
                attempt.failed.append((pod, *why))
            else:
                room.add(pod)
                placed.append((pod, room))
        enough = bound + len(placed) >= minimum
        for pod, room in placed:
            if enough:
                self._bind(pod, room.name)
            else:
                self._refuse(pod, attempt.held_up())
        for failed, refusals, lacking in attempt.failed:
            self._refuse(failed, attempt.explain(refusals, lacking, enough))

    def _ungated(self, pending: list[Obj]) -> list[Obj]:
        """Return the pods without scheduling gates, and set the condition of gated pods."""
        ready = []
        for pod in pending:
            if pod["spec"].get("schedulingGates"):
                uid = pod["metadata"]["uid"]
                if self._refusals.get(uid) != GATED:
                    self._refusals[uid] = GATED
                    self._condition(pod, "SchedulingGated", GATED)
            else:
                ready.append(pod)
        return ready

    def _fit(
        self, pod: Obj, rooms: Sequence[NodeRoom]
    ) -> tuple[NodeRoom | None, tuple[list[fit.Refusal], str]]:
        """Return the node for a pod, or the refusal of each node and the requirement that no node meets."""
        lacking = self._missing_claim(pod)
        if lacking:
            return None, (fit.nowhere(len(rooms)), lacking)
        room, refusals = fit.choose(pod, rooms)
        return room, (refusals, "")

    def _missing_claim(self, pod: Obj) -> str:
        """Return kube-scheduler's message for a missing volume claim, or ""."""
        for volume in pod["spec"].get("volumes") or ():
            claim = volume.get("persistentVolumeClaim")
            if claim is None:
                continue
            stored_claim = self._objects.find(self._claims, pod["metadata"]["namespace"], claim["claimName"])
            if stored_claim is None:
                return f'persistentvolumeclaim "{claim["claimName"]}" not found'
            if "deletionTimestamp" in stored_claim["metadata"]:
                return f'persistentvolumeclaim "{claim["claimName"]}" is being deleted'
        return ""

    def _bind(self, pod: Obj, node: str) -> None:
        meta = pod["metadata"]
        namespace, name = meta["namespace"], meta["name"]

        def bound(obj: Obj) -> None:
            obj["spec"]["nodeName"] = node

        def scheduled(obj: Obj) -> None:
            _set_condition(obj, {"type": "PodScheduled", "status": "True"})

        try:
            # Set the condition first, so that a client that reads the node also reads the pod as scheduled.
            self._objects.change(PODS, namespace, name, scheduled, status=True)
            changed = self._objects.change(PODS, namespace, name, bound)
        except ApiNotFound:
            return
        self._note_bound(changed)
        text = f"Successfully assigned {namespace}/{name} to {node}"
        self._objects.event(changed, "Scheduled", text, component=_component(pod), action="Binding")

    def _refuse(self, pod: Obj, message: str) -> None:
        """Report why a pod stays pending, once per reason."""
        uid = pod["metadata"]["uid"]
        if self._refusals.get(uid) == message:
            return
        self._refusals[uid] = message
        self._condition(pod, "Unschedulable", message)
        self._objects.event(
            pod, "FailedScheduling", message, type="Warning", component=_component(pod), action="Scheduling"
        )

    def _condition(self, pod: Obj, reason: str, message: str) -> None:
        def edit(obj: Obj) -> None:
            obj.setdefault("status", {}).setdefault("phase", "Pending")
            condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
            _set_condition(obj, condition)

        meta = pod["metadata"]
        try:
            changed = self._objects.change(PODS, meta["namespace"], meta["name"], edit, status=True)
            self._pending[meta["uid"]] = changed
        except ApiNotFound:
            self._pending.pop(meta["uid"], None)


def _set_condition(pod: Obj, condition: Obj) -> None:
    conditions = pod.setdefault("status", {}).setdefault("conditions", [])
    old = next((present for present in conditions if present["type"] == condition["type"]), None)
    same = old is not None and old["status"] == condition["status"]
    since = old["lastTransitionTime"] if same and old else rfc3339()
    entry = {"lastProbeTime": None, "lastTransitionTime": since, **condition}
    if old is None:
        conditions.append(entry)
    else:
        conditions[conditions.index(old)] = entry


def _order(pod: Obj) -> tuple[int, str, int]:
    """Sort by highest priority, then by age."""
    meta = pod["metadata"]
    return -int(pod["spec"].get("priority") or 0), meta["creationTimestamp"], int(meta["resourceVersion"])


def _component(pod: Obj) -> str:
    return str(pod["spec"].get("schedulerName") or "default-scheduler")


def _scheduling_key(pod: Obj) -> str:
    """Return a key that pods with the same scheduling requirements share."""
    spec = pod["spec"]
    affinity = (spec.get("affinity") or {}).get("nodeAffinity")
    claims = [v["persistentVolumeClaim"] for v in spec.get("volumes") or () if "persistentVolumeClaim" in v]
    parts = [
        sorted(fit.requests(spec).items()),
        fit.host_ports(spec),
        spec.get("nodeSelector"),
        affinity,
        spec.get("tolerations"),
        claims,
        pod["metadata"]["namespace"],
    ]
    return json.dumps(parts, sort_keys=True)


def _wants(pod: Obj) -> tuple[Any, ...]:
    """Return the fields whose changes can make a pod schedulable."""
    return pod["spec"], pod["metadata"].get("labels"), pod["metadata"].get("annotations")


def _node_matters(event: WatchEvent) -> bool:
    """Return whether a node change is relevant; heartbeats are not."""
    if event.type != "MODIFIED" or event.old is None:
        return True
    old, new = event.old, event.obj
    return (
        old.get("spec") != new.get("spec")
        or old["metadata"].get("labels") != new["metadata"].get("labels")
        or (old.get("status") or {}).get("allocatable") != (new.get("status") or {}).get("allocatable")
    )
