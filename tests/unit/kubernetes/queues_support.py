"""What several tests share with test_queues."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.kubernetes.cluster import Cluster, Obj
from tui.emulator.kubernetes.operators.controllers import controllers
from tui.emulator.kubernetes.operators.seed import create_missing, ready_made_runtimes

KUEUE = "kueue.x-k8s.io"
VERSION = f"{KUEUE}/v1beta2"
LABELS = {"kueue.x-k8s.io/queue-name": "training"}


def kueue(kind: str, name: str, spec: Obj, **more: Any) -> str:
    return json.dumps({"apiVersion": VERSION, "kind": kind, "metadata": {"name": name}, "spec": spec, **more})


def flavor(name: str, gpus: int, cpus: int = 8) -> Obj:
    amounts = {"cpu": str(cpus), "nvidia.com/gpu": str(gpus)}
    return {
        "name": name,
        "resources": [{"name": key, "nominalQuota": value} for key, value in amounts.items()],
    }


def queue_spec(*flavors: Obj, **more: Any) -> Obj:
    group = {"coveredResources": ["cpu", "nvidia.com/gpu"], "flavors": list(flavors)}
    return {"namespaceSelector": {}, "resourceGroups": [group], **more}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path)
    prepare(cluster)
    yield cluster
    cluster.close()


def prepare(cluster: Cluster) -> None:
    cluster.controllers = controllers(cluster.objects)
    create_missing(cluster.objects, ready_made_runtimes())
    toleration = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
    taint = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
    gpu = {"nodeLabels": {"pool": "a100"}, "nodeTaints": [taint], "tolerations": [toleration]}
    cluster.apply(kueue("ResourceFlavor", "cpu", {"nodeLabels": {"pool": "cpu"}}))
    cluster.apply(kueue("ResourceFlavor", "a100", gpu))
    policy = {"withinClusterQueue": "LowerPriority"}
    cluster.apply(
        kueue("ClusterQueue", "all", queue_spec(flavor("cpu", 0), flavor("a100", 8), preemption=policy))
    )
    cluster.apply(kueue("LocalQueue", "training", {"clusterQueue": "all"}))
    for name, value in (("low", 10), ("high", 100)):
        cluster.apply(
            json.dumps(
                {
                    "apiVersion": VERSION,
                    "kind": "WorkloadPriorityClass",
                    "metadata": {"name": name},
                    "value": value,
                }
            )
        )
    cluster.settle()


def pod(container: str, gpus: int = 0, cpus: str = "1") -> Obj:
    limits = {"nvidia.com/gpu": str(gpus)} if gpus else {}
    resources = {"requests": {"cpu": cpus}, "limits": limits}
    return {"spec": {"containers": [{"name": container, "image": "trainer", "resources": resources}]}}


def batch_job(name: str, gpus: int = 0, pods: int = 1, priority: str = "", **labels: str) -> str:
    marks = {**LABELS, **({"kueue.x-k8s.io/priority-class": priority} if priority else {}), **labels}
    template = pod("main", gpus)
    template["spec"]["restartPolicy"] = "Never"
    spec = {"parallelism": pods, "completions": pods, "suspend": True, "template": template}
    return json.dumps(
        {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "labels": marks}, "spec": spec}
    )
