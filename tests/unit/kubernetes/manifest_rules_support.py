"""What several tests share with test_manifest_rules."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from tui.domain.kubernetes.workloads import GPU

Obj = dict[str, Any]


def container(name: str = "pytorch", gpus: int = 8) -> Obj:
    return {
        "name": name,
        "image": "repo/bert:v1",
        "args": ["--steps=10"],
        "resources": {"limits": {GPU: gpus}, "requests": {"memory": "8Gi"}},
    }


def template(name: str = "pytorch", gpus: int = 8, accelerator: str = "nvidia-tesla-a100") -> Obj:
    selector = {"cloud.google.com/gke-accelerator": accelerator} if gpus else {}
    return {"spec": {"nodeSelector": selector, "containers": [container(name, gpus)]}}


def pytorch(**spec: Any) -> Obj:
    replicas = {
        "Master": {"replicas": 1, "restartPolicy": "OnFailure", "template": template()},
        "Worker": {"replicas": 3, "restartPolicy": "OnFailure", "template": template()},
    }
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {},
        "spec": {"nprocPerNode": "8", "pytorchReplicaSpecs": replicas, **spec},
    }


def elastic() -> Obj:
    job = pytorch(elasticPolicy={"minReplicas": 1, "maxReplicas": 4, "rdzvBackend": "c10d"})
    del job["spec"]["pytorchReplicaSpecs"]["Master"]
    return job


def tf() -> Obj:
    pods = template("tensorflow")
    replicas = {role: {"replicas": 1, "template": copy.deepcopy(pods)} for role in ("Chief", "Worker")}
    return {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "spec": {"tfReplicaSpecs": replicas}}


def mpi() -> Obj:
    replicas = {
        "Launcher": {"replicas": 1, "restartPolicy": "Never", "template": template("mpi", 0)},
        "Worker": {"replicas": 2, "template": template("worker")},
    }
    spec = {"slotsPerWorker": 8, "mpiReplicaSpecs": replicas}
    return {"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "spec": spec}


def train() -> Obj:
    trainer = {"numNodes": 2, "numProcPerNode": 8, "resourcesPerNode": {"limits": {GPU: 8}}}
    spec = {"runtimeRef": {"name": "torch-distributed"}, "trainer": trainer}
    return {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "spec": spec}


def batch() -> Obj:
    pods = template()
    pods["spec"]["restartPolicy"] = "Never"
    spec = {"parallelism": 2, "completions": 2, "completionMode": "Indexed", "template": pods}
    return {"apiVersion": "batch/v1", "kind": "Job", "spec": spec}


def job_set() -> Obj:
    one = {"name": "node", "replicas": 1, "template": {"spec": batch()["spec"]}}
    return {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "spec": {"replicatedJobs": [one]}}


GOOD: dict[str, Callable[[], Obj]] = {
    "pytorch": pytorch, "elastic": elastic, "tf": tf, "mpi": mpi, "train": train, "batch": batch,
    "jobset": job_set,
}  # fmt: skip
