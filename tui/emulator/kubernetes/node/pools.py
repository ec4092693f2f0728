"""The settings of node pools, and Node objects like those of GKE."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, Field

from tui.domain.kubernetes import quantity
from tui.emulator.kubernetes.resources import Obj

GPU = "nvidia.com/gpu"
ZONE, REGION = "us-central1-a", "us-central1"
KUBELET = "v1.32.9-gke.1130000"
POOL_LABEL = "cloud.google.com/gke-nodepool"
SPOT_LABEL = "cloud.google.com/gke-spot"
ACCELERATOR_LABEL = "cloud.google.com/gke-accelerator"
_GIB = 1 << 30
_MEMORY_STEPS = ((4, 0.25), (4, 0.20), (8, 0.10), (112, 0.06), (float("inf"), 0.02))
"""GiB of memory, and the fraction that GKE reserves."""
_CPU_STEPS = ((1, 0.06), (1, 0.01), (2, 0.005), (float("inf"), 0.0025))
_EVICTION = 100 << 20
"""Bytes that GKE reserves for evictions."""


class NodePool(BaseModel):
    """A group of identical nodes. Every node is this machine; the scheduler uses the nominal sizes."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(pattern=r"[a-z]([a-z0-9-]{0,38}[a-z0-9])?")
    nodes: int = Field(1, ge=0, le=1000)
    machine_type: str = "e2-standard-8"
    cpus: int = Field(8, ge=1)
    memory: str = "32Gi"
    accelerator: str = ""
    """GKE's name of the accelerator, e.g. `nvidia-tesla-a100`."""
    accelerators: int = Field(0, ge=0)
    """Accelerators per node."""
    spot: bool = False
    simulate_accelerators: bool = True
    """Simulate the use of missing accelerators; a real device is never simulated."""
    labels: dict[str, str] = Field(default_factory=dict)
    taints: list[dict[str, str]] = Field(default_factory=list)
    """Taints in REST format, in addition to the taints of GKE."""


