"""DeepSpeed ZeRO-1, 2 and 3: optimizer state, gradients and weights sharded over the ranks.

The optimizer is torch's own: DeepSpeed's would be compiled at run time.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
import torch.distributed as dist

from trainer.config import Config
from trainer.data.loader import Batch
from trainer.distributed.batch_plan import BatchPlan
from trainer.errors import CheckpointError, UsageError, one_line
from trainer.models.workload import Workload
from trainer.optimizers.build import make_optimizer
from trainer.registry import StrategyEntry
from trainer.strategy.base import Weight, compute_dtype
from trainer.strategy.deepspeed.deferred_files import DeferredFiles
from trainer.strategy.deepspeed.package import TAG, load_deepspeed
from trainer.strategy.deepspeed.settings import CONVERTIBLE, engine_settings
from trainer.strategy.deepspeed.universal_checkpoint import to_universal
from trainer.strategy.deepspeed.zero3_init import partition
from trainer.strategy.deferred_copies import StagedState
from trainer.strategy.layout import CheckpointLayout
from trainer.strategy.model_setup import prepare_model
from trainer.weights.saved import LazyWeights, SavedWeights

STRATEGIES = {
    name: StrategyEntry(
        f"trainer.strategy.deepspeed.engine:{cls}", ("offload", "deepspeed_config"), sharded=sharded
    )
    for name, cls, sharded in (
        ("zero1", "ZeRO1", "optimizer"), ("zero2", "ZeRO2", "gradients"),
        ("zero3", "ZeRO3", "all by DeepSpeed"),
    )
}  # fmt: skip


def preload(config: Config) -> None:
    """Import DeepSpeed before the fork, unless the import could open a GPU.

    The import queries NVML for GPUs and keeps the device open, and a process with an open GPU can't be
    forked. The import saves a third of a second, less than the cost of starting a new process.
    """
    # A build of torch without CUDA opens no GPU.
    if config.parallel.device == "cpu" or not torch.backends.cuda.is_built():
        load_deepspeed(torch.device("cpu"))


@dataclass(frozen=True, slots=True)
class ZeROLayout:
    """A `CheckpointLayout` of DeepSpeed's own files; ZeRO-3 also shards the weights."""

    family: str
    name: str = "zero"
    replicated: bool = False

    def writer(self, name: str) -> int | None:
        """Return None for every file: an engine opens the files of the other ranks."""
        return None

    def open_weights(self, path: Path) -> SavedWeights:
        """Open the full-precision copies in the optimizer's files; the files are mapped, not read."""
        # A strategy may already have loaded the package for its own device.
        if "deepspeed" not in sys.modules:
            load_deepspeed(torch.device("cpu"))
        from deepspeed.utils.zero_to_fp32 import get_fp32_state_dict_from_zero_checkpoint

        return LazyWeights(get_fp32_state_dict_from_zero_checkpoint(str(path), tag=TAG, lazy_mode=True))


