"""What several tests share with test_rules_each."""

from __future__ import annotations

import copy
from typing import Any

from tui.domain.spec.findings import Case
from tui.domain.vertex.rules import check_job

Job = dict[str, Any]
POOL: Job = {
    "machineSpec": {"machineType": "n1-standard-4"},
    "replicaCount": 1,
    "containerSpec": {"imageUri": "us-docker.pkg.dev/p/r/i:t"},
}
REDUCER: Job = {
    "machineSpec": {"machineType": "n1-highcpu-16"},
    "replicaCount": 13,
    "containerSpec": {"imageUri": "us-docker.pkg.dev/vertex-ai-restricted/training/reductionserver:latest"},
}
NETWORK = "projects/12/global/networks/n"
BOARD = "projects/1/locations/us-central1/tensorboards/2"
ACCOUNT = "a@p.iam.gserviceaccount.com"
RESERVED = {
    "reservationAffinityType": "SPECIFIC_RESERVATION",
    "key": "compute.googleapis.com/reservation-name",
    "values": ["projects/p/zones/us-central1-a/reservations/r"],
}


def job(*pools: Job, **spec: Any) -> Job:
    found = copy.deepcopy([*(pools or (POOL,))])
    return {"displayName": "x", "jobSpec": {"workerPoolSpecs": found, **spec}}


def machine(name: str, kind: str = "", count: int = 0, **more: Any) -> Job:
    accelerator = {"acceleratorType": kind, "acceleratorCount": count} if kind else {}
    return {**POOL, "machineSpec": {"machineType": name, **accelerator, **more}}


def times(pool: Job, count: int) -> Job:
    return {**pool, "replicaCount": count}


def container(**fields: Any) -> Job:
    return {**POOL, "containerSpec": {**POOL["containerSpec"], **fields}}


def env(name: str, value: str = "1") -> Job:
    return container(env=[{"name": name, "value": value}])


def package(**fields: Any) -> Job:
    spec = {
        "executorImageUri": "us-docker.pkg.dev/vertex-ai/training/pytorch-gpu.2-4.py310:latest",
        "packageUris": ["gs://b/p.tar.gz"],
        "pythonModule": "m",
    }
    return {k: v for k, v in POOL.items() if k != "containerSpec"} | {"pythonPackageSpec": {**spec, **fields}}


def scheduled(pool: Job = POOL, **scheduling: Any) -> Job:
    return job(pool, scheduling=scheduling)


A100 = machine("a2-highgpu-8g", "NVIDIA_TESLA_A100", 8)
L4 = machine("g2-standard-12", "NVIDIA_L4", 1)
RDMA = machine("a3-ultragpu-8g", "NVIDIA_H200_141GB", 8)
V5E = machine("ct5lp-hightpu-4t", tpuTopology="2x2")


def reducer(**changes: Any) -> Job:
    return job(A100, times(A100, 3), {**REDUCER, **changes})


WEST = "europe-west6"
LR: Job = {"parameterId": "lr", "doubleValueSpec": {"minValue": 0.001, "maxValue": 0.1}}
DEPTH: Job = {"parameterId": "depth", "integerValueSpec": {"minValue": 1, "maxValue": 8}}
KIND: Job = {"parameterId": "kind", "categoricalValueSpec": {"values": ["a", "b"]}}
LOSS: Job = {"metricId": "loss", "goal": "MINIMIZE"}


def tuned(*parameters: Job, trials: int = 8, parallel: int = 2, **study: Any) -> Job:
    """A tuning job, as the rules see one."""
    spec = {"metrics": [LOSS], "parameters": [*(parameters or (LR,))], **study}
    counts = {"maxTrialCount": trials, "parallelTrialCount": parallel}
    return {**job(), "tuningJob": {**counts, "studySpec": copy.deepcopy(spec)}}


def under(parent: Job, condition: str, values: list[Any], child: Job) -> Job:
    """A parameter that depends on another one."""
    depends = [{condition: {"values": values}, "parameterSpec": child}]
    return {**parent, "conditionalParameterSpecs": depends}


LOCAL = [("persistent.local", job(L4, persistentResourceId="r", scheduling={"strategy": "FLEX_START"}))]


def found(raw: Job, region: str = "us-central1", local: bool = False) -> list[str]:
    return [f.rule for f in check_job(Case(raw, region, local))]
