"""What takes figures: TensorBoard, a tuning service; one module beside this one for each."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Protocol

from trainer.config import Config
from trainer.lines import emit
from trainer.metrics.tensorboard import TensorBoard
from trainer.metrics.tuning import Tuning
from trainer.paths import in_bucket, local_path, mounted


class Sink(Protocol):
    """Rank 0 has the sinks. A sink must not raise: a figure is never worth the training."""

    def record(self, step: int, figures: Mapping[str, float]) -> None:
        """Figures of one reported step, by name, in SI units."""

    def close(self) -> None:
        """Training ends; write what is left."""


def sinks(config: Config, rank: int) -> list[Sink]:
    """The sinks that the settings and the environment ask for."""
    if rank != 0:
        return []
    found: list[Sink] = []
    folder = config.tensorboard_dir or os.environ.get("AIP_TENSORBOARD_LOG_DIR", "")
    if in_bucket(folder) is not None and not mounted():
        text = f"no figures for TensorBoard: {folder} is in a bucket, and none is mounted on this node"
        emit("phase", text, severity="WARNING", phase="metrics")
    elif folder:
        found.append(TensorBoard(local_path(folder)))
    if os.environ.get("CLOUD_ML_TRIAL_ID"):
        found.append(Tuning(config.tuning_metric, "eval_loss" if config.eval_every else "loss"))
    return found
