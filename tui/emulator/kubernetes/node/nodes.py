"""Node objects: registered at the start, cordoned, and reclaimed like GKE Spot machines."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, Literal

from tui.emulator.kubernetes.errors import ApiAlreadyExists, ApiError, ApiNotFound
from tui.emulator.kubernetes.node.disruption import NODE_GONE, SHUTDOWN, TAINT, condition, disrupt
from tui.emulator.kubernetes.node.kubelet.kubelet import Kubelet
from tui.emulator.kubernetes.node.kubelet.pod import PodWorker
from tui.emulator.kubernetes.node.kubelet.status import PodVerdict
from tui.emulator.kubernetes.node.pools import PoolNode, conditions, node_object
from tui.emulator.kubernetes.node.scheduling import fit
from tui.emulator.kubernetes.objects import Objects
from tui.emulator.kubernetes.resources import NODES, PODS, Obj
from tui.emulator.kubernetes.times import rfc3339
from tui.emulator.kubernetes.watching import WatchEvent

log = logging.getLogger(__name__)

NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
UNSCHEDULABLE = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


class Nodes:
    """Registers the nodes and maintains their taints."""

    name = "nodes"

    def __init__(self, objects: Objects, kubelet: Kubelet) -> None:
        self._objects, self._kubelet = objects, kubelet
        self._tasks: set[asyncio.Task[None]] = set()
        self._evicting: set[tuple[str, str]] = set()
        """(Pod uid, taint key) of pending evictions."""

    async def run(self) -> None:
        """Run until cancelled."""
        self._register_all()
        # Watch from now on, so that replaced nodes don't count as lost.
        changes = self._objects.watch((NODES,))
        try:
            async for event in changes:
                try:
                    self._see(event)
                except ApiError as error:
                    log.warning("node %s: %s", event.obj["metadata"]["name"], error)
        finally:
            changes.close()
            for task in self._tasks:
                task.cancel()

    def _register_all(self) -> None:
        present = {node["metadata"]["name"]: node for node in self._objects.list(NODES)}
        for machine in self._kubelet.services.machines.values():
            old = present.pop(machine.name, None)
            if old is None:
                self._register(machine)
            elif not _ready(old):
                # An earlier server was reclaiming the node.
                self._objects.delete(NODES, "", machine.name)
                self._register(machine)
        for name, node in present.items():
            if "vxtui.dev/simulated-node" in (node["metadata"].get("annotations") or {}):
                log.info("node %s is no longer in the settings", name)
                self._objects.delete(NODES, "", name)

    def _register(self, machine: PoolNode) -> None:
        try:
            node = self._objects.create(NODES, node_object(machine, rfc3339()))
        except ApiAlreadyExists:
            return
        self._event(node, "Starting", "Starting kubelet.", component="kubelet")
        text = f"Node {machine.name} event: Registered Node {machine.name} in Controller"
        self._event(node, "RegisteredNode", text)

    def _see(self, event: WatchEvent) -> None:
        if event.type == "DELETED":
            name = event.obj["metadata"]["name"]
            text = f"Node {name} event: Removing Node {name} from Controller"
            self._event(event.obj, "RemovingNode", text)
            if name in self._kubelet.services.machines and name not in self._kubelet.shutting_down:
                self._spawn(self._lose(name), f"loss of {name}")
            return
        spec = event.obj.get("spec") or {}
        tainted = any(present["key"] == UNSCHEDULABLE["key"] for present in spec.get("taints") or ())
        if bool(spec.get("unschedulable")) != tainted:
            self._taint(event.obj["metadata"]["name"], UNSCHEDULABLE, on=not tainted)
            kind = "NodeNotSchedulable" if not tainted else "NodeSchedulable"
            name = event.obj["metadata"]["name"]
            self._event(event.obj, kind, f"Node {name} status is now: {kind}", component="kubelet")
        for taint in spec.get("taints") or ():
            if taint.get("effect") == "NoExecute":
                self._evict_intolerant(event.obj["metadata"]["name"], taint)

    def _evict_intolerant(self, node: str, taint: Obj) -> None:
        """Delete the pods that do not tolerate the taint, or no longer do after some seconds."""
        for worker in self._kubelet.pods_on(node):
            allowed = fit.tolerated_seconds(taint, fit.tolerations(worker.spec))
            if allowed is not None and (worker.uid, taint["key"]) not in self._evicting:
                self._evicting.add((worker.uid, taint["key"]))
                name = f"eviction of {worker.title}"
                self._spawn(self._evict(worker, taint, allowed), name)

    async def _evict(self, worker: PodWorker, taint: Obj, wait: float) -> None:
        try:
            await asyncio.sleep(wait)
            node = self._objects.get(NODES, "", worker.spec["nodeName"])
            if any(present["key"] == taint["key"] for present in node["spec"].get("taints") or ()):
                worker.event(
                    "TaintManagerEviction", f"Marking for deletion Pod {worker.namespace}/{worker.name}"
                )
                disrupt(self._objects, worker.namespace, worker.name, TAINT, uid=worker.uid)
        except ApiError as error:
            log.info("pod %s is not evicted: %s", worker.title, error)
        finally:
            self._evicting.discard((worker.uid, taint["key"]))

    async def _lose(self, name: str) -> None:
        """End a deleted node's pods and register the machine again."""
        lost = self._kubelet.pods_on(name)
        for worker in lost:
            worker.stop(0, PodVerdict("", NODE_GONE[1], (condition(*NODE_GONE),)))
        for worker in lost:
            await worker.wait_for_end()
            try:
                self._objects.delete(PODS, worker.namespace, worker.name, grace=0, uid=worker.uid)
            except ApiError as error:
                log.info("pod %s: %s", worker.title, error)
        await asyncio.sleep(self._kubelet.services.settings.node_return_seconds)
        self._register(self._kubelet.services.machines[name])

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def preempt(self, name: str, notice: float, back: float | None) -> None:
        """Reclaim a node: its pods end within half of `notice` seconds, then the node disappears, and returns
        `back` seconds later (None: never). Raises ApiNotFound."""
        self._objects.get(NODES, "", name)
        if name in self._kubelet.shutting_down:
            return
        self._spawn(self._preempt(name, notice, back), f"preemption of {name}")

    async def _preempt(self, name: str, notice: float, back: float | None) -> None:
        kubelet, loop = self._kubelet, asyncio.get_running_loop()
        kubelet.shutting_down.add(name)
        end = loop.time() + notice
        try:
            node = self._shut_down(name)
            self._event(node, "Shutdown", "Shutdown manager detected shutdown event", component="kubelet")
            self._event(node, "NodeNotReady", f"Node {name} status is now: NodeNotReady")
            mine = self._kubelet.pods_on(name)
            for worker in mine:
                worker.stop(
                    min(worker.grace, notice / 2),
                    PodVerdict("Terminated", SHUTDOWN, (condition("TerminationByKubelet", SHUTDOWN),)),
                )
            ends = [asyncio.ensure_future(ending.wait_for_end()) for ending in mine]
            if ends:
                await asyncio.wait(ends, timeout=max(0.0, end - loop.time()))
            for worker in mine:
                worker.stop(0)
            await asyncio.gather(*ends)
            self._objects.delete(NODES, "", name)
            if back is None:
                return
            await asyncio.sleep(back)
            kubelet.shutting_down.discard(name)
            self._register(kubelet.services.machines[name])
        except ApiNotFound:
            # The node was deleted in the meantime.
            pass
        finally:
            kubelet.shutting_down.discard(name)

    def _shut_down(self, name: str) -> Obj:
        def edit(obj: Obj) -> None:
            obj["status"]["conditions"] = conditions(rfc3339(), shutting_down=True)

        self._objects.change(NODES, "", name, edit, status=True)
        return self._taint(name, NOT_READY, on=True)

    def _taint(self, name: str, taint: dict[str, str], *, on: bool) -> Obj:
        def edit(obj: Obj) -> None:
            taints = [
                present for present in obj["spec"].get("taints") or () if present["key"] != taint["key"]
            ]
            if on:
                taints.append({**taint, "timeAdded": rfc3339()})
            obj["spec"]["taints"] = taints

        return self._objects.change(NODES, "", name, edit)

    def _event(self, node: Obj, reason: str, message: str, *, component: str = "node-controller") -> None:
        kind: Literal["Normal", "Warning"] = "Normal"
        self._objects.event(node, reason, message, type=kind, component=component)


def _ready(node: Obj) -> bool:
    reported = (node.get("status") or {}).get("conditions") or ()
    return any(entry["type"] == "Ready" and entry["status"] == "True" for entry in reported)
