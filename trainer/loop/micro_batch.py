"""`--micro-batch auto`: the largest micro-batch that fits the device's memory, computed before step 1.

A step needs memory for weights, gradients and optimizer, and for the activations that the forward pass saves
for the backward pass. A forward pass of one sample without data or memory (torch's fake tensors) measures the
activations, at the same cost for any size of the model. The result depends only on the model, the strategy
and the device, not on other memory in use, so it is equal after a restart. The global batch never changes.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.autograd.graph import saved_tensors_hooks

from trainer.config import Config
from trainer.data.loader import Batch
from trainer.distributed.mesh import ParallelMesh
from trainer.distributed.process_group import ProcessGroup
from trainer.errors import UsageError, one_line
from trainer.models.workload import Workload
from trainer.registry import STRATEGIES
from trainer.strategy.base import compute_dtype
from trainer.structured_log import emit
from trainer.torch_private import FakeTensorMode, storage_id

GIB = float(1 << 30)
GPU_SHARE, GPU_OTHER = 0.9, 1.5 * GIB
"""Fraction of a GPU's memory that the allocator can use, and bytes of contexts and of NCCL's buffers."""
CPU_SHARE = 0.5
"""Usable fraction of a machine's memory, for all of its ranks; data, checkpoints and other programs use the
rest."""
MARGIN = 1.25
"""Factor for temporary buffers of kernels, and for gradients of activations."""


@dataclass(frozen=True, slots=True)
class MemoryEstimate:
    """Memory of one rank in bytes: usable memory, the need of each step, and the need of each sample."""

    usable: float
    fixed: float
    per_sample: float

    @property
    def samples(self) -> int:
        return max(1, int((self.usable - self.fixed) // max(1.0, self.per_sample * MARGIN)))


def fitting_micro_batch(config: Config, workload: Workload, group: ProcessGroup, device: torch.device) -> int:
    """Return the largest micro-batch that fits on every rank; a collective call. Raises UsageError for a
    model whose forward pass can't be traced."""
    dtype = compute_dtype(config, device)
    mesh = ParallelMesh.of(config.parallel, group.world_size)
    estimate = MemoryEstimate(
        device_memory(device, group.world_size // group.nodes),
        fixed_bytes(
            workload.model,
            workload,
            STRATEGIES[config.parallel.strategy].sharded,
            dtype,
            mesh.shard * mesh.tensor,
        ),
        saved_bytes(config, workload, dtype),
    )
    share = config.data.batch // mesh.data_size
    samples = int(min(*group.all_gather(estimate.samples), share))
    if group.rank == 0:
        tight = estimate.fixed + estimate.per_sample * MARGIN > estimate.usable
        emit(
            "phase",
            f"--micro-batch auto: {samples}, by {estimate.fixed / GIB:.2f} GiB and "
            f"{estimate.per_sample / GIB:.3f} GiB per sample, of {estimate.usable / GIB:.2f} GiB"
            + (", which may be too little" if tight else ""),
            severity="WARNING" if tight else "INFO",
            phase="starting",
            micro_batch=samples,
        )
    return samples


def device_memory(device: torch.device, local_ranks: int) -> float:
    """Return the memory that a rank may use, in bytes."""
    if device.type == "cuda":
        return GPU_SHARE * torch.cuda.get_device_properties(device).total_memory - GPU_OTHER
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with contextlib.suppress(OSError, ValueError):
        # The limit of a container; "max" without a limit.
        whole = min(whole, int(Path("/sys/fs/cgroup/memory.max").read_text()))
    return CPU_SHARE * whole / max(1, local_ranks)


def fixed_bytes(
    model: nn.Module, workload: Workload, sharded: str, dtype: torch.dtype, world_size: int
) -> float:
    """Return the bytes of weights, gradients and AdamW's two moments of a rank; `sharded` as in
    `StrategyEntry`."""
    stored = float(sum(p.numel() * p.element_size() for p in model.parameters()))
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    low = torch.empty((), dtype=dtype).element_size()
    if sharded == "optimizer":
        # Weights and gradients of the forward pass are complete; a full copy and the moments are sharded.
        weights = float(sum(p.numel() * min(low, p.element_size()) for p in model.parameters()))
        return weights + low * trained + 12.0 * trained / world_size
    whole = stored + 12.0 * trained
    if sharded != "weights":
        return whole
    # The root's own weights stay gathered, and two blocks at a time.
    blocks = [sum(p.numel() for p in block.parameters()) for block in workload.blocks]
    root = sum(p.numel() for p in model.parameters()) - sum(blocks)
    return whole / world_size + low * (root + 2.0 * max(blocks, default=0))


def saved_bytes(config: Config, workload: Workload, dtype: torch.dtype) -> float:
    """Return the bytes that the forward pass of one sample saves for the backward pass. Raises UsageError if
    the sizes depend on values, which the trace does not have."""
    collate = workload.collate or _stacked
    batch = collate([workload.train[0]])
    run = workload.probe or workload.model
    # Hugging Face models come in evaluation mode, in which dropout keeps no mask.
    workload.model.train()
    try:
        with FakeTensorMode(allow_non_fake_inputs=True) as mode, _fake(workload.model, dtype):
            inputs = batch if workload.probe is None else ()
            with _counted(workload, checkpointed=config.parallel.activation_checkpointing == "on") as count:
                run(*(_fake_input(part, mode, dtype) for part in inputs))
            return count()
    # The model's own code may raise any error when it needs a value.
    except Exception as error:
        raise UsageError(
            f"--micro-batch auto can't trace this model ({one_line(error)}): set a number"
        ) from error


def _stacked(samples: list[Any]) -> Batch:
    return tuple(torch.stack(parts) for parts in zip(*samples, strict=True))


def _fake_input(tensor: torch.Tensor, mode: FakeTensorMode, dtype: torch.dtype) -> torch.Tensor:
    fake: torch.Tensor = mode.from_tensor(tensor)
    return fake.to(dtype) if fake.is_floating_point() else fake


@contextlib.contextmanager
def _fake(model: nn.Module, dtype: torch.dtype) -> Iterator[None]:
    """Replace the weights with fake tensors on the CPU, in the type of the forward pass."""
    own = [
        (module, name, tensor)
        for module in model.modules()
        for tensors in (module.named_parameters, module.named_buffers)
        for name, tensor in tensors(recurse=False, remove_duplicate=False)
    ]
    for module, name, tensor in own:
        if isinstance(tensor, nn.Parameter):
            fake = torch.empty(tensor.shape, dtype=dtype if tensor.is_floating_point() else tensor.dtype)
            setattr(module, name, nn.Parameter(fake, tensor.requires_grad))
        else:
            setattr(module, name, torch.empty(tensor.shape, dtype=tensor.dtype))
    try:
        yield
    finally:
        for module, name, tensor in own:
            setattr(module, name, tensor)


@contextlib.contextmanager
def _counted(workload: Workload, *, checkpointed: bool) -> Iterator[Callable[[], float]]:
    """Count the bytes saved for the backward pass, without weights. With checkpointed activations the input
    of each block is saved, and one block is recomputed at a time."""
    weights = {storage_id(tensor.untyped_storage()) for tensor in workload.model.parameters()}
    saved: dict[int, torch.UntypedStorage] = {}
    inputs = 0

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        key = storage_id(storage)
        if key not in weights:
            # Keep a reference, so that the id is not reused.
            saved[key] = storage
        return tensor

    def enter(_: nn.Module, args: tuple[Any, ...], named: dict[str, Any]) -> None:
        nonlocal inputs
        first = next(value for value in (*args, *named.values()) if isinstance(value, torch.Tensor))
        inputs += first.numel() * first.element_size()

    def total() -> float:
        every = float(sum(storage.nbytes() for storage in saved.values()))
        return every / max(1, len(workload.blocks)) + inputs if checkpointed else every

    hooks = [block.register_forward_pre_hook(enter, with_kwargs=True) for block in workload.blocks]
    try:
        with saved_tensors_hooks(pack, lambda tensor: tensor):
            yield total
    finally:
        for hook in hooks:
            hook.remove()
