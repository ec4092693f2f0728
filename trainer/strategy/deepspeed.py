"""DeepSpeed ZeRO-1, 2 and 3: optimizer state, gradients and weights cut into one part a process.

Nothing is compiled at run time. DeepSpeed would build a shared-memory extension when it starts on CPUs and
a fused Adam when it makes the optimizer; both take minutes and fail where there is no compiler (trainer
facts, DeepSpeed without a GPU). So the optimizer is torch's own, and the extension is ruled out.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from trainer.checkpoint.native import LateFiles
from trainer.config import BatchPlan, Config, UsageError
from trainer.data.loader import Batch
from trainer.strategy.base import ZERO, precision
from trainer.strategy.blocks import adamw, prepare
from trainer.workload import Workload

TAG = "zero"
"""The folder of its files inside a checkpoint."""
_OURS = ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps", "optimizer")


def load_deepspeed(device: torch.device) -> Any:
    """The package, quiet and without its run-time compilation."""
    if device.type == "cpu":
        os.environ["DS_ACCELERATOR"] = "cpu"
    warnings.filterwarnings("ignore", module="deepspeed")
    import deepspeed
    import deepspeed.ops

    # Its first use would run a compiler for each operation just to see what could be built.
    vars(deepspeed.ops).setdefault("__compatible_ops__", {})
    deepspeed.utils.logger.setLevel(logging.ERROR)
    _load_muon_uncompiled()
    return deepspeed


def _load_muon_uncompiled() -> None:
    """The engine imports Muon to see whether it is the optimizer, which it never is. Its functions are given
    to torch.compile where they are defined: that loads all of inductor, seconds of CPU time a process.
    """
    from deepspeed.runtime import compiler

    compile_, compiler.compile = compiler.compile, lambda: lambda function: function
    try:
        # An older DeepSpeed has none.
        with contextlib.suppress(ImportError):
            import deepspeed.runtime.zero.muon.muon_optimizer  # noqa: F401
    finally:
        compiler.compile = compile_


class ZeRO:
    """Implements `strategy.base.Strategy` with a DeepSpeed engine."""

    layout = ZERO

    def __init__(self, config: Config, plan: BatchPlan, device: torch.device) -> None:
        """Raises UsageError for a precision that DeepSpeed does not have on this device."""
        self.name = config.parallel.strategy
        self._config, self._plan, self._device = config, plan, device
        self._dtype = precision(config, device)
        if self._dtype is torch.float16 and device.type == "cpu":
            raise UsageError(f"--strategy {self.name} has no fp16 on CPUs; use --precision bf16 or fp32")
        self.scaled, self._left_out = self._dtype is torch.float16, False
        self._deepspeed = load_deepspeed(device)

    def setup(self, workload: Workload) -> None:
        model = prepare(workload, self._config, self._device)
        self._parameters = sum(p.numel() for p in model.parameters())
        self._trainable = sum(p.numel() for p in model.parameters() if p.requires_grad)
        backend = "nccl" if self._device.type == "cuda" else "gloo"
        self._deepspeed.init_distributed(dist_backend=backend, auto_mpi_discovery=False, verbose=False)
        self.engine, self.optimizer, _, _ = self._deepspeed.initialize(
            model=model,
            optimizer=adamw(model, self._config),
            config=engine_settings(self._config, self._plan, self._dtype),
            dist_init_required=False,
        )
        self._let_steps_be_left_out()
        self._late_files()

    def _late_files(self) -> None:
        """Its files are written by our thread, as whole ones, by the engine that it has by itself."""
        from deepspeed.runtime.checkpoint_engine import TorchCheckpointEngine

        own = TorchCheckpointEngine(self.engine._config)
        self._files = LateFiles(own, pinned=self._device.type == "cuda")
        self.engine.checkpoint_engine = self._files
        # Its converters go beside the files at once, when there is no folder yet; trainer.export is ours.
        self.engine._copy_recovery_script = lambda _: None

    def forward_backward(self, batch: Batch, *, last: bool) -> torch.Tensor:
        loss: torch.Tensor = self.engine(*batch)
        self.engine.backward(loss)
        if not last:
            # Only counts: the engine takes the optimizer's step at the last micro-batch.
            self.engine.step()
        return loss.detach()

    def norm_square(self) -> None:
        return None

    def update(self, rate: float, norm: torch.Tensor | None, keep: torch.Tensor | None) -> torch.Tensor:
        self._left_out = keep is not None and not bool(keep)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.engine.step()
        if self._left_out:
            return torch.as_tensor(float("nan"))
        found = float("inf") if self.optimizer.overflow else self.engine.get_global_grad_norm()
        return torch.as_tensor(found or float("nan"))

    def _let_steps_be_left_out(self) -> None:
        """The engine leaves out steps whose norm is not finite; ours go the same way, which it takes when
        its optimizer is in overflow. The scale of fp16 is told before, and stays as it is."""
        told = self.optimizer._update_scale

        def update_scale(overflow: bool = False) -> None:
            told(overflow)
            self.optimizer.overflow = self.optimizer.overflow or self._left_out

        self.optimizer._update_scale = update_scale

    def evaluate(self, batch: Batch) -> torch.Tensor:
        self.engine.eval()
        try:
            with torch.no_grad():
                loss: torch.Tensor = self.engine(*batch)
        finally:
            self.engine.train()
        return loss

    def state(self) -> dict[str, torch.Tensor]:
        return {}

    def side_state(self) -> dict[str, Any]:
        return {}

    def set_side_state(self, state: dict[str, Any]) -> None:
        return None

    def stage_native(self, folder: Path) -> Callable[[], None]:
        self.engine.save_checkpoint(str(folder), tag=TAG, save_latest=False)
        return self._files.take()

    def load_native(self, folder: Path, *, universal: bool) -> None:
        # Only loading asks for it: a run that came to another world size goes back to checkpoints of both.
        self.engine._config.load_universal_checkpoint = universal
        # A universal checkpoint is found by a file that names it, a native one by its tag.
        tag = None if universal else TAG
        inner = self.optimizer.optimizer
        kept = [{k: v for k, v in group.items() if k != "params"} for group in inner.param_groups]
        found, _ = self.engine.load_checkpoint(str(folder), tag=tag)
        if found is None:
            raise RuntimeError(f"DeepSpeed found nothing to load in {folder}")
        if universal:
            # ZeRO-3 gives every group the first one's settings, and all weights one and the same counter of
            # steps, which then counts once for each of them.
            for group, settings in zip(inner.param_groups, kept, strict=True):
                group.update(settings)
            for state in inner.state.values():
                if torch.is_tensor(state.get("step")):
                    state["step"] = state["step"].clone()

    def describe(self) -> dict[str, Any]:
        return {
            "strategy": self.name,
            "parameters": self._parameters,
            "trainable": self._trainable,
            "precision": str(self._dtype).removeprefix("torch."),
            "offload": self._config.parallel.offload,
        }


def engine_settings(config: Config, plan: BatchPlan, dtype: torch.dtype) -> dict[str, Any]:
    """DeepSpeed's settings: ours, then those of `--deepspeed-config`, which win.

    Raises:
        UsageError: when the file sets what our own flags say.
    """
    stage, offload = int(config.parallel.strategy[-1]), config.parallel.offload
    zero: dict[str, Any] = {"stage": stage, "contiguous_gradients": True, "overlap_comm": stage > 1}
    if offload != "none":
        zero["offload_optimizer"] = {"device": "cpu", "pin_memory": False}
    if offload == "all":
        if stage != 3:
            raise UsageError(
                f"--offload all needs --strategy zero3: zero{stage} keeps whole weights in place"
            )
        zero["offload_param"] = {"device": "cpu", "pin_memory": False}
    ours: dict[str, Any] = {
        "train_batch_size": plan.batch,
        "train_micro_batch_size_per_gpu": plan.micro,
        "gradient_accumulation_steps": plan.accumulate,
        "gradient_clipping": config.optimizer.clip,
        "zero_optimization": zero,
        "bf16": {"enabled": dtype is torch.bfloat16},
        "fp16": {"enabled": dtype is torch.float16},
        # With offload it would insist on an Adam of its own, which has to be compiled.
        "zero_force_ds_cpu_optimizer": False,
        "steps_per_print": 2**31,
    }
    if not config.parallel.deepspeed_config:
        return ours
    path = Path(config.parallel.deepspeed_config)
    given = json.loads(path.read_text())
    _refuse_ours(given, ours, path)
    return _merged(ours, given)


def _refuse_ours(given: dict[str, Any], ours: dict[str, Any], path: Path) -> None:
    """Raises UsageError for what our own flags say, and for what would write checkpoints beside us."""
    for name in _OURS:
        if given.get(name, "auto") not in ("auto", ours.get(name)):
            flag = "--learning-rate and the others" if name == "optimizer" else "--batch and --micro-batch"
            raise UsageError(f"--deepspeed-config {path}: {name} is set by {flag}; take it out of the file")
    saving = given.get("checkpoint")
    if isinstance(saving, dict) and saving.get("writer"):
        raise UsageError(
            f"--deepspeed-config {path}: checkpoint.writer would write beside us; take it out of the file, "
            "checkpoints are written while training goes on anyway"
        )


def _merged(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    found = dict(base)
    for key, value in over.items():
        if value == "auto":
            continue
        both = isinstance(value, dict) and isinstance(found.get(key), dict)
        found[key] = _merged(found[key], value) if both else value
    return found
