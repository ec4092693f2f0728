"""Outputs of metrics: TensorBoard, a tuning service; each has its module."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Protocol

from trainer.cloud_paths import bucket_path, buckets_mounted, local_path
from trainer.config import Config
from trainer.metrics.tensorboard import TensorBoardSink
from trainer.metrics.tuning import TuningSink
from trainer.structured_log import emit


class MetricSink(Protocol):
    """Only rank 0 has sinks. A sink must not raise: a metric must not end the training."""

    def record(self, step: int, metrics: Mapping[str, float]) -> None:
        """Record the metrics of a reported step, by name, in SI units."""

    def close(self) -> None:
        """Write the buffer at the end of the training."""


def make_sinks(config: Config, rank: int) -> list[MetricSink]:
    """The sinks of the settings and the environment."""
    if rank != 0:
        return []
    sinks: list[MetricSink] = []
    folder = config.tensorboard_dir or os.environ.get("AIP_TENSORBOARD_LOG_DIR", "")
    if bucket_path(folder) is not None and not buckets_mounted():
        text = f"no metrics for TensorBoard: {folder} is in a bucket, and none is mounted on this node"
        emit("phase", text, severity="WARNING", phase="metrics")
    elif folder:
        sinks.append(TensorBoardSink(local_path(folder)))
    if os.environ.get("CLOUD_ML_TRIAL_ID"):
        sinks.append(TuningSink(config.tuning_metric, "eval_loss" if config.eval_every else "loss"))
    return sinks
