"""The device that a process trains on."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import torch

from trainer.errors import UsageError


def local_gpu_count(env: Mapping[str, str]) -> int:
    """Return the number of GPUs that the processes of this node use."""
    return min(int(env.get("LOCAL_WORLD_SIZE", "1")), torch.cuda.device_count())


def select_device(requested: str) -> torch.device:
    """Return the device of this local rank.

    Raises:
        UsageError: if a requested GPU is missing, or this build of torch can't use it.
    """
    local_rank = int(os.environ.get("LOCAL_RANK", "0"))
    available = torch.cuda.is_available()
    if requested == "cuda" and not available:
        raise UsageError(
            "--device cuda: torch sees no GPU on this node; use --device cpu to train without one"
        )
    devices = list(Path("/dev").glob("nvidia[0-9]*"))
    if requested == "auto" and not available and devices:
        raise UsageError(
            f"this node has {len(devices)} NVIDIA devices, but torch {torch.__version__} can't use them: "
            "use an image with a CUDA build of torch for this driver, or --device cpu to train without a GPU"
        )
    if requested == "cpu" or not available:
        return torch.device("cpu")
    if local_rank >= torch.cuda.device_count():
        raise UsageError(
            f"local rank {local_rank} has no GPU: torch sees {torch.cuda.device_count()} on this node; "
            "use --nproc with that number"
        )
    torch.cuda.set_device(local_rank)
    # Products of float32 matrices use TF32, where the GPU has it.
    torch.set_float32_matmul_precision("high")
    return torch.device("cuda", local_rank)
