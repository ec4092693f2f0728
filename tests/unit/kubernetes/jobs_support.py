"""What several tests share with test_jobs."""

from __future__ import annotations

from typing import Any

from tui.domain.kubernetes.jobs import RelatedObjects, job_of
from tui.domain.kubernetes.pods import Pod, reduced
from tui.domain.kubernetes.workloads import workload_of

T0, T1, T2 = (f"2026-11-25T18:0{minute}:00Z" for minute in range(3))
GPU_POD = {
    "spec": {
        "nodeSelector": {
            "cloud.google.com/gke-accelerator": "nvidia-tesla-a100",
            "cloud.google.com/gke-spot": "true",
        },
        "containers": [{"name": "pytorch", "image": "i", "resources": {"limits": {"nvidia.com/gpu": 8}}}],
    }
}


def pytorch(*conditions: tuple[str, str], **status: Any) -> dict[str, Any]:
    """A PyTorchJob with a master and three workers; a condition is its type and the time since when."""
    true = [
        {"type": kind, "status": "True", "reason": f"PyTorchJob{kind}", "message": f"It is {kind}.",
         "lastTransitionTime": since}
        for kind, since in conditions
    ]  # fmt: skip
    specs = {"Master": {"replicas": 1, "template": GPU_POD}, "Worker": {"replicas": 3, "template": GPU_POD}}
    return {
        "apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob",
        "metadata": {"name": "bert", "namespace": "team", "creationTimestamp": T0, "labels": {"a": "b"}},
        "spec": {"pytorchReplicaSpecs": specs, "runPolicy": {"activeDeadlineSeconds": 60}},
        "status": {"conditions": true, "startTime": T0, **status},
    }  # fmt: skip


def pod(name: str, index: int, phase: str = "Running", *, kind: str = "worker", **more: Any) -> Pod:
    """A pod of it; `more` are fields of its status, `state` that of its container."""
    state = more.pop("state", {"running": {"startedAt": T1}})
    spec = {"nodeName": more.pop("node", f"node-{index}"), **GPU_POD["spec"], **more.pop("spec", {})}
    found = reduced(
        {
            "metadata": {
                "name": name, "namespace": "team", "uid": name, "creationTimestamp": more.pop("created", T0),
                "labels": {
                    "training.kubeflow.org/replica-type": kind,
                    "training.kubeflow.org/replica-index": str(index),
                },
                "ownerReferences": [{"kind": "PyTorchJob", "name": "bert", "controller": True}],
                **more.pop("metadata", {}),
            },
            "spec": spec,
            "status": {
                "phase": phase,
                "containerStatuses": [{"restartCount": more.pop("restarts", 0), "state": state}],
                **more,
            },
        }
    )  # fmt: skip
    assert found is not None
    return found


def ended(code: int, reason: str = "Error", at: str = T2) -> dict[str, Any]:
    return {"terminated": {"exitCode": code, "reason": reason, "startedAt": T1, "finishedAt": at}}


def job(obj: dict[str, Any], **found: Any):  # type: ignore[no-untyped-def]
    workload = workload_of(obj)
    assert workload is not None
    return job_of(obj, workload, "gke", "prod", RelatedObjects(**found))
