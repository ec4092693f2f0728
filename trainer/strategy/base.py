"""What a way of parallel training must offer; one file beside this one for each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import torch

from trainer.config import BatchPlan, Config, UsageError
from trainer.data.loader import Batch
from trainer.workload import Workload

WHOLE, SHARDED, ZERO = "whole", "sharded", "zero"
"""Layouts of a state: the same on every rank; parts of each tensor on each; DeepSpeed's own files."""


class Strategy(Protocol):
    """Owns model, optimizer and precision; the loop owns everything else. Every rank calls each method."""

    name: str
    layout: str
    scaled: bool
    """Whether a loss scaler looks for gradients that are not finite, as part of its work."""

    def setup(self, workload: Workload) -> None:
        """Place, wrap and shard the model, make the optimizer with all of its state."""

    def forward_backward(self, batch: Batch, *, last: bool) -> torch.Tensor:
        """Add a micro-batch's gradients; its loss, a scalar. They are exchanged after the `last` only."""

    def norm_square(self) -> torch.Tensor | None:
        """This rank's part of the gradient's squared norm, a scalar: the parts of all ranks add up to it.

        `None` where only `update` finds the norm.
        """

    def update(self, rate: float, norm: torch.Tensor | None, keep: torch.Tensor | None) -> torch.Tensor:
        """Clip by `norm`, take the optimizer's step at this rate, clear; the norm before clipping, a scalar.

        A step whose `keep`, a scalar, is not true leaves weights and moments as they are; `None` asks nobody.
        """

    def evaluate(self, batch: Batch) -> torch.Tensor:
        """Loss without gradients or dropout, a scalar."""

    def state(self) -> dict[str, torch.Tensor]:
        """Weights and optimizer state by name, not copied; a load writes into the same tensors.

        Empty where the layout is DeepSpeed's own.
        """

    def side_state(self) -> dict[str, Any]:
        """The few small things besides, the same on every rank."""

    def set_side_state(self, state: dict[str, Any]) -> None:
        """Undo `side_state`."""

    def stage_native(self, folder: Path) -> Callable[[], None]:
        """Copy the state; what writes the copy into `folder`, in files of the strategy's own, in a thread.

        Nothing where `state` has it all.
        """

    def load_native(self, folder: Path, *, universal: bool) -> None:
        """Read what `stage_native` wrote; `universal` says that `checkpoint.convert` has made it into a form
        for any world size. May be called again, each time with the other form."""

    def describe(self) -> dict[str, Any]:
        """Facts for the log: name, sizes, precision."""


def make(config: Config, plan: BatchPlan, device: torch.device) -> Strategy:
    """The strategy of `--strategy`; DeepSpeed is imported only where it is asked for.

    Raises:
        UsageError: when its package is missing.
    """
    from trainer.strategy.ddp import DDP
    from trainer.strategy.fsdp import FSDP

    name = config.parallel.strategy
    if name == "ddp":
        return DDP(config, plan, device)
    if name == "fsdp":
        return FSDP(config, plan, device)
    try:
        from trainer.strategy.deepspeed import ZeRO
    except ModuleNotFoundError as error:
        raise UsageError(
            f"--strategy {name} needs the package {error.name}: pip install 'vxtui[trainer]'"
        ) from error
    return ZeRO(config, plan, device)


def precision(config: Config, device: torch.device) -> torch.dtype:
    """The type that the model computes in."""
    name = config.parallel.precision
    if name == "auto":
        name = "bf16" if device.type == "cuda" else "fp32"
    return {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[name]
