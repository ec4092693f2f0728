"""What several tests share with test_profile_sharing."""

from __future__ import annotations

FIVE = """\
jobSpec:
  workerPoolSpecs:
    - machineSpec: &big {machineType: a2-highgpu-8g, acceleratorType: NVIDIA_TESLA_A100, acceleratorCount: 8}
      replicaCount: &count 2  # as many as workers
      containerSpec: &task
        imageUri: &image a/b:1
        args: &args [--one]  # for each
        env: &env
          # The variables.
          - {name: A, value: "1"}
    - machineSpec: *big
      containerSpec: {<<: *task, args: [--other]}
    - machineSpec: {<<: *big, acceleratorCount: 4}
      replicaCount: *count
      containerSpec:
        imageUri: *image
        args: *args
        env: *env
    - replicaCount: 2
      containerSpec: *task
    - machineSpec: {machineType: n1-standard-4}
      containerSpec: {imageUri: a/b:1, args: [--one]}
"""
