"""The processes of one run, over torch.distributed where there is more than one."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import torch
import torch.distributed as dist


class ProcessGroup:
    """Rank, local rank and world size, as the launcher's variables say."""

    def __init__(self, env: Mapping[str, str] = os.environ) -> None:
        self.rank = int(env.get("RANK", "0"))
        self.local_rank = int(env.get("LOCAL_RANK", "0"))
        self.world = int(env.get("WORLD_SIZE", "1"))

    def join(self, device: torch.device) -> None:
        """Meet the others: NCCL between GPUs, gloo otherwise."""
        if self.world > 1:
            dist.init_process_group("nccl" if device.type == "cuda" else "gloo")

    def leave(self) -> None:
        if dist.is_initialized():
            dist.destroy_process_group()

    def barrier(self) -> None:
        if self.world > 1:
            dist.barrier()

    def gather(self, value: Any) -> list[Any]:
        """Every rank's value, in the order of ranks."""
        if self.world == 1:
            return [value]
        found: list[Any] = [None] * self.world
        dist.all_gather_object(found, value)
        return found
