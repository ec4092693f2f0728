"""Why a job failed and what to do, by verbs that start after it: on this machine, and in a cluster of it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.shell import Home, home

GPU_FULL = "print('torch.OutOfMemoryError: CUDA out of memory.'); raise SystemExit(1)"
HUNGRY = "import time; kept = b'x' * (160 << 20); time.sleep(600)"
LIMIT = "spec.pytorchReplicaSpecs.Master.template.spec.containers[0].resources.limits.memory"


@pytest.fixture
def place() -> Iterator[Home]:
    with home() as found:
        yield found


def profile(place: Home, **body: Any) -> str:
    path = Path(place.root) / "failing.yaml"
    path.write_text(yaml.safe_dump({"displayName": "failing", **body}))
    return str(path)


def failed(place: Home, *words: str) -> tuple[dict[str, Any], str, str]:
    """The job as JSON, as text, and the row of the list, by verbs that start once it has failed."""
    ended = place.run(*words, "--yes", "--wait")
    assert ended.returncode == 1, ended.stdout + ended.stderr
    context = words[: words.index("launch")]
    (job,) = place.json(*context, "jobs")["jobs"]
    assert job["state"] == "FAILED"
    row = place.run(*context, "jobs").stdout
    told = place.run(*context, "describe", job["id"])
    return place.json(*context, "describe", job["id"]), told.stdout, row


# Several seconds: an emulator, and five starts of `vxtui`.
def test_a_job_whose_log_says_why(place: Home) -> None:
    command = {"imageUri": "python:3.11", "command": [sys.executable, "-c", GPU_FULL]}
    pool = {"machineSpec": {"machineType": "n1-standard-4"}, "replicaCount": 1, "containerSpec": command}
    job, told, row = failed(place, "launch", profile(place, jobSpec={"workerPoolSpecs": [pool]}))
    assert job["meaning"] == "CUDA out of memory: a GPU's memory was used up."
    assert job["next_step"].startswith("Use smaller batches with accumulation")
    assert f"  that means: {job['meaning']}\n  next step: {job['next_step']}\n" in told
    assert row.splitlines()[0].endswith("REASON") and "  CUDA out of memory\n" in row
    assert job["cause"] == "CUDA out of memory" and f"  evidence: vxtui diagnose {job['id']}\n" in told


def test_a_pod_above_its_memory_limit(place: Home) -> None:
    container = {
        "name": "pytorch", "image": "python:3.11", "command": [sys.executable, "-c", HUNGRY],
        "resources": {"limits": {"memory": "64Mi"}},
    }  # fmt: skip
    master = {"replicas": 1, "restartPolicy": "Never", "template": {"spec": {"containers": [container]}}}
    manifest = {
        "apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob",
        "spec": {"pytorchReplicaSpecs": {"Master": master}},
    }  # fmt: skip
    words = ("--context", "local-k8s", "launch", profile(place, manifest=manifest))
    job, told, row = failed(place, *words)
    assert "now 64Mi" in job["next_step"] and LIMIT in job["next_step"]
    assert f"  next step: {job['next_step']}\n" in told
    assert "  OOM master-0: PyTorchJobFailed: " in row
