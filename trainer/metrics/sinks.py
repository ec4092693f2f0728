"""Outputs of metrics: files, or services, which `background` decouples from the loop."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any, Protocol

from trainer.cloud_paths import bucket_path, buckets_mounted, local_path
from trainer.config import Config
from trainer.metrics.background import BackgroundSink, Writer
from trainer.metrics.experiments import ExperimentsWriter
from trainer.metrics.mlflow import MlflowWriter
from trainer.metrics.tensorboard import TensorBoardSink
from trainer.metrics.tuning import TuningSink
from trainer.metrics.wandb import WandbWriter
from trainer.structured_log import emit


class MetricSink(Protocol):
    """An output of metrics, on rank 0 only. A sink must not raise, because a failure of metrics must not end
    the training."""

    def record(self, step: int, metrics: Mapping[str, float]) -> None:
        """Record the metrics of a reported step, by name, in SI units."""

    def close(self, seconds: float, *, finished: bool) -> None:
        """Flush within `seconds`; `finished` is false if the run will be resumed."""


def make_sinks(config: Config, rank: int, run_id: str = "") -> list[MetricSink]:
    """Return the sinks that settings and environment select; a service identifies the run by `run_id`."""
    if rank != 0:
        return []
    sinks: list[MetricSink] = []
    folder = config.tensorboard_dir or os.environ.get("AIP_TENSORBOARD_LOG_DIR", "")
    if bucket_path(folder) is not None and not buckets_mounted():
        text = f"no metrics for TensorBoard: {folder} is in a bucket, and no bucket is mounted on this node"
        emit("phase", text, severity="WARNING", phase="metrics")
    elif folder:
        sinks.append(TensorBoardSink(local_path(folder)))
    if os.environ.get("CLOUD_ML_TRIAL_ID"):
        sinks.append(TuningSink(config.tuning_metric, "eval_loss" if config.eval_every else "loss"))
    return [*sinks, *(BackgroundSink(writer) for writer in _writers(config, run_id))]


def _writers(config: Config, run_id: str) -> Iterator[Writer]:
    metrics, settings = config.metrics, dict(_flat(asdict(config)))
    if metrics.wandb_project:
        yield WandbWriter(metrics.wandb_project, metrics.wandb_mode, run_id, settings)
    if metrics.mlflow_experiment:
        yield MlflowWriter(metrics.mlflow_experiment, run_id, settings)
    if metrics.vertex_experiment:
        yield ExperimentsWriter(metrics.vertex_experiment, metrics.vertex_tensorboard, run_id, settings)


def _flat(settings: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the settings by name, prefixed with their sections."""
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", value
