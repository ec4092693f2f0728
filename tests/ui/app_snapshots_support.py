"""What several tests share with test_app_snapshots."""

from __future__ import annotations

import pytest

PROFILE = """
displayName: arr-coc-${size}
description: Four nodes of eight A100 on Spot, thirteen reducers.
region: us-central1
parameters:
  size: {default: large, choices: [small, large], help: Of the model}
  steps: {default: 100000, help: Optimizer steps in all}
jobSpec:
  workerPoolSpecs:
    - machineSpec: {machineType: a2-highgpu-8g, acceleratorType: NVIDIA_TESLA_A100, acceleratorCount: 8}
      replicaCount: 1
      containerSpec: {imageUri: "us-docker.pkg.dev/p/r/arr-coc:1.4.2", args: ["--steps=${steps}"]}
    - machineSpec: {machineType: a2-highgpu-8g, acceleratorType: NVIDIA_TESLA_A100, acceleratorCount: 8}
      replicaCount: 3
      containerSpec: {imageUri: "us-docker.pkg.dev/p/r/arr-coc:1.4.2"}
  scheduling: {strategy: SPOT, timeout: 172800s}
"""
SMALL, USUAL, LARGE = (80, 24), (120, 40), (200, 60)


SIZES_AND_THEMES = pytest.mark.parametrize(
    ("size", "theme"),
    [
        (SMALL, "vxtui-dark"), (USUAL, "vxtui-dark"), (USUAL, "vxtui-light"), (LARGE, "vxtui-dark"),
        (SMALL, "ansi16"),
    ],
    ids=["80-dark", "120-dark", "120-light", "200-dark", "80-ansi"],
)  # fmt: skip
