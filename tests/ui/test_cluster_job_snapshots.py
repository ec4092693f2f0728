"""How a cluster's job looks that waits, or lost a pod: from the API's objects to the screen."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.ui.double import console
from tests.ui.job_double import ControlledJobs, JobBackend, line
from tests.ui.test_job_snapshots import (
    TABS,
    _utc,  # noqa: F401 - times of the pictures
    ready_screen,
)
from tui.config.settings import Context, Settings
from tui.domain.job import Job
from tui.domain.kubernetes.jobs import Found, job_of
from tui.domain.kubernetes.nodes.machine import NodeMachine
from tui.domain.kubernetes.nodes.shares import node_shares
from tui.domain.kubernetes.pods import Pod, reduced
from tui.domain.kubernetes.waiting import waits_for
from tui.domain.kubernetes.workloads import WORKLOADS

Obj = dict[str, Any]
SIZES = {"80": (80, 24), "120": (120, 40), "200": (200, 60)}
PYTORCH = next(each for each in WORKLOADS if each.key == "pytorch_job")
GPU = {"limits": {"nvidia.com/gpu": 8}}
TIMES = {"created": "2026-11-21T11:40:00Z", "running": "2026-11-21T11:45:00Z"}


class ClusterJobs(ControlledJobs):
    """Jobs of a cluster in memory."""

    def owns(self, name: str) -> bool:
        return name.startswith("clusters/")


def _job_object(*conditions: Obj, spot: bool = False, queue: str = "") -> Obj:
    nodes = {"cloud.google.com/gke-accelerator": "nvidia-tesla-a100"}
    nodes |= {"cloud.google.com/gke-spot": "true"} if spot else {}
    container = {"name": "pytorch", "image": "eu.gcr.io/p/train:1", "resources": GPU}
    template = {"spec": {"containers": [container], "nodeSelector": nodes}}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {
            "name": "arr-coc-a100-7x4kq",
            "namespace": "training",
            "uid": "u",
            "creationTimestamp": TIMES["created"],
            "labels": {"kueue.x-k8s.io/queue-name": queue} if queue else {},
        },
        "spec": {
            "runPolicy": {"suspend": bool(queue)},
            "pytorchReplicaSpecs": {
                "Master": {"replicas": 1, "template": template},
                "Worker": {"replicas": 3, "template": template},
            },
        },
        "status": {"conditions": list(conditions)},
    }


def _condition(kind: str, reason: str, message: str, status: str = "True") -> Obj:
    when = TIMES["running"]
    return {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": when}


def _pod(role: str, index: int, *, node: str = "", spot: bool = False, **status: Any) -> Pod:
    found = reduced(
        {
            "metadata": {
                "name": f"arr-coc-{role}-{index}",
                "namespace": "training",
                "uid": f"{role}{index}",
                "creationTimestamp": TIMES["created"],
                "ownerReferences": [{"kind": "PyTorchJob", "name": "arr-coc", "controller": True}],
                "labels": {
                    "training.kubeflow.org/replica-type": role,
                    "training.kubeflow.org/replica-index": str(index),
                },
            },
            "spec": {
                "nodeName": node,
                "nodeSelector": {"cloud.google.com/gke-spot": "true"} if spot else {},
                "containers": [{"name": "pytorch", "resources": GPU}],
            },
            "status": status,
        }
    )
    assert found is not None
    return found


def _running(role: str, index: int, node: str, *, spot: bool = False) -> Pod:
    state = {"running": {"startedAt": TIMES["running"]}}
    container = {"name": "pytorch", "restartCount": 0, "state": state}
    return _pod(role, index, node=node, spot=spot, phase="Running", containerStatuses=[container])


def _ended(role: str, index: int, node: str, code: int, why: str, **status: Any) -> Pod:
    spot = bool(status.pop("spot", False))
    # The others end after the one that had a reason.
    ends = "2026-11-21T11:57:00Z" if why == "OOMKilled" else "2026-11-21T11:57:04Z"
    terminated = {"exitCode": code, "reason": why, "startedAt": TIMES["running"], "finishedAt": ends}
    container = {"name": "pytorch", "restartCount": 2, "state": {"terminated": terminated}}
    return _pod(role, index, node=node, spot=spot, phase="Failed", containerStatuses=[container], **status)


def _read(obj: Obj, pods: list[Pod], workload: Obj | None = None) -> Job:
    machines = {pod.node: A100 for pod in pods}
    waiting = waits_for(obj, pods, workload)
    found = Found(pods=pods, waiting=waiting, nodes=node_shares(pods, machines))
    return job_of(obj, PYTORCH, "gke", "gke_p_us-central1_train", found)


A100 = NodeMachine("a2-highgpu-8g", "us-central1", "NVIDIA_TESLA_A100", 8)
RESTARTING = _condition("Restarting", "PyTorchJobRestarting", "PyTorchJob arr-coc is restarting.")
CREATED = _condition("Created", "PyTorchJobCreated", "PyTorchJob arr-coc is created.")
RUN = _condition("Running", "PyTorchJobRunning", "PyTorchJob arr-coc is running.")
SHORT = (
    "0/10 nodes are available: 2 Insufficient nvidia.com/gpu, 8 node(s) didn't match Pod's node "
    "affinity/selector. preemption: 0/10 nodes are available."
)


def _evicted() -> Job:
    status = {"reason": "Evicted", "message": "The node was low on resource: ephemeral-storage."}
    pods = [_running("master", 0, "gke-a100-0"), _ended("worker", 0, "gke-a100-1", 137, "Error", **status)]
    return _read(_job_object(CREATED, RUN), pods)


def _out_of_memory() -> Job:
    failed = _condition("Failed", "PyTorchJobFailed", "PyTorchJob arr-coc is failed because 1 Worker failed.")
    pods = [
        _ended("master", 0, "gke-a100-0", 1, "Error"),
        _ended("worker", 2, "gke-a100-3", 137, "OOMKilled"),
    ]
    return _read(_job_object(CREATED, failed), pods)


def _node_preempted() -> Job:
    told = "Pod was terminated in response to imminent node shutdown."
    lost = _ended("worker", 1, "gke-spot-2", 143, "Error", reason="Terminated", message=told, spot=True)
    pods = [_running("master", 0, "gke-spot-0", spot=True), lost]
    return _read(_job_object(CREATED, RESTARTING, spot=True), pods)


def _unschedulable() -> Job:
    scheduled = _condition("PodScheduled", "Unschedulable", SHORT, "False")
    pods = [
        _pod(role, at, phase="Pending", conditions=[scheduled]) for role, at in (("master", 0), ("worker", 0))
    ]
    return _read(_job_object(CREATED), pods)


def _queue_full() -> Job:
    message = (
        "couldn't assign flavors to pod set worker: insufficient unused quota for nvidia.com/gpu in flavor "
        "a100-spot, 16 more needed"
    )
    reserved = _condition("QuotaReserved", "Pending", message, "False")
    workload = {"spec": {"queueName": "training"}, "status": {"conditions": [reserved]}}
    suspended = _condition("Suspended", "PyTorchJobSuspended", "PyTorchJob arr-coc is suspended.")
    return _read(_job_object(CREATED, suspended, queue="training"), [], workload)


JOBS = {
    "evicted": _evicted,
    "out-of-memory": _out_of_memory,
    "node-preempted": _node_preempted,
    "unschedulable": _unschedulable,
    "queue-full": _queue_full,
}
LOOKS = [
    *((name, "120", "overview", "vxtui-dark") for name in JOBS),
    ("unschedulable", "80", "overview", "vxtui-dark"),
    ("unschedulable", "200", "overview", "vxtui-light"),
    ("node-preempted", "80", "replicas", "vxtui-dark"),
    ("out-of-memory", "120", "replicas", "vxtui-light"),
    ("evicted", "200", "replicas", "vxtui-dark"),
]


@pytest.mark.parametrize("look", LOOKS, ids=["-".join(look) for look in LOOKS])
def test_why_a_job_does_not_run(look: tuple[str, str, str, str], tmp_path: Path, snap_compare: Any) -> None:
    name, size, tab, theme = look
    found = JOBS[name]()
    backend = JobBackend(found, local=False)
    backend.info = replace(backend.info, regions=("training",))
    backend.use(jobs={PYTORCH.key: ClusterJobs(backend)})
    backend.say(line(30, "step 12/400 loss 3.1", "worker-0"))
    here = Context("gke", kind="kubernetes", namespaces=["training"])
    app = console(backend, tmp_path, context=here, settings=Settings(theme=theme))

    ready = partial(ready_screen, app=app, backend=backend, keys=TABS[tab], fail=None)
    assert snap_compare(app, terminal_size=SIZES[size], run_before=ready)
