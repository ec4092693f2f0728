"""The base of DDP and FSDP: torch's optimizer, loss scaler and distributed checkpoint."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, ClassVar

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.staging import DefaultStager, StagingOptions
from torch.distributed.tensor import DTensor
from torch.optim.adamw import adamw as adamw_step

from trainer.config import BatchPlan, Config
from trainer.data.loader import Batch
from trainer.errors import CheckpointError, one_line
from trainer.models.meta_init import materialize, on_meta
from trainer.models.workload import Workload
from trainer.strategy.base import Weight, compute_dtype
from trainer.strategy.layout import CheckpointLayout
from trainer.strategy.model_setup import make_optimizer, prepare_model


class TorchStrategy(ABC):
    """Implements `strategy.base.Strategy` except the wrapping of the model and the reduction of gradients."""

    name = ""
    layout: ClassVar[CheckpointLayout]
    moves_model = True
    """Whether the whole model is moved to the device; if not, `wrap` moves what this rank keeps."""

    def __init__(self, config: Config, plan: BatchPlan, device: torch.device) -> None:
        self._config, self._plan, self._device = config, plan, device
        self._dtype = compute_dtype(config, device)
        # Only in fp16 small gradients underflow.
        self._scaler = torch.amp.GradScaler(device.type, enabled=self._dtype is torch.float16)  # type: ignore[attr-defined]
        self.has_loss_scaler = self._scaler.is_enabled()
        self.gradient_replicas = plan.world_size
        """Ranks that hold the same gradient."""
        self._module: nn.Module = nn.Identity()
        self._wrapped: nn.Module = self._module
        pinned = torch.cuda.is_available()
        self._stager = DefaultStager(StagingOptions(pinned, False, False, pinned))

    @abstractmethod
    def wrap(self, model: nn.Module, workload: Workload) -> nn.Module:
        """Wrap the model; return the module whose forward the loop calls."""

    @abstractmethod
    def gradient_sync(self, last: bool) -> AbstractContextManager[Any]:
        """Context of a micro-batch: gradients are reduced only after the `last` one."""

    def autocast(self) -> AbstractContextManager[Any]:
        if self._dtype is torch.float32:
            return nullcontext()
        return torch.autocast(self._device.type, self._dtype)

    def setup(self, workload: Workload) -> None:
        self._module = prepare_model(workload, self._config, self._device, move=self.moves_model)
        deferred = on_meta(self._module)
        self._wrapped = self.wrap(self._module, workload)
        if deferred:
            assert workload.init_weight is not None
            materialize(self._module, workload.init_weight, self._device)
        self.optimizer = make_optimizer(self._module, self._config)
        self._create_optimizer_state()

    def release(self) -> None:
        """Forget the step in progress and what uses the process group, which ends (`--elastic`)."""
        self._wrapped = self._module
        self.optimizer.zero_grad(set_to_none=True)
        if self._scaler.is_enabled():
            # It remembers that the gradients of the aborted step are unscaled.
            state = self._scaler.state_dict()
            self._scaler = torch.amp.GradScaler(self._device.type)  # type: ignore[attr-defined]
            self._scaler.load_state_dict(state)

    def _create_optimizer_state(self) -> None:
        """Create it now, not at the first step: a load and the first staging need the tensors."""
        state = self.optimizer.state_dict()
        trainable = [p for group in self.optimizer.param_groups for p in group["params"]]
        state["state"] = {
            n: {
                "step": torch.zeros((), dtype=torch.float32, device=p.device),
                "exp_avg": torch.zeros_like(p),
                "exp_avg_sq": torch.zeros_like(p),
            }
            for n, p in enumerate(trainable)
        }
        self.optimizer.load_state_dict(state)

    def forward_backward(self, batch: Batch, weight: Weight = 1.0, *, last: bool) -> torch.Tensor:
        with self.gradient_sync(last):
            with self.autocast():
                loss: torch.Tensor = self._wrapped(*batch)
            self._scaler.scale(loss * weight).backward()
        return loss.detach()

    def squared_norm(self) -> torch.Tensor:
        self._scaler.unscale_(self.optimizer)
        gradients = [
            local_shard(p.grad)
            for g in self.optimizer.param_groups
            for p in g["params"]
            if p.grad is not None
        ]
        return torch.nn.utils.get_total_norm(gradients).square() / self.gradient_replicas

    def update(self, rate: float, norm: torch.Tensor | None, keep: torch.Tensor | None) -> torch.Tensor:
        assert norm is not None
        limit = self._config.optimizer.clip
        if keep is None and self.has_loss_scaler:
            keep = torch.isfinite(norm)
        # The optimizer's fused kernel clips and skips by these two scalars: no extra pass over the gradients,
        # and no synchronization with the host.
        divisor = ((norm + 1e-6) / limit).clamp(min=1.0) if limit else None
        skip = None if keep is None else (~keep).to(torch.float32)
        if self._device.type == "cpu":
            # The host knows both values here, and omits a division by one and a false skip.
            divisor = None if divisor is not None and divisor == 1.0 else divisor
            skip = None if skip is not None and skip == 0.0 else skip
        for group in self.optimizer.param_groups:
            group["lr"] = rate
            self._step(group, divisor, skip)
        self._scaler.update()
        self.optimizer.zero_grad(set_to_none=True)
        return norm

    @torch.no_grad()
    def _step(self, group: dict[str, Any], divisor: torch.Tensor | None, skip: torch.Tensor | None) -> None:
        """AdamW on this rank's shards: dispatching each through DTensor would cost more than the step."""
        weights = [p for p in group["params"] if p.grad is not None]
        states = [self.optimizer.state[p] for p in weights]
        adamw_step(
            [local_shard(p) for p in weights],
            [local_shard(p.grad) for p in weights],
            [local_shard(state["exp_avg"]) for state in states],
            [local_shard(state["exp_avg_sq"]) for state in states],
            [],
            [state["step"] for state in states],
            fused=True, grad_scale=divisor, found_inf=skip, amsgrad=False, maximize=False,
            beta1=group["betas"][0], beta2=group["betas"][1], lr=group["lr"],
            weight_decay=group["weight_decay"], eps=group["eps"],
        )  # fmt: skip

    def evaluate(self, batch: Batch) -> torch.Tensor:
        self._wrapped.eval()
        try:
            with torch.no_grad(), self.autocast():
                loss: torch.Tensor = self._wrapped(*batch)
        finally:
            self._wrapped.train()
        return loss

    def state(self) -> dict[str, torch.Tensor]:
        """Weights and optimizer state by name, not copied; a load writes into the same tensors."""
        state = {}
        for name, weight in self._module.named_parameters():
            state[f"model.{name}"] = weight.detach()
            for key, value in self.optimizer.state.get(weight, {}).items():
                if key != "step":
                    state[f"optimizer.{name}.{key}"] = value
        return state

    def stage(self, folder: Path, ranks: dist.ProcessGroup) -> Callable[[], None]:
        staged: dict[str, Any] = self._stager.stage(self.state())  # type: ignore[assignment]
        if torch.cuda.is_available():
            torch.cuda.synchronize()

        def write() -> None:
            # Not synced file by file: the manifest's inventory does that once for all of them.
            dcp.save(
                staged, storage_writer=dcp.FileSystemWriter(folder, sync_files=False), process_group=ranks
            )

        return write

    def warm_up(self) -> None:
        """Allocate the buffers of `stage`."""
        self._stager.stage(self.state())

    def prepare_load(self, path: Path, saved_world_size: int) -> None:
        return None

    def load(self, path: Path, saved_world_size: int, ranks: dist.ProcessGroup) -> None:
        try:
            dcp.load(self.state(), storage_reader=dcp.FileSystemReader(path), process_group=ranks)
        except BaseException as error:
            # CheckpointException is no Exception.
            if isinstance(error, KeyboardInterrupt | SystemExit):
                raise
            raise CheckpointError(f"{path} can't be loaded: {one_line(error)}") from error

    def checkpoint_bytes(self) -> float:
        return float(sum(tensor.numel() * tensor.element_size() for tensor in self.state().values()))

    def close(self) -> None:
        self._stager.close()

    def extra_state(self) -> dict[str, Any]:
        persistent = self._module.state_dict()
        first = next(iter(self.optimizer.state.values()))
        return {
            "updates": float(first["step"]),
            "scaler": self._scaler.state_dict(),
            "buffers": {n: b.detach().cpu() for n, b in self._module.named_buffers() if n in persistent},
        }

    def load_extra_state(self, state: dict[str, Any]) -> None:
        for each in self.optimizer.state.values():
            each["step"].fill_(state["updates"])
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


def local_shard(tensor: torch.Tensor) -> torch.Tensor:
    """This rank's shard of a DTensor, any other tensor as it is; not copied."""
    if not isinstance(tensor, DTensor):
        return tensor
    with torch.no_grad():
        return tensor.to_local()
