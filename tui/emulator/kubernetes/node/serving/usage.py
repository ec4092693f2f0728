"""Pods' use of CPU, memory, network and accelerators: metrics.k8s.io and a kubelet's metrics."""

from __future__ import annotations

import sqlite3
import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from tui.domain.kubernetes import quantity
from tui.emulator.kubernetes.node.kubelet.container import PodContainer
from tui.emulator.kubernetes.node.kubelet.kubelet import Kubelet
from tui.emulator.kubernetes.resources import Obj
from tui.emulator.kubernetes.times import NANOSECONDS, rfc3339
from tui.emulator.runner import host, sampler
from tui.emulator.runner.database import read_samples
from tui.emulator.runner.simulated_gpus import MARK

WINDOW = 30.0
"""Age in seconds of the oldest usable sample."""
GPU_MEMORY = 40 << 30
"""Memory in bytes of a simulated accelerator, an A100."""


@dataclass
class Usage:
    """Newest samples of one container; None for a value that is not measured."""

    time: float
    cores: float | None = None
    memory: float | None = None
    received: float | None = None
    sent: float | None = None
    accelerators: dict[str, dict[str, float]] = field(default_factory=lambda: defaultdict(dict))
    """Values by index (marked if simulated) and metric, as fractions."""


def usage_of(container: PodContainer) -> Usage | None:
    """Return the usage of a running container, or None before its first sample."""
    run = container.run_folder
    if run is None or not container.state.running:
        return None
    since = time.time_ns() - round(WINDOW * NANOSECONDS)
    try:
        samples = read_samples(run, since)
    except sqlite3.Error:
        return None
    if not samples:
        return None
    usage = Usage(samples[-1][0] / NANOSECONDS)
    for _, _, metric, accelerator, value in samples:
        if metric == sampler.CPU:
            usage.cores = value * host.cpus()
        elif metric == sampler.MEMORY:
            usage.memory = value * host.memory_bytes()
        elif metric == sampler.NET_IN:
            usage.received = value
        elif metric == sampler.NET_OUT:
            usage.sent = value
        elif accelerator:
            usage.accelerators[accelerator][metric] = value
    return usage


def pod_metrics(kubelet: Kubelet, pod: Obj) -> Obj | None:
    """Return the PodMetrics of a running pod, or None before the first sample."""
    worker = kubelet.workers.get(str(pod["metadata"]["uid"]))
    measured: list[Obj] = []
    newest = 0.0
    for container in worker.containers if worker else ():
        usage = usage_of(container)
        if usage is None or usage.cores is None or usage.memory is None:
            continue
        newest = max(newest, usage.time)
        amounts = {"cpu": quantity.nanocores(usage.cores), "memory": quantity.kibibytes(usage.memory)}
        measured.append({"name": container.name, "usage": amounts})
    if not measured:
        return None
    metadata = {
        key: pod["metadata"][key] for key in ("name", "namespace", "labels") if key in pod["metadata"]
    }
    return {
        "kind": "PodMetrics",
        "apiVersion": "metrics.k8s.io/v1beta1",
        "metadata": {**metadata, "creationTimestamp": rfc3339()},
        "timestamp": rfc3339(newest),
        "window": f"{kubelet.services.settings.sample_period:g}s",
        "containers": measured,
    }


def node_metrics(kubelet: Kubelet, node: Obj) -> Obj:
    """Return the NodeMetrics: the total use of the node's pods."""
    cores = memory = 0.0
    for container in containers_on(kubelet, node["metadata"]["name"]):
        if usage := usage_of(container):
            cores += usage.cores or 0.0
            memory += usage.memory or 0.0
    metadata = {key: node["metadata"][key] for key in ("name", "labels") if key in node["metadata"]}
    return {
        "kind": "NodeMetrics",
        "apiVersion": "metrics.k8s.io/v1beta1",
        "metadata": {**metadata, "creationTimestamp": rfc3339()},
        "timestamp": rfc3339(),
        "window": f"{kubelet.services.settings.sample_period:g}s",
        "usage": {"cpu": quantity.nanocores(cores), "memory": quantity.kibibytes(memory)},
    }


def containers_on(kubelet: Kubelet, node: str) -> list[PodContainer]:
    """Return the containers of a node's pods."""
    return [container for worker in kubelet.pods_on(node) for container in worker.containers]


def prometheus(kubelet: Kubelet, node: str) -> str:
    """Return the node's containers in the Prometheus text format with cAdvisor's names.

    A simulated accelerator has the label `simulated`.
    """
    rows: dict[str, list[str]] = defaultdict(list)
    for container in containers_on(kubelet, node):
        usage = usage_of(container)
        if usage is None:
            continue
        labels = {
            "namespace": container.pod.namespace,
            "pod": container.pod.name,
            "container": container.name,
        }
        at = round(usage.time * 1000)
        plain = {
            "container_cpu_usage_cores": usage.cores,
            "container_memory_working_set_bytes": usage.memory,
            "container_network_receive_bytes_total": usage.received,
            "container_network_transmit_bytes_total": usage.sent,
        }
        for name, value in plain.items():
            if value is not None:
                rows[name].append(_row(name, labels, value, at))
        for accelerator, values in usage.accelerators.items():
            for name, value in _accelerator(values):
                rows[name].append(_row(name, {**labels, **_device(accelerator)}, value, at))
    return "".join(f"# TYPE {name} gauge\n" + "".join(lines) for name, lines in sorted(rows.items()))


def _device(accelerator: str) -> dict[str, str]:
    simulated = accelerator.startswith(MARK)
    return {
        "acc_id": accelerator.removeprefix(MARK),
        "make": "nvidia",
        **({"simulated": "true"} if simulated else {}),
    }


def _accelerator(values: dict[str, float]) -> Iterable[tuple[str, float]]:
    if sampler.GPU in values:
        yield "container_accelerator_duty_cycle", round(values[sampler.GPU] * 100, 1)
    if sampler.GPU_MEMORY in values:
        yield "container_accelerator_memory_used_bytes", round(values[sampler.GPU_MEMORY] * GPU_MEMORY)
        yield "container_accelerator_memory_total_bytes", GPU_MEMORY


def _row(name: str, labels: dict[str, str], value: float, at: int) -> str:
    inside = ",".join(f'{key}="{text}"' for key, text in labels.items())
    return f"{name}{{{inside}}} {value:.12g} {at}\n"
