"""What several tests share with test_quota_fit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.ui.double import job as numbered_job
from tui.domain.core.job import Job
from tui.domain.vertex.reducers import IMAGE


def make_job(**more: Any) -> Job:
    return replace(numbered_job(1, "one"), **more)


def pool(machine: str, replicas: int, kind: str = "", count: int = 0, **more: Any) -> dict[str, Any]:
    spec: dict[str, Any] = {"machineType": machine}
    if kind:
        spec |= {"acceleratorType": kind, "acceleratorCount": count}
    return {"machineSpec": spec, "replicaCount": str(replicas), **more}


def custom_job(*pools: dict[str, Any], strategy: str = "") -> dict[str, Any]:
    scheduling = {"strategy": strategy} if strategy else {}
    return {"jobSpec": {"workerPoolSpecs": list(pools), "scheduling": scheduling}}


ARR = custom_job(
    pool("a2-highgpu-8g", 1, "NVIDIA_TESLA_A100", 8),
    pool("a2-highgpu-8g", 3, "NVIDIA_TESLA_A100", 8),
    pool("n1-highcpu-16", 13, containerSpec={"imageUri": IMAGE}),
    strategy="SPOT",
)