DEFAULT_POOLS: tuple[NodePool, ...] = (
    NodePool(name="cpu", nodes=2, cpus=8, accelerators=0),
    NodePool(
        name="a100-spot", nodes=4, machine_type="a2-highgpu-8g", cpus=96, memory="680Gi",
        accelerator="nvidia-tesla-a100", accelerators=8, spot=True,
    ),
    NodePool(
        name="a100", nodes=4, machine_type="a2-highgpu-8g", cpus=96, memory="680Gi",
        accelerator="nvidia-tesla-a100", accelerators=8,
    ),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class PoolNode:
    """One node of a pool."""

    pool: NodePool
    index: int
    address: str

    @property
    def name(self) -> str:
        """A stable name: GKE recreates a reclaimed Spot machine under its name."""
        digest = hashlib.sha256(f"{self.pool.name}/{self.index}".encode()).hexdigest()
        group = hashlib.sha256(self.pool.name.encode()).hexdigest()[:8]
        return f"gke-local-k8s-{self.pool.name}-{group}-{digest[:4]}"


def machines(pools: Sequence[NodePool]) -> Iterator[PoolNode]:
    """Yield every node of these pools."""
    count = 2
    for pool in pools:
        for index in range(pool.nodes):
            yield PoolNode(pool, index, f"10.128.{count // 250}.{count % 250 + 1}")
            count += 1


def node_object(machine: PoolNode, now: str) -> Obj:
    """Return the Node as its kubelet registers it."""
    pool = machine.pool
    capacity = {
        "cpu": str(pool.cpus),
        "memory": quantity.kibibytes(int(quantity.parse(pool.memory))),
        "ephemeral-storage": "98831908Ki",
        "hugepages-1Gi": "0",
        "hugepages-2Mi": "0",
        "pods": "110",
        **({GPU: str(pool.accelerators)} if pool.accelerators else {}),
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": machine.name, "labels": _labels(machine), "annotations": _annotations(machine)},
        "spec": {
            "providerID": f"gce://local/{ZONE}/{machine.name}",
            **({"taints": taints} if (taints := _taints(pool)) else {}),
        },
        "status": {
            "addresses": [
                {"type": "InternalIP", "address": machine.address},
                {"type": "Hostname", "address": machine.name},
            ],
            "capacity": capacity,
            "allocatable": capacity | _allocatable(pool),
            "conditions": conditions(now),
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "images": [],
            "nodeInfo": _info(machine),
        },
    }


def conditions(now: str, *, shutting_down: bool = False) -> list[dict[str, str]]:
    """Return the conditions that a kubelet reports."""
    pressures = [
        _condition(kind, "False", f"KubeletHas{reason}", f"kubelet has {text} available", now)
        for kind, reason, text in (
            ("MemoryPressure", "SufficientMemory", "sufficient memory"),
            ("DiskPressure", "NoDiskPressure", "no disk pressure"),
            ("PIDPressure", "SufficientPID", "sufficient PID"),
        )
    ]
    pressures[1]["message"] = "kubelet has no disk pressure"
    if shutting_down:
        return [*pressures, _condition("Ready", "False", "KubeletNotReady", "node is shutting down", now)]
    return [*pressures, _condition("Ready", "True", "KubeletReady", "kubelet is posting ready status", now)]


def _condition(kind: str, status: str, reason: str, message: str, now: str) -> dict[str, str]:
    times = {"lastHeartbeatTime": now, "lastTransitionTime": now}
    return {"type": kind, "status": status, **times, "reason": reason, "message": message}


def _labels(machine: PoolNode) -> dict[str, str]:
    pool = machine.pool
    family = pool.machine_type.partition("-")[0]
    labels = {
        "beta.kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/instance-type": pool.machine_type,
        "beta.kubernetes.io/os": "linux",
        "cloud.google.com/gke-boot-disk": "pd-balanced",
        "cloud.google.com/gke-container-runtime": "containerd",
        POOL_LABEL: pool.name,
        "cloud.google.com/gke-os-distribution": "cos",
        "cloud.google.com/gke-provisioning": "spot" if pool.spot else "standard",
        "cloud.google.com/machine-family": family,
        "failure-domain.beta.kubernetes.io/region": REGION,
        "failure-domain.beta.kubernetes.io/zone": ZONE,
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": machine.name,
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": pool.machine_type,
        "topology.gke.io/zone": ZONE,
        "topology.kubernetes.io/region": REGION,
        "topology.kubernetes.io/zone": ZONE,
    }
    if pool.spot:
        labels[SPOT_LABEL] = "true"
    if pool.accelerators:
        labels[ACCELERATOR_LABEL] = pool.accelerator
        labels["cloud.google.com/gke-accelerator-count"] = str(pool.accelerators)
        labels["cloud.google.com/gke-gpu"] = "true"
        # Two blocks of two hosts, for topology requests.
        block = machine.index // 2
        labels["cloud.google.com/gce-topology-block"] = f"block-{pool.name}-{block // 2}"
        labels["cloud.google.com/gce-topology-subblock"] = f"subblock-{pool.name}-{block}"
        labels["cloud.google.com/gce-topology-host"] = f"host-{pool.name}-{machine.index}"
    return labels | pool.labels


def _annotations(machine: PoolNode) -> dict[str, str]:
    return {"node.alpha.kubernetes.io/ttl": "0", "vxtui.dev/simulated-node": "every node is this machine"}


def _taints(pool: NodePool) -> list[dict[str, str]]:
    taints = list(pool.taints)
    if pool.accelerators:
        taints.append({"key": GPU, "value": "present", "effect": "NoSchedule"})
    if pool.spot:
        taints.append({"key": SPOT_LABEL, "value": "true", "effect": "NoSchedule"})
    return taints


def _allocatable(pool: NodePool) -> dict[str, str]:
    """Return the CPUs and memory that GKE leaves for pods."""
    memory = int(quantity.parse(pool.memory))
    kept = _share(memory / _GIB, _MEMORY_STEPS) * _GIB + _EVICTION
    millis = round(pool.cpus * 1000 - _share(pool.cpus, _CPU_STEPS) * 1000)
    return {
        "cpu": f"{millis}m",
        "memory": quantity.kibibytes(max(memory - kept, memory / 2)),
        "ephemeral-storage": "47060071478",
    }


def _share(amount: float, steps: Sequence[tuple[float, float]]) -> float:
    kept = 0.0
    for size, share in steps:
        part = min(amount, size)
        kept, amount = kept + part * share, amount - part
    return kept


def _info(machine: PoolNode) -> dict[str, str]:
    digest = hashlib.md5(machine.name.encode(), usedforsecurity=False).hexdigest()
    return {
        "architecture": "amd64",
        "bootID": digest,
        "containerRuntimeVersion": "containerd://2.0.6",
        "kernelVersion": "6.6.105+",
        "kubeProxyVersion": KUBELET,
        "kubeletVersion": KUBELET,
        "machineID": digest,
        "operatingSystem": "linux",
        "osImage": "Container-Optimized OS from Google",
        "systemUUID": digest,
    }