class ZeRO:
    """A `strategy.base.Strategy` with a DeepSpeed engine, and a subclass for each stage."""

    name = ""
    stage_number = 0
    layout: ClassVar[CheckpointLayout] = ZeROLayout("zero")

    def __init__(self, config: Config, plan: BatchPlan, device: torch.device) -> None:
        """Raises UsageError for unsupported flags, or unsupported settings of a file."""
        self._config, self._plan, self._device = config, plan, device
        self._dtype = compute_dtype(config, device)
        if self._dtype is torch.float16 and device.type == "cpu":
            raise UsageError(f"--strategy {self.name} has no fp16 on CPUs; use --precision bf16 or fp32")
        self.has_loss_scaler, self._skip_step = self._dtype is torch.float16, False
        self._deepspeed = load_deepspeed(device)
        self._settings = engine_settings(config, plan, self._dtype, self.stage_number)

    def setup(self, workload: Workload) -> None:
        model = prepare_model(workload, self._config, self._device, move=self.stage_number < 3)
        self._converts = self._dtype is not torch.float32 and not workload.converts_inputs
        self._parameters = sum(p.numel() for p in model.parameters())
        self._trainable = sum(p.numel() for p in model.parameters() if p.requires_grad)
        backend = "nccl" if self._device.type == "cuda" else "gloo"
        self._deepspeed.init_distributed(dist_backend=backend, auto_mpi_discovery=False, verbose=False)
        if self.stage_number == 3:
            partition(workload, self._settings, self._dtype, self._device)
        self.engine, self.optimizer, _, _ = self._deepspeed.initialize(
            model=model,
            optimizer=make_optimizer(model, self._config),
            config=self._settings,
            dist_init_required=False,
        )
        self._let_steps_be_skipped()
        self._defer_files()

    def _defer_files(self) -> None:
        """Make the engine pass its files to our thread, which writes them later with DeepSpeed's writer."""
        from deepspeed.runtime.checkpoint_engine import TorchCheckpointEngine

        writer = TorchCheckpointEngine(self.engine._config)
        pinned = self._device.type == "cuda"
        # A forward pass changes the model's buffers, which the file has among the weights.
        self._files = DeferredFiles(writer, self.engine.module.buffers, pinned=pinned)
        self.engine.checkpoint_engine = self._files
        # The engine would copy a conversion script into a folder that does not exist yet; trainer.export
        # replaces it.
        self.engine._copy_recovery_script = lambda _: None

    def forward_backward(self, batch: Batch, weight: Weight = 1.0, *, last: bool) -> torch.Tensor:
        loss: torch.Tensor = self.engine(*self._converted(batch))
        # The weight replaces the engine's division by the number of micro-batches.
        self.engine.backward(loss * weight, scale_wrt_gas=False)
        if not last:
            # This call only counts: the engine steps the optimizer at the last micro-batch.
            self.engine.step()
        return loss.detach()

    def _converted(self, batch: Batch) -> Batch:
        if not self._converts:
            return batch
        return tuple(part.to(self._dtype) if part.is_floating_point() else part for part in batch)

    def squared_norm(self) -> None:
        return None

    def update(self, rate: float, norm: torch.Tensor | None, keep: torch.Tensor | None) -> torch.Tensor:
        self._files.finish()
        self._skip_step = keep is not None and not bool(keep)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.engine.step()
        if self._skip_step:
            return torch.as_tensor(float("nan"))
        computed = float("inf") if self.optimizer.overflow else self.engine.get_global_grad_norm()
        return torch.as_tensor(computed or float("nan"))

    def _let_steps_be_skipped(self) -> None:
        """Make steps skippable: the engine skips a step whose optimizer reports an overflow.

        The flag is set after the update of fp16's loss scale, which therefore does not change.
        """
        original = self.optimizer._update_scale

        def update_scale(overflow: bool = False) -> None:
            original(overflow)
            self.optimizer.overflow = self.optimizer.overflow or self._skip_step

        self.optimizer._update_scale = update_scale

    def evaluate(self, batch: Batch) -> torch.Tensor:
        self.engine.eval()
        try:
            with torch.no_grad():
                loss: torch.Tensor = self.engine(*self._converted(batch))
        finally:
            self.engine.train()
        return loss

    def replicas(self) -> dict[str, dict[str, torch.Tensor]]:
        """Return the weights only, because the optimizer's state is sharded."""
        return {} if self.stage_number == 3 else {"": dict(self.engine.module.named_parameters())}

    def extra_state(self) -> dict[str, Any]:
        return {}

    def load_extra_state(self, state: dict[str, Any]) -> None:
        return None

    def stage(self, folder: Path, ranks: dist.ProcessGroup) -> StagedState:
        self.engine.save_checkpoint(str(folder), tag=TAG, save_latest=False)
        return self._files.take()

    def prepare_load(self, path: Path, saved_world_size: int) -> None:
        if saved_world_size != self._plan.world_size and self._convertible:
            to_universal(path)

    @property
    def _convertible(self) -> bool:
        return self._config.optimizer.optimizer in CONVERTIBLE

    def load(self, path: Path, saved_world_size: int, ranks: dist.ProcessGroup) -> None:
        universal = saved_world_size != self._plan.world_size
        if universal and not self._convertible:
            raise UsageError(
                f"DeepSpeed can't convert a checkpoint of --optimizer {self._config.optimizer.optimizer} to "
                f"another number of processes: continue with {saved_world_size}"
            )
        folder = to_universal(path) if universal else path
        # Only a load reads this flag: after a change of world size a run may load both kinds of checkpoints.
        self.engine._config.load_universal_checkpoint = universal
        # The engine finds a universal checkpoint by a file with its name, and DeepSpeed's own by the tag.
        tag = None if universal else TAG
        inner = self.optimizer.optimizer
        settings = [{k: v for k, v in group.items() if k != "params"} for group in inner.param_groups]
        self._files.finish()
        try:
            loaded, _ = self.engine.load_checkpoint(str(folder), tag=tag)
        except dist.DistError:
            # Another rank was lost.
            raise
        except Exception as error:
            raise CheckpointError(f"{folder} can't be loaded: {one_line(error)}") from error
        if loaded is None:
            raise CheckpointError(f"DeepSpeed found no checkpoint to load in {folder}")
        if universal:
            # ZeRO-3 gives every group the first group's settings, and all weights one shared step counter,
            # which would then count once per weight.
            for group, own in zip(inner.param_groups, settings, strict=True):
                group.update(own)
            for state in inner.state.values():
                if torch.is_tensor(state.get("step")):
                    state["step"] = state["step"].clone()

    def checkpoint_bytes(self) -> float:
        """Estimate the size: 4 bytes per weight, 12 more per trainable weight (full-precision copy, two
        moments)."""
        return float(4 * self._parameters + 12 * self._trainable)

    def close(self) -> None:
        return None

    def describe(self) -> dict[str, Any]:
        return {
            "strategy": self.name,
            "parameters": self._parameters,
            "trainable": self._trainable,
            "precision": str(self._dtype).removeprefix("torch."),
            "offload": self._config.parallel.offload,
        }


class ZeRO1(ZeRO):
    """ZeRO stage 1, which shards the optimizer's state."""

    name, stage_number = "zero1", 1


class ZeRO2(ZeRO):
    """ZeRO stage 2, which also shards the gradients."""

    name, stage_number = "zero2", 2


class ZeRO3(ZeRO):
    """ZeRO stage 3, which also shards the weights, so its files differ from those of stages 1 and 2."""

    name, stage_number = "zero3", 3
    layout = ZeROLayout("zero3")
