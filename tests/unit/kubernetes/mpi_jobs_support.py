"""What several tests share with test_mpi_jobs."""

from __future__ import annotations

import json
from typing import Any

from tests.unit.kubernetes.cluster import Obj

GROUP, VERSION = "kubeflow.org", "v2beta1"


def mpi_job(workers: int = 2, **spec: Any) -> str:
    def template(name: str) -> Obj:
        return {"template": {"spec": {"containers": [{"name": name, "image": "trainer"}]}}}

    replicas = {
        "Launcher": {"replicas": 1, **template("mpi")},
        "Worker": {"replicas": workers, **template("mpi")},
    }
    return json.dumps({
        "apiVersion": f"{GROUP}/{VERSION}", "kind": "MPIJob", "metadata": {"name": "train"},
        "spec": {"mpiReplicaSpecs": replicas, **spec},
    })  # fmt: skip
