"""`--micro-batch auto`: the largest micro-batch that fits the device's memory, computed before step 1.

A step needs memory for weights, gradients and optimizer, and for the tensors of a forward and backward pass.
Passes of one and of two samples without data or memory (torch's fake tensors) measure the latter, at the same
cost for any size of the model. The result depends only on the model, the strategy and the device, not on
other memory in use, so it is equal after a restart. The global batch never changes.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from trainer.config import Config
from trainer.data.loader import Batch
from trainer.distributed.mesh import ParallelMesh
from trainer.distributed.process_group import ProcessGroup
from trainer.errors import UsageError, one_line
from trainer.models.workload import Workload
from trainer.registry import STRATEGIES
from trainer.strategy.base import compute_dtype
from trainer.strategy.model_setup import recomputed
from trainer.structured_log import emit
from trainer.torch_private import FakeTensorMode, LiveBytes

GIB = float(1 << 30)
GPU_SHARE, GPU_OTHER = 0.9, 1.5 * GIB
"""Fraction of a GPU's memory that the allocator can use, and bytes of contexts and of NCCL's buffers."""
CPU_SHARE = 0.5
"""Usable fraction of a machine's memory, for all of its ranks; data, checkpoints and other programs use the
rest."""
MARGIN = 1.05
"""Factor for the buffers of kernels, which the passes without memory do not have."""
_DEEPSPEED_BUCKET, _DEEPSPEED_LIVE = 500_000_000, 1_000_000_000
"""DeepSpeed's defaults: elements of a bucket of gradients, and of gathered weights (ZeRO-3)."""


