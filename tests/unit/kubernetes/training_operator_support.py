"""What several tests share with test_training_operator."""

from __future__ import annotations

import json
from typing import Any


def pytorch_job(workers: int = 1, *, master: bool = True, policy: str = "OnFailure", **spec: Any) -> str:
    """A manifest, in JSON, which is YAML."""
    replica = {
        "restartPolicy": policy,
        "template": {"spec": {"containers": [{"name": "pytorch", "image": "trainer"}]}},
    }
    replicas = {"Master": {"replicas": 1, **replica}} if master else {}
    if workers:
        replicas["Worker"] = {"replicas": workers, **replica}
    job = {
        "apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "train"},
        "spec": {"pytorchReplicaSpecs": replicas, **spec},
    }  # fmt: skip
    return json.dumps(job)


def tf_job(replicas: dict[str, int], **spec: Any) -> str:
    template = {"spec": {"containers": [{"name": "tensorflow", "image": "trainer"}]}}
    specs = {kind: {"replicas": count, "template": template} for kind, count in replicas.items()}
    return json.dumps({
        "apiVersion": "kubeflow.org/v1", "kind": "TFJob", "metadata": {"name": "train"},
        "spec": {"tfReplicaSpecs": specs, **spec},
    })  # fmt: skip
