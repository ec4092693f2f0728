"""The device that a process trains on."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import torch

from trainer.config import UsageError


def local_gpus(env: Mapping[str, str]) -> int:
    """GPUs that the processes of this machine use."""
    return min(int(env.get("LOCAL_WORLD_SIZE", "1")), torch.cuda.device_count())


def pick_device(wanted: str) -> torch.device:
    """The device of this local rank. Raises UsageError for a GPU that is not there."""
    local = int(os.environ.get("LOCAL_RANK", "0"))
    there = torch.cuda.is_available()
    if wanted == "cuda" and not there:
        raise UsageError(
            "--device cuda: no GPU is visible to torch on this node; use --device cpu to do without"
        )
    devices = list(Path("/dev").glob("nvidia[0-9]*"))
    if wanted == "auto" and not there and devices:
        raise UsageError(
            f"this node has {len(devices)} NVIDIA devices, but torch {torch.__version__} can't use them: "
            "take an image with a CUDA build of torch that fits the driver, or --device cpu to do without"
        )
    if wanted == "cpu" or not there:
        return torch.device("cpu")
    if local >= torch.cuda.device_count():
        raise UsageError(
            f"local rank {local} has no GPU: torch sees {torch.cuda.device_count()} on this node; "
            "use --nproc with that number"
        )
    torch.cuda.set_device(local)
    return torch.device("cuda", local)
