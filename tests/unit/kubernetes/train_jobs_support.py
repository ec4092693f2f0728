"""What several tests share with test_train_jobs."""

from __future__ import annotations

import json
from typing import Any

from tests.unit.kubernetes.cluster import Obj

GROUP = "trainer.kubeflow.org"


def train_job(runtime: str = "torch-distributed", **spec: Any) -> str:
    return json.dumps({
        "apiVersion": f"{GROUP}/v1alpha1", "kind": "TrainJob", "metadata": {"name": "train"},
        "spec": {"runtimeRef": {"name": runtime}, **spec},
    })  # fmt: skip


TRAINER: Obj = {
    "numNodes": 2,
    "image": "trainer",
    "command": ["python", "-m", "trainer.task"],
    "env": [{"name": "SEED", "value": "7"}],
    "resourcesPerNode": {"requests": {"cpu": "3", "memory": "1Gi"}},
}
