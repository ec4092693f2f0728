"""A training job in a cluster of this process to which a fault has happened, and what the API has of it then.

`python -m tests.wire.kubernetes_node.faulted_jobs FOLDER` writes that as a file for each fault: the pictures
of `tests/ui/test_cluster_job_snapshots.py` are made from them.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.waiting import until
from tests.wire.kubernetes_node.pods import Pods, cluster
from tui.domain.kubernetes.failures.events import NOISE
from tui.emulator.kubernetes.resources import EVENTS, PODS

Obj = dict[str, Any]
SPACE, NAME, OTHERS = "training", "arr-coc-a100", ("bert-base", "bert-large")
SPOT: Obj = {
    "nodeSelector": {"cloud.google.com/gke-spot": "true"},
    "tolerations": [{"key": "cloud.google.com/gke-spot", "operator": "Exists"},
                    {"key": "nvidia.com/gpu", "operator": "Exists"}],
}  # fmt: skip
SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]
FAULTS = ("evicted", "out-of-memory", "node-preempted", "unschedulable", "queue-full")


def _job(
    name: str = NAME, *, gpus: int = 8, restart: str = "OnFailure", queue: str = "", workers: int = 3
) -> Obj:
    resources = {
        "limits": {"nvidia.com/gpu": gpus, "memory": "64Gi"},
        "requests": {"cpu": "8", "memory": "64Gi"},
    }
    container = {"name": "pytorch", "image": "python:3.11", "command": SLEEP, "resources": resources}
    spec = {"containers": [container], "terminationGracePeriodSeconds": 1, **SPOT}
    replicas = {"restartPolicy": restart, "template": {"spec": spec}}
    return {
        "apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob",
        "metadata": {
            "name": name, "namespace": SPACE,
            "labels": {"kueue.x-k8s.io/queue-name": queue} if queue else {},
        },
        "spec": {
            "runPolicy": {"cleanPodPolicy": "None"},
            "pytorchReplicaSpecs": {
                "Master": {"replicas": 1, **replicas}, "Worker": {"replicas": workers, **replicas},
            },
        },
    }  # fmt: skip


_JOBS: dict[str, Callable[[], Obj]] = {
    "evicted": _job,
    "out-of-memory": lambda: _job(restart="Never"),
    "node-preempted": lambda: _job(workers=2),
    "unschedulable": lambda: _job(gpus=16),
    "queue-full": lambda: _job(queue="training"),
}


class FaultedJob:
    """The job, in its cluster."""

    def __init__(self, pods: Pods) -> None:
        self.pods, self.objects = pods, pods.emulator.objects
        self.kind = self.objects.resource("PyTorchJob", "kubeflow.org", "v1")

    def pod(self, name: str) -> Obj:
        """A pod of the job; empty while there is none."""
        name = f"{NAME}-{name}"
        found = [each for each in self.objects.list(PODS) if each["metadata"]["name"] == name]
        return dict(found[0]) if found else {}

    def runs(self, *names: str, but: str = "") -> bool:
        """Whether these pods run, none of them with the uid `but`."""
        found = [self.pod(name) for name in names]
        return all(
            (each.get("status") or {}).get("phase") == "Running" and each["metadata"]["uid"] != but
            for each in found
        )

    def condition(self, kind: str, name: str) -> Obj:
        """A condition of the job, or of its pods, that is true; empty where there is none."""
        objects = self.objects.list(PODS) if kind == "Pod" else [self.objects.get(self.kind, SPACE, NAME)]
        found = [
            each for obj in objects for each in (obj.get("status") or {}).get("conditions") or ()
            if each["type"] == name
        ]  # fmt: skip
        return dict(found[0]) if found else {}

    async def suffer(self, fault: str) -> None:
        """Let the fault happen, and wait until the cluster has dealt with it."""
        faults = self.pods.emulator.node.faults
        if fault == "unschedulable":
            why = lambda: self.condition("Pod", "PodScheduled").get("reason") == "Unschedulable"  # noqa: E731
            await until(why, "the scheduler's answer")
            return
        if fault == "queue-full":
            why = lambda: (self._workload().get("status") or {}).get("conditions")  # noqa: E731
            await until(why, "the queue's answer")
            return
        await until(lambda: self.runs("master-0", "worker-0", "worker-1"), "its pods")
        worker = self.pod("worker-1")
        uid, name, node = worker["metadata"]["uid"], worker["metadata"]["name"], worker["spec"]["nodeName"]
        if fault == "evicted":
            faults.evict(SPACE, name)
        elif fault == "out-of-memory":
            faults.kill_for_memory(SPACE, name)
            await until(lambda: self.condition("Job", "Failed"), "its end")
            return
        else:
            faults.cordon(node, True)
            faults.preempt(node, 1.0, 0.3)
        await until(lambda: self.runs("worker-1", but=uid), "another pod")
        await until(lambda: self.condition("Job", "Running").get("status") == "True", "the job to run again")

    def _workload(self) -> Obj:
        return next((dict(each) for each in self._workloads() if NAME in each["metadata"]["name"]), {})

    def _workloads(self) -> list[Obj]:
        return list(self.objects.list(self.objects.resource("workloads")))

    async def fill_queue(self) -> None:
        """Let other jobs have all that the queue gives: one for each of its flavors with GPUs."""
        for name in OTHERS:
            self.objects.create(self.kind, _job(name, queue="training"))
        await until(lambda: self._admitted() == len(OTHERS), "the other jobs to be admitted")

    def _admitted(self) -> int:
        found = [(each.get("status") or {}).get("conditions") or () for each in self._workloads()]
        return sum(any(c["type"] == "Admitted" and c["status"] == "True" for c in each) for each in found)

    def recorded(self) -> Obj:
        """What the API has of the job."""
        workload = self._workload()
        return {
            "job": self.objects.get(self.kind, SPACE, NAME),
            "pods": [each for each in self.objects.list(PODS) if NAME in each["metadata"]["name"]],
            "events": [each for each in self.objects.list(EVENTS) if each["reason"] not in NOISE],
            "workload": workload or None,
        }


@asynccontextmanager
async def faulted_job(fault: str) -> AsyncIterator[FaultedJob]:
    """The job before its fault; `suffer` makes it happen."""
    async with cluster() as pods:
        job = FaultedJob(pods)
        if fault == "queue-full":
            await job.fill_queue()
        job.objects.create(job.kind, _JOBS[fault]())
        try:
            yield job
        finally:
            for each in job.objects.list(job.kind):
                job.objects.delete(job.kind, SPACE, each["metadata"]["name"])


async def record(folder: Path) -> None:
    """Write a file for each fault."""
    for fault in FAULTS:
        async with faulted_job(fault) as job:
            await job.suffer(fault)
            lines = {name: json.dumps(found, sort_keys=True) for name, found in job.recorded().items()}
        text = ",\n".join(f'"{name}": {line}' for name, line in lines.items())
        # The interpreter has another place on each machine.
        text = text.replace(json.dumps(sys.executable), '"python"')
        (folder / f"{fault}.json").write_text(f"{{\n{text}\n}}\n")


if __name__ == "__main__":
    asyncio.run(record(Path(sys.argv[1])))
