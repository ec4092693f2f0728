"""Initial objects of a new cluster: training runtimes and a queue over its node pools."""

from __future__ import annotations

import importlib.resources
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

import yaml

from tui.domain.kubernetes import quantity
from tui.emulator.kubernetes.errors import ApiNotFound
from tui.emulator.kubernetes.node.pools import NodePool
from tui.emulator.kubernetes.objects import Objects
from tui.emulator.kubernetes.operators import store
from tui.emulator.kubernetes.operators.resources import render
from tui.emulator.kubernetes.resources import Obj

PACKAGE = "tui.emulator.kubernetes.operators"
GPU, SPOT = "nvidia.com/gpu", "cloud.google.com/gke-spot"
QUEUE = "training"
"""Name of the LocalQueue, its namespace and its ClusterQueue."""


def ready_made_runtimes() -> list[Obj]:
    """Return the ClusterTrainingRuntimes that Kubeflow Trainer installs."""
    file = importlib.resources.files(PACKAGE).joinpath("trainjob", "runtimes.yaml")
    return list(yaml.safe_load_all(file.read_text(encoding="utf-8")))


def queue_over(pools: Sequence[NodePool]) -> Iterator[Obj]:
    """Yield a flavor per node pool, a ClusterQueue with the pools' size, and a LocalQueue."""
    pools = [pool for pool in pools if pool.nodes]
    if not pools:
        return
    for pool in pools:
        yield _object("ResourceFlavor", pool.name, _flavor(pool))
    group = {"coveredResources": ["cpu", "memory", GPU], "flavors": [_quota(pool) for pool in pools]}
    spec = {
        "namespaceSelector": {},
        "queueingStrategy": "BestEffortFIFO",
        "preemption": {"withinClusterQueue": "LowerPriority"},
        "resourceGroups": [group],
    }
    yield _object("ClusterQueue", QUEUE, spec)
    yield _object("LocalQueue", QUEUE, {"clusterQueue": QUEUE}, namespace=QUEUE)
    for name, value in (("low", -100), ("high", 1000)):
        yield {**_object("WorkloadPriorityClass", name, {}), "value": value}


def _object(kind: str, name: str, spec: Obj, *, namespace: str = "") -> Obj:
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": metadata} | (
        {"spec": spec} if spec else {}
    )


def _flavor(pool: NodePool) -> Obj:
    """Return a pool's flavor spec; its tolerations admit pods to the pool's tainted nodes."""
    keys = [GPU] * (pool.accelerators > 0) + [SPOT] * pool.spot
    spec: Obj = {"nodeLabels": {"cloud.google.com/gke-nodepool": pool.name}}
    if keys:
        spec["tolerations"] = [{"key": key, "operator": "Exists", "effect": "NoSchedule"} for key in keys]
    return spec


def _quota(pool: NodePool) -> Obj:
    memory = quantity.parse(pool.memory) * pool.nodes
    amounts = {
        "cpu": str(pool.cpus * pool.nodes),
        "memory": render("memory", memory),
        GPU: str(pool.accelerators * pool.nodes),
    }
    return {
        "name": pool.name,
        "resources": [{"name": name, "nominalQuota": amount} for name, amount in amounts.items()],
    }


def create_missing(objects: Objects, objs: Iterable[Obj]) -> None:
    """Create the missing objects; existing objects stay unchanged.

    Objects in namespaces that the settings leave out are skipped.
    """
    for obj in objs:
        with suppress(ApiNotFound):
            store.create(objects, obj)
