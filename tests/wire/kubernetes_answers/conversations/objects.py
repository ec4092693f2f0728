"""Objects that conversations are about, and paths."""

from __future__ import annotations

from typing import Any

Obj = dict[str, Any]
MAPS = "/api/v1/namespaces/{ns}/configmaps"
PODS = "/api/v1/namespaces/{ns}/pods"
JOBS = "/apis/batch/v1/namespaces/{ns}/jobs"
TABLE = {"accept": "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"}
METADATA = {"accept": "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"}
MERGE = {"content-type": "application/merge-patch+json"}
STRATEGIC = {"content-type": "application/strategic-merge-patch+json"}
JSON_PATCH = {"content-type": "application/json-patch+json"}
APPLY = {"content-type": "application/apply-patch+yaml"}


def custom(group: str, version: str, plural: str) -> str:
    return f"/apis/{group}/{version}/namespaces/{{ns}}/{plural}"


def config_map(name: str, data: Obj | None = None, **metadata: Any) -> Obj:
    metadata = {"name": name, **metadata}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data or {"a": "1"}}


def container(name: str = "main", **more: Any) -> Obj:
    return {"name": name, "image": "python:3.11", "command": ["true"], **more}


def pod(name: str, *containers: Obj, **spec: Any) -> Obj:
    # No scheduler takes it.
    more = {"automountServiceAccountToken": False, "schedulerName": "test.example"}
    spec = {**more, "containers": list(containers) or [container()], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def template(name: str = "main", **spec: Any) -> Obj:
    return {"spec": {"containers": [container(name)], **spec}}


def job(name: str, **spec: Any) -> Obj:
    """A batch Job that no controller of the cluster touches."""
    spec = {
        "suspend": True,
        "managedBy": "test.example/none",
        "template": template(restartPolicy="Never"),
        **spec,
    }
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}


def pytorch_job(name: str, workers: Any = 1, **spec: Any) -> Obj:
    groups = {
        "Master": {"replicas": 1, "template": template("pytorch")},
        "Worker": {"replicas": workers, "template": template("pytorch")},
    }
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": name},
        "spec": {"pytorchReplicaSpecs": groups, "runPolicy": {"suspend": True}, **spec},
    }


def train_job(name: str, **spec: Any) -> Obj:
    spec = {"runtimeRef": {"name": "torch-distributed"}, "suspend": True, **spec}
    return {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "metadata": {"name": name},
        "spec": spec,
    }


def job_set(name: str, **spec: Any) -> Obj:
    replicated = {"name": "node", "template": {"spec": {"template": template(restartPolicy="Never")}}}
    spec = {"suspend": True, "replicatedJobs": [replicated], **spec}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": name},
        "spec": spec,
    }
