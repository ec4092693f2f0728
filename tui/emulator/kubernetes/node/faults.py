"""Faults of nodes and pods, as a cluster inflicts them on training jobs."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from tui.domain.kubernetes import quantity
from tui.emulator.kubernetes.errors import BadRequest
from tui.emulator.kubernetes.node.disruption import EVICTION_API, condition, disrupt
from tui.emulator.kubernetes.node.kubelet.images import SlowPull
from tui.emulator.kubernetes.node.kubelet.kubelet import Kubelet
from tui.emulator.kubernetes.node.kubelet.pod import PodWorker
from tui.emulator.kubernetes.node.kubelet.status import PodVerdict
from tui.emulator.kubernetes.node.nodes import Nodes
from tui.emulator.kubernetes.node.serving.usage import usage_of
from tui.emulator.kubernetes.objects import Objects
from tui.emulator.kubernetes.resources import NODES, PODS, Obj


@dataclass(frozen=True, slots=True)
class NodeFaults:
    """Injects faults immediately. Methods raise ApiNotFound or BadRequest."""

    objects: Objects
    kubelet: Kubelet
    nodes: Nodes

    def verbs(self) -> dict[str, Callable[[Obj], Obj]]:
        """Return the handlers of the admin API by `do`; see `api/admin.py`::

        {"do": "evict", "namespace": N, "pod": P}
        {"do": "oom", "namespace": N, "pod": P, "container": C}
        {"do": "preempt", "node": N, "notice": S, "back": S}      times default to the settings; with a
                                                                  negative `back` the node stays away
        {"do": "slow-pull", "image": PATTERN, "seconds": S, "lasts": S}
        {"do": "cordon" | "uncordon" | "drain", "node": N}
        """
        return {
            "evict": self._handle_evict,
            "oom": self._handle_oom,
            "preempt": self._handle_preempt,
            "slow-pull": self._handle_slow_pull,
            "cordon": lambda request: self._handle_cordon(request, True),
            "uncordon": lambda request: self._handle_cordon(request, False),
            "drain": lambda request: {"pods": self.drain(_text(request, "node"))},
        }

    def _handle_evict(self, request: Obj) -> Obj:
        namespace, pod = _text(request, "namespace"), _text(request, "pod")
        self.evict(namespace, pod)
        return {"namespace": namespace, "pod": pod}

    def _handle_oom(self, request: Obj) -> Obj:
        namespace, pod = _text(request, "namespace"), _text(request, "pod")
        container = self.kill_for_memory(namespace, pod, str(request.get("container") or ""))
        return {"namespace": namespace, "pod": pod, "container": container}

    def _handle_preempt(self, request: Obj) -> Obj:
        node, settings = _text(request, "node"), self.kubelet.services.settings
        notice = _number(request, "notice", settings.spot_notice_seconds)
        back = _number(request, "back", settings.node_return_seconds)
        pods = self.preempt(node, notice, back)
        return {"node": node, "notice": notice, "back": back, "pods": pods}

    def _handle_slow_pull(self, request: Obj) -> Obj:
        image, seconds = _text(request, "image"), _number(request, "seconds", 0.0)
        lasts = _number(request, "lasts", 3600.0)
        self.slow_pull(image, seconds, lasts)
        return {"image": image, "seconds": seconds, "lasts": lasts}

    def _handle_cordon(self, request: Obj, on: bool) -> Obj:
        node = _text(request, "node")
        self.cordon(node, on)
        return {"node": node, "unschedulable": on}

    def evict(self, namespace: str, name: str) -> None:
        """Evict a pod like a kubelet whose node runs out of memory."""
        worker = self._running(namespace, name)
        low = "The node was low on resource: memory. Threshold quantity: 100Mi, available: 83724Ki. "
        message = low + _uses(worker)
        worker.event("Evicted", message, warning=True)
        worker.stop(0, PodVerdict("Evicted", message, (condition("TerminationByKubelet", message),)))

    def preempt(self, node: str, notice: float, back: float) -> list[str]:
        """Reclaim a node like a GKE Spot machine after `notice` seconds; return the pods on it.

        The node returns `back` seconds later, or never if `back` is negative.
        """
        if notice < 0:
            raise BadRequest("notice must be at least 0 seconds")
        self.nodes.preempt(node, notice, None if back < 0 else back)
        return [f"{worker.namespace}/{worker.name}" for worker in self.kubelet.pods_on(node)]

    def kill_for_memory(self, namespace: str, name: str, container: str = "") -> str:
        """Kill a container like the kernel's OOM killer; return the container's name."""
        worker = self._running(namespace, name)
        running = [
            candidate
            for candidate in worker.containers
            if candidate.state.running and container in {"", candidate.name}
        ]
        if not running:
            raise BadRequest(f"pod {namespace}/{name} has no running container {container}".rstrip())
        run = running[-1].run_folder
        assert run is not None
        self.kubelet.services.runner.command(run, {"do": "oom", "replicas": [running[-1].name]})
        node = self.objects.get(NODES, "", str(worker.spec["nodeName"]))
        # GKE's node-problem-detector reports this from the kernel log.
        message = f"Memory cgroup out of memory: Killed process ({running[-1].name})"
        self.objects.event(node, "OOMKilling", message, type="Warning", component="kernel-monitor")
        return running[-1].name

    def slow_pull(self, image: str, seconds: float, lasts: float) -> None:
        """Make pulls of images that match `image` (shell wildcards) take `seconds`, for `lasts` seconds."""
        if seconds < 0 or lasts <= 0:
            raise BadRequest("seconds must be at least 0, and lasts more than 0")
        self.kubelet.services.images.slow.append(SlowPull(image, seconds, time.monotonic() + lasts))

    def cordon(self, node: str, on: bool = True) -> None:
        """Mark a node unschedulable, or schedulable again."""

        def edit(obj: Obj) -> None:
            obj["spec"]["unschedulable"] = on
            if not on:
                del obj["spec"]["unschedulable"]

        self.objects.change(NODES, "", node, edit)

    def drain(self, node: str) -> list[str]:
        """Cordon a node and evict its pods through the API; return their names."""
        self.cordon(node)
        gone = []
        for worker in self.kubelet.pods_on(node):
            disrupt(self.objects, worker.namespace, worker.name, EVICTION_API, uid=worker.uid)
            gone.append(f"{worker.namespace}/{worker.name}")
        return gone

    def _running(self, namespace: str, name: str) -> PodWorker:
        pod = self.objects.get(PODS, namespace, name)
        worker = self.kubelet.workers.get(str(pod["metadata"]["uid"]))
        if worker is None:
            raise BadRequest(f"pod {namespace}/{name} does not run on a node")
        if worker.ended:
            raise BadRequest(f"pod {namespace}/{name} has ended")
        return worker


def _text(request: Obj, key: str) -> str:
    """Return a required text field. Raises ValueError."""
    value = request.get(key)
    if not isinstance(value, str) or not value:
        raise ValueError(f"{key} is missing")
    return value


def _number(request: Obj, key: str, default: float) -> float:
    """Return a field in seconds. Raises ValueError."""
    value = request.get(key, default)
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise ValueError(f"{key} must be a number of seconds, not {value!r}")
    return float(value)


def _uses(worker: PodWorker) -> str:
    """Return the kubelet's message about containers that use more memory than they request."""
    parts = []
    for container in worker.main:
        usage = usage_of(container)
        requested = ((container.spec.get("resources") or {}).get("requests") or {}).get("memory", "0")
        if usage is not None and usage.memory is not None:
            parts.append(
                f"Container {container.name} was using {quantity.kibibytes(usage.memory)}, "
                f"request is {requested}, has larger consumption of memory. "
            )
    return "".join(parts)
