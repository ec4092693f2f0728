"""The ranks of one attempt, and the process groups in which they communicate."""

from __future__ import annotations

import io
import math
import os
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from trainer.network.addresses import listen_on, listening_address
from trainer.torch_private import set_cpu_timeout

_LONG_TIMEOUT = timedelta(hours=2)
"""Timeout for waits on disks and on Cloud Storage; the supervisor notices a rank that dies in the
meantime."""
_CHUNK = 8 << 20


class ProcessGroup:
    """Rank, local rank, node rank and world size, from torchrun's variables.

    The timeout of the default group detects a hanging rank. Three more groups use gloo: `control_group` for
    objects between the steps, `checkpoint_group` for the thread that writes checkpoints, and `node_group` for
    this thread on the ranks of one node.
    """

    def __init__(self, env: Mapping[str, str] = os.environ) -> None:
        self.rank = int(env.get("RANK", "0"))
        self.local_rank = int(env.get("LOCAL_RANK", "0"))
        self.world_size = int(env.get("WORLD_SIZE", "1"))
        local_world_size = int(env.get("LOCAL_WORLD_SIZE", "1"))
        self.node_rank = int(env.get("GROUP_RANK", self.rank // local_world_size))
        self.nodes = int(env.get("GROUP_WORLD_SIZE", self.world_size // local_world_size))

    def init(self, device: torch.device, timeout: float) -> None:
        """Initialize the groups, with NCCL between GPUs and gloo otherwise; a collective call of all ranks.
        `timeout` is the timeout of the default group, in seconds."""
        if self.world_size == 1:
            store: dist.Store = dist.HashStore()
        else:
            store = self._env_store()
        self._create(store, device, timeout)

    def _env_store(self) -> dist.Store:
        """Return the store that MASTER_ADDR and MASTER_PORT name. A supervisor or torchrun hosts the store if
        it started this process. Otherwise rank 0 hosts it, because torch's own store would listen on all
        addresses."""
        if self.rank or os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
            store: dist.Store = next(dist.rendezvous("env://"))[0]  # type: ignore[attr-defined]
            return store
        host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        listener = listen_on(listening_address([host], host), port)
        return dist.TCPStore(host, port, None, is_master=True, master_listen_fd=listener.detach())

    def _create(
        self, store: dist.Store, device: torch.device, timeout: float, connect: float = math.inf
    ) -> None:
        """Create the groups of these ranks, which meet in the store. The ranks have `connect` seconds to
        connect to one another, if that is less than the groups' timeouts."""
        backend = "cpu:gloo,cuda:nccl" if device.type == "cuda" else "gloo"
        self.store = store
        dist.init_process_group(
            backend,
            store=dist.PrefixStore("groups", self.store),
            rank=self.rank,
            world_size=self.world_size,
            timeout=timedelta(seconds=min(connect, timeout)),
            device_id=device if device.type == "cuda" else None,
        )
        if math.isfinite(connect):
            set_cpu_timeout(dist.group.WORLD, timeout)
        self.control_group = new_group(None, connect)
        self.checkpoint_group = new_group(None, connect)
        members: dict[int, list[int]] = {}
        for rank, node in enumerate(self.all_gather(self.node_rank)):
            members.setdefault(node, []).append(rank)
        node_groups = {node: new_group(ranks, connect) for node, ranks in members.items()}
        self.node_group = node_groups[self.node_rank]

    def destroy(self) -> None:
        if dist.is_initialized():
            dist.destroy_process_group()

    def barrier(self) -> None:
        self.all_gather(None)

    def all_gather(self, value: Any, group: Any = None) -> list[Any]:
        """Return the values of all ranks, in rank order; `group` defaults to the control group."""
        group = group or self.control_group
        values: list[Any] = [None] * dist.get_world_size(group)
        dist.all_gather_object(values, value, group=group)
        return values

    def first_problem(self, problem: str | None, group: Any = None) -> str | None:
        """Return the problem of the first rank that has one; all ranks get the same result."""
        return next(filter(None, self.all_gather(problem, group)), None)

    def broadcast_file(self, path: Path, source: int, *, lacks: bool) -> None:
        """Copy `source`'s file to the ranks that lack it, chunk by chunk; a collective call of all ranks.
        Raises OSError if the file can't be read or written."""
        size = self.all_gather(path.stat().st_size if self.rank == source else 0)[source]
        mode = "rb" if self.rank == source else "wb"
        with path.open(mode) if lacks or self.rank == source else io.BytesIO() as file:
            for start in range(0, size, _CHUNK):
                chunk = torch.empty(min(_CHUNK, size - start), dtype=torch.uint8)
                if self.rank == source:
                    chunk = torch.frombuffer(bytearray(file.read(len(chunk))), dtype=torch.uint8)
                dist.broadcast(chunk, source, group=self.control_group)
                if lacks and self.rank != source:
                    file.write(chunk.numpy().tobytes())


def new_group(ranks: list[int] | None, connect: float) -> Any:
    """Create a group of these ranks or of all: `connect` seconds for the connections, then a longer timeout
    per call."""
    seconds = min(connect, _LONG_TIMEOUT.total_seconds())
    group = dist.new_group(ranks, backend="gloo", timeout=timedelta(seconds=seconds))
    if math.isfinite(connect) and group is not dist.GroupMember.NON_GROUP_MEMBER:
        set_cpu_timeout(group, _LONG_TIMEOUT.total_seconds())
    return group
