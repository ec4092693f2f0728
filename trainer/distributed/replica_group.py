"""The ranks of one node that share one sharded replica of the model (`--elastic` with fsdp). Their process
groups outlive the default group; torch would destroy all groups with it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh

from trainer.torch_private import forget_group, name_groups_from, restore_group, set_group_ranks

_FIRST_NAME = 1 << 20
"""First number for the names of groups, because torch numbers groups from 0 again after each end of the
default group."""


class Disagreed(RuntimeError):
    """Another rank of this node lost its connections to other nodes; all ranks of the node raise this
    error."""


class ModelReplica:
    """The ranks of a node that share one replica of the model. Create the object while the default group
    contains only these ranks."""

    def __init__(self, timeout: float) -> None:
        """`timeout` limits each wait of these ranks for one another, in seconds."""
        self.local_rank, self.size = dist.get_rank(), dist.get_world_size()
        name_groups_from(_FIRST_NAME)
        self._shards, self._votes = (
            dist.new_group(backend="gloo", timeout=timedelta(seconds=timeout)) for _ in range(2)
        )
        self.mesh = DeviceMesh.from_group(self._shards, "cpu")
        """Mesh for the shards."""

    def agree(self, *, ok: bool = True) -> None:
        """Wait for the other ranks of this node after calls to other nodes. Either all ranks continue or all
        raise.

        A rank whose call failed passes `ok=False` once, and the other ranks get the result with their next
        call.

        Raises:
            Disagreed: if any rank is not `ok`.
        """
        low, _ = self.extremes(int(ok))
        if ok and not low:
            raise Disagreed("another process on this node has lost its connections to other nodes")

    def extremes(self, value: int) -> tuple[int, int]:
        """Return the lowest and the highest value among the ranks of this node."""
        values = torch.tensor([value, -value])
        dist.all_reduce(values, dist.ReduceOp.MIN, group=self._votes)
        low, negative = values.tolist()
        return low, -negative

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Return a context in which torch destroys all groups except the groups of this node."""
        groups = [(group, forget_group(group)) for group in (self._shards, self._votes)]
        try:
            yield
        finally:
            for group, entries in groups:
                restore_group(group, entries)

    def renumber(self, first: int) -> None:
        """Continue with new global ranks, starting at `first`."""
        ranks = {first + local: local for local in range(self.size)}
        for group in (self._shards, self._votes):
            set_group_ranks(group, ranks)
