"""What several tests share with test_job_sets."""

from __future__ import annotations

import json
from typing import Any

from tests.unit.kubernetes.cluster import Obj


def replicated(name: str, pods: int = 1, replicas: int = 1, **more: Any) -> Obj:
    pod = {"spec": {"containers": [{"name": "main", "image": "trainer"}]}}
    job = {"parallelism": pods, "completions": pods, "backoffLimit": 0, "template": pod}
    return {"name": name, "replicas": replicas, "template": {"spec": job}, **more}


def job_set(*jobs: Obj, **spec: Any) -> str:
    return json.dumps({
        "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": "train"},
        "spec": {"replicatedJobs": list(jobs), **spec},
    })  # fmt: skip