@dataclass(frozen=True, slots=True)
class MemoryEstimate:
    """Memory of one rank in bytes: usable memory, and the needs of the moments of a step, each a fixed need
    and the need of each sample."""

    usable: float
    moments: tuple[tuple[float, float], ...]

    @property
    def samples(self) -> int:
        """Largest number of samples that fits at each moment, at least 1."""
        most = (
            int((self.usable - fixed) // max(1.0, per_sample * MARGIN)) for fixed, per_sample in self.moments
        )
        return max(1, min(most))

    def need(self, samples: int) -> float:
        """Return the maximum number of bytes that a step with this number of samples needs."""
        return max(fixed + samples * per_sample for fixed, per_sample in self.moments)


def estimate_memory(
    config: Config, workload: Workload, dtype: torch.dtype, shards: int, usable: float
) -> MemoryEstimate:
    """Compute what a rank needs. Raises UsageError as `pass_bytes` does."""
    passes, per_sample = pass_bytes(config, workload, dtype)
    kept = passes + kept_bytes(config, workload, dtype, shards)
    if STRATEGIES[config.parallel.strategy].sharded != "all":
        return MemoryEstimate(usable, ((kept, per_sample),))
    blocks = [sum(p.numel() for p in block.parameters()) for block in workload.blocks]
    trained = max((_trained(block) for block in workload.blocks), default=0)
    block, low = max(blocks, default=0), torch.empty((), dtype=dtype).element_size()
    # FSDP keeps the root's own weights gathered, and those of two blocks or of all.
    gathered = 2.0 * block if config.parallel.reshard == "on" else float(sum(blocks))
    kept += low * (sum(p.numel() for p in workload.model.parameters()) - sum(blocks) + gathered)
    summed = 4.0 * trained * (1 + 1 / shards) if config.parallel.reduce_gradients == "each" else low * trained
    # The first block of the backward pass has freed its activations when its gradient is summed in float32.
    recomputes = config.parallel.activation_checkpointing == "on"
    left = 1.0 if recomputes or not blocks else 1.0 - 1.0 / len(blocks)
    return MemoryEstimate(usable, ((kept, per_sample), (kept + summed, per_sample * left)))


def fitting_micro_batch(config: Config, workload: Workload, group: ProcessGroup, device: torch.device) -> int:
    """Return the largest micro-batch that fits on every rank; a collective call. Raises UsageError for a
    model whose passes can't be traced."""
    mesh = ParallelMesh.of(config.parallel, group.world_size)
    usable = device_memory(device, group.world_size // group.nodes)
    dtype, shards = compute_dtype(config, device), mesh.shard * mesh.tensor
    estimate = estimate_memory(config, workload, dtype, shards, usable)
    share = config.data.batch // mesh.data_size
    samples = int(min(*group.all_gather(estimate.samples), share))
    if group.rank == 0:
        fixed, per_sample = estimate.moments[0]
        tight = estimate.need(1) > estimate.usable
        emit(
            "phase",
            f"--micro-batch auto: {samples}, estimated at {fixed / GIB:.2f} GiB and "
            f"{per_sample / GIB:.3f} GiB per sample, of {estimate.usable / GIB:.2f} GiB"
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


def _trained(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters() if p.requires_grad)


def kept_bytes(config: Config, workload: Workload, dtype: torch.dtype, shards: int) -> float:
    """Return the bytes that a rank keeps from one micro-batch to the next: weights, gradients, AdamW's two
    moments and DeepSpeed's buffers, in the strategy's types and shards."""
    parallel, model = config.parallel, workload.model
    sharded, trained = STRATEGIES[parallel.strategy].sharded, _trained(model)
    weights = sum(p.numel() for p in model.parameters())
    stored = float(sum(p.numel() * p.element_size() for p in model.parameters()))
    low = torch.empty((), dtype=dtype).element_size()
    if sharded == "none":
        return stored + 12.0 * trained
    if sharded == "all":
        gradients = trained / shards if parallel.reduce_gradients == "each" else trained
        return (stored + 8.0 * trained) / shards + 4.0 * gradients
    if sharded == "all by DeepSpeed":
        live = min(weights, _DEEPSPEED_LIVE) + min(trained, _DEEPSPEED_BUCKET)
        return low * (weights / shards + live) + 16.0 * trained / shards
    # The weights of the forward pass are complete; a full-precision copy and the moments are sharded.
    low_weights = float(sum(p.numel() * min(low, p.element_size()) for p in model.parameters()))
    buckets = (2 if sharded == "gradients" else 1) * min(trained, _DEEPSPEED_BUCKET)
    gradients = trained / shards if sharded == "gradients" else trained
    return low_weights + low * (gradients + buckets) + 12.0 * trained / shards


def pass_bytes(config: Config, workload: Workload, dtype: torch.dtype) -> tuple[float, float]:
    """Return the maximum number of bytes that a forward and backward pass needs besides `kept_bytes`: a fixed
    part, and the part for each sample. Raises UsageError if sizes depend on values, which a trace does not
    have."""
    first = _peak(config, workload, dtype, 1)
    if workload.probe is not None or len(workload.train) < 2:
        return 0.0, first
    per_sample = _peak(config, workload, dtype, 2) - first
    return max(0.0, first - per_sample), per_sample


def _peak(config: Config, workload: Workload, dtype: torch.dtype, samples: int) -> float:
    collate = workload.collate or _stacked
    batch = collate([workload.train[number] for number in range(samples)])
    run = workload.probe or workload.model
    # DDP keeps the weights in float32 and converts them in each pass; other strategies keep converted ones.
    converts = STRATEGIES[config.parallel.strategy].sharded == "none" and dtype is not torch.float32
    autocast = torch.autocast("cpu", dtype) if converts else contextlib.nullcontext()
    # Hugging Face models come in evaluation mode, in which dropout keeps no mask.
    workload.model.train()
    try:
        with (
            FakeTensorMode(allow_non_fake_inputs=True) as mode,
            _fake(workload, config, None if converts else dtype),
            LiveBytes([*workload.model.parameters(), *workload.model.buffers()]) as live,
        ):
            inputs = batch if workload.probe is None else ()
            with autocast:
                output = run(*(_fake_input(part, mode, dtype) for part in inputs))
            loss = output if isinstance(output, torch.Tensor) else None
            if loss is not None and loss.requires_grad:
                loss.sum().backward()  # type: ignore[no-untyped-call]
            return float(live.peak)
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
def _fake(workload: Workload, config: Config, dtype: torch.dtype | None) -> Iterator[None]:
    """Replace the weights with fake tensors on the CPU, of one type or of their own types, and recompute
    activations as the strategy does."""
    own = [
        (module, name, tensor)
        for module in workload.model.modules()
        for tensors in (module.named_parameters, module.named_buffers)
        for name, tensor in tensors(recurse=False, remove_duplicate=False)
    ]
    fakes: dict[nn.Parameter, nn.Parameter] = {}
    for module, name, tensor in own:
        if not isinstance(tensor, nn.Parameter):
            setattr(module, name, torch.empty(tensor.shape, dtype=tensor.dtype))
            continue
        if tensor not in fakes:
            changed = dtype is not None and tensor.is_floating_point()
            fake = torch.empty(tensor.shape, dtype=dtype if changed else tensor.dtype)
            fakes[tensor] = nn.Parameter(fake, tensor.requires_grad)
            if tensor.requires_grad:
                fakes[tensor].register_post_accumulate_grad_hook(_drop_gradient)
        setattr(module, name, fakes[tensor])
    how = config.parallel.activation_checkpointing
    forwards = [(block, block.forward) for block in workload.blocks if how != "off"]
    for block, forward in forwards:
        block.forward = recomputed(forward, how)  # type: ignore[method-assign]
    try:
        yield
    finally:
        for block, _ in forwards:
            del block.forward
        for module, name, tensor in own:
            setattr(module, name, tensor)


def _drop_gradient(weight: torch.Tensor) -> None:
    """Free a gradient, which `kept_bytes` counts."""
    weight.grad = None
