"""Every private name of torch that the trainer uses, with the reason; checked with torch 2.13.0.

None of them has a public counterpart. `tests/trainer/test_torch_private.py` fails if a new version of torch
moves a name. `hang.flight_recorder` resolves its names itself, because it must not import torch.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed import distributed_c10d
from torch.distributed.distributed_c10d import _set_pg_timeout
from torch.distributed.tensor import DTensor
from torch.distributed.tensor._utils import compute_local_shape_and_global_offset
from torch.optim._muon import _adjust_lr, _zeropower_via_newtonschulz
from torch.utils._python_dispatch import TorchDispatchMode

__all__ = ["FakeTensorMode"]

ATTENTION = frozenset(
    {
        torch.ops.aten._scaled_dot_product_flash_attention.default,
        torch.ops.aten._scaled_dot_product_efficient_attention.default,
        torch.ops.aten._scaled_dot_product_cudnn_attention.default,
        torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default,
    }
)
"""The kernels of attention."""
PRODUCTS = frozenset({torch.ops.aten.mm.default, torch.ops.aten.addmm.default})
"""The matrix products of linear layers."""


def compiled_graphs() -> tuple[int, list[str]]:
    """Return the number of graphs that torch.compile has compiled, and the reasons why it divided a
    graph."""
    counters = torch._dynamo.utils.counters
    reasons = [str(reason).splitlines()[0] for reason in counters["graph_break"]]
    return counters["stats"]["unique_graphs"], reasons


def set_group_timeout(group: dist.ProcessGroup, seconds: float) -> None:
    """Set the timeout of a group's collective calls, because the default in a `DeviceMesh` is torch's half
    hour."""
    _set_pg_timeout(timedelta(seconds=seconds), group)


def set_cpu_timeout(group: Any, seconds: float) -> None:
    """Set the CPU backend's timeout of collective calls, which a mixed group sets only per backend."""
    group._get_backend(torch.device("cpu")).set_timeout(timedelta(seconds=seconds))


def name_groups_from(first: int) -> None:
    """Number new groups from `first`. torch counts groups per process, for their keys in the store."""
    distributed_c10d._world.group_count = first


def set_group_ranks(group: dist.ProcessGroup, ranks: dict[int, int]) -> None:
    """Set a group's local ranks by global rank, after a change of the global ranks."""
    distributed_c10d._world.pg_group_ranks[group] = ranks


def forget_group(group: Any) -> list[Any]:
    """Remove a group from torch's tables before `destroy_process_group`; return its entries."""
    world = distributed_c10d._world
    tag = world.pg_to_tag[group]
    entries = [table.pop(group) for table in _group_tables()]
    for name in dict.fromkeys(("", tag)):
        if group in world.tags_to_pg.get(name, []):
            world.tags_to_pg[name].remove(group)
    distributed_c10d._unregister_process_group(group.group_name)
    return entries


def restore_group(group: Any, entries: list[Any]) -> None:
    """Restore a group that `forget_group` removed from torch's tables."""
    world = distributed_c10d._world
    for table, entry in zip(_group_tables(), entries, strict=True):
        table[group] = entry
    for name in dict.fromkeys(("", world.pg_to_tag[group])):
        world.tags_to_pg.setdefault(name, []).append(group)
    distributed_c10d._register_process_group(group.group_name, group)


def _group_tables() -> list[dict[Any, Any]]:
    world = distributed_c10d._world
    return [world.pg_map, world.pg_names, world.pg_group_ranks, world.pg_backend_config, world.pg_to_tag]


def orthogonalize(update: torch.Tensor, group: dict[str, Any]) -> torch.Tensor:
    """Orthogonalize a complete matrix as `torch.optim.Muon` does, which has no public function for it."""
    return _zeropower_via_newtonschulz(update, group["ns_coefficients"], group["ns_steps"], group["eps"])


def muon_rate(group: dict[str, Any], shape: torch.Size) -> float:
    """Return the learning rate of `torch.optim.Muon` for a complete matrix of this shape."""
    return float(_adjust_lr(group["lr"], group["adjust_lr_fn"], shape))


def copy_each(targets: list[torch.Tensor], sources: list[torch.Tensor]) -> None:
    """Copy tensors in one fused call, which torch's optimizers use and do not export."""
    torch._foreach_copy_(targets, sources)


def divide_each(tensors: list[torch.Tensor], divisor: torch.Tensor) -> None:
    """Divide tensors by a scalar in one fused call."""
    torch._foreach_div_(tensors, divisor)


class LiveBytes(TorchDispatchMode):
    """Counts the bytes of the storages that operations create, until torch frees them; `peak` is the
    maximum. Fake tensors count like real ones."""

    def __init__(self, uncounted: Iterable[torch.Tensor]) -> None:
        super().__init__()
        self.peak = self._live = 0
        self._storages = {int(tensor.untyped_storage()._cdata) for tensor in uncounted}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for value in result if isinstance(result, tuple | list) else (result,):
            if isinstance(value, torch.Tensor):
                self._count(value.untyped_storage())
        self.peak = max(self.peak, self._live)
        return result

    def _count(self, storage: torch.UntypedStorage) -> None:
        # Fake tensors have no memory address, so `data_ptr` can't distinguish them.
        key, size = int(storage._cdata), storage.nbytes()
        if key not in self._storages:
            self._storages.add(key)
            self._live += size
            weakref.finalize(storage, self._freed, key, size)

    def _freed(self, key: int, size: int) -> None:
        self._storages.discard(key)
        self._live -= size


def local_part(weight: DTensor) -> tuple[slice, ...]:
    """Return this rank's part of the complete tensor, even if the shards differ in size."""
    shape, offset = compute_local_shape_and_global_offset(weight.shape, weight.device_mesh, weight.placements)
    return tuple(slice(start, start + size) for start, size in zip(offset, shape, strict=True))


def scaler_infinities(scaler: Any, optimizer: Any) -> list[torch.Tensor]:
    """Return a loss scaler's flags of infinite gradients by device; shards on other ranks may set them."""
    return list(scaler._found_inf_per_device(optimizer).values())
