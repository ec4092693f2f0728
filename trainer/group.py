"""The processes of one run, and the groups in which they talk."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

_LONG = timedelta(hours=2)
"""For waits on disks and on Cloud Storage: whoever dies meanwhile is noticed by the launcher."""
_CHUNK = 8 << 20


class ProcessGroup:
    """Rank, local rank, node and world size, as the launcher's variables say.

    Beside the default group, whose timeout finds a process that answers nobody, there are three of gloo:
    `control` for objects between the steps, `saving` for the thread that writes checkpoints, and `node` for
    the same thread among the ranks of one machine.
    """

    def __init__(self, env: Mapping[str, str] = os.environ) -> None:
        self.rank = int(env.get("RANK", "0"))
        self.local_rank = int(env.get("LOCAL_RANK", "0"))
        self.world = int(env.get("WORLD_SIZE", "1"))
        per_node = int(env.get("LOCAL_WORLD_SIZE", "1"))
        self.node = int(env.get("GROUP_RANK", self.rank // per_node))
        self.nodes = int(env.get("GROUP_WORLD_SIZE", self.world // per_node))

    def join(self, device: torch.device, timeout: float) -> None:
        """Meet the others: NCCL between GPUs, gloo otherwise. A process alone has a group of its own."""
        backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
        if self.world == 1:
            self.store: dist.Store = dist.HashStore()
        else:
            self.store, _, _ = next(dist.rendezvous("env://"))  # type: ignore[attr-defined]
        dist.init_process_group(
            backend,
            store=dist.PrefixStore("groups", self.store),
            rank=self.rank,
            world_size=self.world,
            timeout=timedelta(seconds=timeout),
            device_id=device if device.type == "cuda" else None,
        )
        self.control = dist.new_group(backend="gloo", timeout=_LONG)
        self.saving = dist.new_group(backend="gloo", timeout=_LONG)
        members: dict[int, list[int]] = {}
        for rank, node in enumerate(self.gather(self.node)):
            members.setdefault(node, []).append(rank)
        groups = {
            node: dist.new_group(ranks, backend="gloo", timeout=_LONG) for node, ranks in members.items()
        }
        self.own_node = groups[self.node]

    def leave(self) -> None:
        if dist.is_initialized():
            dist.destroy_process_group()

    def barrier(self) -> None:
        self.gather(None)

    def gather(self, value: Any, group: Any = None) -> list[Any]:
        """Every rank's value, in the order of ranks; of `group`, else of all."""
        group = group or self.control
        found: list[Any] = [None] * dist.get_world_size(group)
        dist.all_gather_object(found, value, group=group)
        return found

    def send_file(self, path: Path, source: int, *, wanted: bool) -> None:
        """Bring `source`'s file to all ranks that want it, chunk by chunk; every rank calls it.

        Raises OSError where it can't be read or written.
        """
        size = self.gather(path.stat().st_size if self.rank == source else 0)[source]
        mode = "rb" if self.rank == source else "wb"
        with path.open(mode) if wanted or self.rank == source else io.BytesIO() as file:
            for start in range(0, size, _CHUNK):
                block = torch.empty(min(_CHUNK, size - start), dtype=torch.uint8)
                if self.rank == source:
                    block = torch.frombuffer(bytearray(file.read(len(block))), dtype=torch.uint8)
                dist.broadcast(block, source, group=self.control)
                if wanted and self.rank != source:
                    file.write(block.numpy().tobytes())
