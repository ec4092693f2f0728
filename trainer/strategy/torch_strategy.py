"""The common part of DDP and FSDP: torch's optimizer, loss scaler and distributed checkpoint."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, ClassVar

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.tensor import DTensor

from trainer.config import Config
from trainer.data.loader import Batch
from trainer.distributed.batch_plan import BatchPlan
from trainer.errors import CheckpointError, one_line
from trainer.models.workload import Workload
from trainer.optimizers.sharded import ShardedOptimizer, local_shard
from trainer.strategy.base import Weight, compute_dtype
from trainer.strategy.deferred_copies import StagedState
from trainer.strategy.layout import CheckpointLayout
from trainer.strategy.model_setup import prepare_model
from trainer.strategy.tensor_buffers import TensorBuffers
from trainer.torch_private import scaler_infinities


class TorchStrategy(ABC):
    """Base class of strategies on torch. Subclasses wrap the model and control when gradients are reduced."""

    name = ""
    layout: ClassVar[CheckpointLayout]
    moves_model = True
    """Whether the entire model is moved to the device; if not, `wrap` moves this rank's part."""

    def __init__(self, config: Config, plan: BatchPlan, device: torch.device) -> None:
        self._config, self._plan, self._device = config, plan, device
        self._dtype = compute_dtype(config, device)
        # Small gradients underflow only in fp16.
        self._scaler = torch.amp.GradScaler(device.type, enabled=self._dtype is torch.float16)  # type: ignore[attr-defined]
        self.has_loss_scaler = self._scaler.is_enabled()
        self._module: nn.Module = nn.Identity()
        self._wrapped: nn.Module = self._module
        self._copies_to_save = TensorBuffers(pinned=torch.cuda.is_available())
        self._keeps_updates = True
        """Whether a load restored the optimizer's entire state."""

    @abstractmethod
    def wrap(self, model: nn.Module, workload: Workload) -> nn.Module:
        """Wrap the model; return the module whose forward method the loop calls."""

    @abstractmethod
    def gradient_sync(self, last: bool) -> AbstractContextManager[Any]:
        """Return a context for a micro-batch: gradients are reduced only after the `last` one."""

    def autocast(self) -> AbstractContextManager[Any]:
        if self._dtype is torch.float32:
            return nullcontext()
        return torch.autocast(self._device.type, self._dtype)

    def setup(self, workload: Workload) -> None:
        self._module = prepare_model(workload, self._config, self._device, move=self.moves_model)
        self._wrapped = self.wrap(self._module, workload)
        self.materialize(workload)
        self.optimizer = ShardedOptimizer(self._module, self._config.optimizer)

    def materialize(self, workload: Workload) -> None:
        """Set the weights on the meta device, or this rank's shards of them."""
        workload.materialize(self._device)

    def release(self) -> None:
        """Drop the step in progress and all objects that use the process group, which ends (`--elastic`)."""
        self._copies_to_save.finish()
        self._wrapped = self._module
        self._module.zero_grad(set_to_none=True)
        if self._scaler.is_enabled():
            # The scaler still marks the gradients of the aborted step as unscaled.
            state = self._scaler.state_dict()
            self._scaler = torch.amp.GradScaler(self._device.type)  # type: ignore[attr-defined]
            self._scaler.load_state_dict(state)

    def send_state(self, source: int, ranks: dist.ProcessGroup | None) -> None:
        """Send the weights and optimizer state of rank `source` to `ranks`, which have the same shards."""
        for _, tensor in sorted(self.state().items()):
            shard = local_shard(tensor)
            if shard.numel():
                dist.broadcast(shard, source, group=ranks)

    def forward_backward(self, batch: Batch, weight: Weight = 1.0, *, last: bool) -> torch.Tensor:
        with self.gradient_sync(last):
            with self.autocast():
                loss: torch.Tensor = self._wrapped(*batch)
            self._scaler.scale(loss * weight).backward()
        return loss.detach()

    def squared_norm(self) -> torch.Tensor:
        # This reads only this rank's shards; `update` reports an infinite gradient to all ranks.
        self._scaler.unscale_(self.optimizer)  # type: ignore[arg-type]
        by_copies: dict[int, list[torch.Tensor]] = {}
        for weight, gradient in self.optimizer.gradients():
            by_copies.setdefault(self.gradient_copies(weight), []).append(gradient)
        shares = [torch.nn.utils.get_total_norm(g).square() / copies for copies, g in by_copies.items()]
        return torch.stack(shares).sum() if len(shares) > 1 else shares[0]

    def gradient_copies(self, weight: torch.Tensor) -> int:
        """Return the number of ranks that have the same part of a weight's gradient."""
        return self._plan.world_size

    def update(self, rate: float, norm: torch.Tensor | None, keep: torch.Tensor | None) -> torch.Tensor:
        assert norm is not None
        self._copies_to_save.finish()
        limit = self._config.optimizer.clip
        if keep is None and self.has_loss_scaler:
            keep = torch.isfinite(norm)
        # The optimizer's fused kernel clips and skips by these two scalars, without an extra pass over the
        # gradients and without synchronization with the host.
        divisor = ((norm + 1e-6) / limit).clamp(min=1.0) if limit else None
        skip = None if keep is None else (~keep).to(torch.float32)
        if self._device.type == "cpu":
            # Both values are on the host here, so a division by one and a false skip are omitted.
            divisor = None if divisor is not None and divisor == 1.0 else divisor
            skip = None if skip is not None and skip == 0.0 else skip
        self.optimizer.step(rate, divisor, skip)
        self._update_scale(norm)
        return norm

    def _update_scale(self, norm: torch.Tensor) -> None:
        """Update the loss scale by the norm of all ranks, because only one rank may have the infinite
        gradient."""
        if self.has_loss_scaler:
            for is_infinite in scaler_infinities(self._scaler, self.optimizer):
                is_infinite.copy_(~torch.isfinite(norm))
        self._scaler.update()

    def evaluate(self, batch: Batch) -> torch.Tensor:
        self._wrapped.eval()
        try:
            with torch.no_grad(), self.autocast():
                loss: torch.Tensor = self._wrapped(*batch)
        finally:
            self._wrapped.train()
        return loss

    def state(self) -> dict[str, torch.Tensor]:
        """Return the weights and optimizer state by name, not copied; a load writes into the same tensors."""
        state = {f"model.{name}": weight.detach() for name, weight in self._module.named_parameters()}
        return state | {f"optimizer.{name}": value for name, value in self.optimizer.state().items()}

    def replicas(self) -> dict[str, dict[str, torch.Tensor]]:
        parts: dict[str, dict[str, torch.Tensor]] = {}
        for name, tensor in self.state().items():
            parts.setdefault(_shard_of(tensor), {})[name] = local_shard(tensor)
        return parts

    def stage(self, folder: Path, ranks: dist.ProcessGroup) -> StagedState:
        staged: dict[str, Any] = self._copies_to_save.copy(self.state())

        def write() -> None:
            # Do not sync each file: the manifest's inventory syncs all files once.
            dcp.save(
                staged, storage_writer=dcp.FileSystemWriter(folder, sync_files=False), process_group=ranks
            )

        return StagedState(write, self._copies_to_save.take())

    def warm_up(self) -> None:
        """Allocate the buffers of `stage`."""
        self._copies_to_save.copy(self.state())
        self._copies_to_save.take().finish()

    def prepare_load(self, path: Path, saved_world_size: int) -> None:
        return None

    def load(self, path: Path, saved_world_size: int, ranks: dist.ProcessGroup) -> None:
        self._copies_to_save.finish()
        try:
            reader = dcp.FileSystemReader(path)
            saved = reader.read_metadata().state_dict_metadata
            # Another optimizer (--allow-change optimizer) begins without the state that the checkpoint lacks.
            state = {n: v for n, v in self.state().items() if n in saved or n.startswith("model.")}
            self._keeps_updates = len(state) == len(self.state())
            dcp.load(state, storage_reader=reader, process_group=ranks)
        except BaseException as error:
            # CheckpointException is not an Exception.
            if isinstance(error, KeyboardInterrupt | SystemExit):
                raise
            raise CheckpointError(f"{path} can't be loaded: {one_line(error)}") from error

    def checkpoint_bytes(self) -> float:
        return float(sum(tensor.numel() * tensor.element_size() for tensor in self.state().values()))

    def close(self) -> None:
        self._copies_to_save.clear()

    def extra_state(self) -> dict[str, Any]:
        persistent = self._module.state_dict()
        return {
            "updates": self.optimizer.updates,
            "scaler": self._scaler.state_dict(),
            # Copy the values: another thread writes them while training changes them.
            "buffers": {
                name: buffer.detach().to("cpu", copy=True)
                for name, buffer in self._module.named_buffers()
                if name in persistent
            },
        }

    def load_extra_state(self, state: dict[str, Any]) -> None:
        if self._keeps_updates:
            self.optimizer.updates = state["updates"]
        if state["scaler"] and self._scaler.is_enabled():
            self._scaler.load_state_dict(state["scaler"])
        with torch.no_grad():
            for name, buffer in self._module.named_buffers():
                if name in state["buffers"]:
                    buffer.copy_(state["buffers"][name])

    def describe(self) -> dict[str, Any]:
        return {
            "strategy": self.name,
            "parameters": sum(p.numel() for p in self._module.parameters()),
            "trainable": sum(p.numel() for p in self._module.parameters() if p.requires_grad),
            "precision": str(self._dtype).removeprefix("torch."),
        }


def _shard_of(tensor: torch.Tensor) -> str:
    """Return the shard of a tensor on this rank: its position in the mesh dimensions that divide the
    tensor."""
    if not isinstance(tensor, DTensor):
        return ""
    mesh = tensor.device_mesh
    names = mesh.mesh_dim_names or tuple(map(str, range(mesh.ndim)))
    place = zip(names, mesh.get_coordinate() or (), tensor.placements, strict=True)
    return ",".join(f"{name}={at}" for name, at, placement in place if not placement.is_replicate())
