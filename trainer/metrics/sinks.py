"""Outputs of metrics; each has its module: files, or services, which `background` keeps from the loop."""

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
    """Only rank 0 has sinks. A sink must not raise: a metric must not end the training."""

    def record(self, step: int, metrics: Mapping[str, float]) -> None:
        """Record the metrics of a reported step, by name, in SI units."""

    def close(self, seconds: float, *, finished: bool) -> None:
        """Write the buffer within so many seconds; `finished` is false if the run will be resumed."""


def make_sinks(config: Config, rank: int, run_id: str = "") -> list[MetricSink]:
    """The sinks of the settings and the environment; a service knows the run by `run_id`."""
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
    return [*sinks, *(BackgroundSink(writer) for writer in _writers(config, run_id))]


def _writers(config: Config, run_id: str) -> Iterator[Writer]:
    given, settings = config.metrics, dict(_flat(asdict(config)))
    if given.wandb_project:
        yield WandbWriter(given.wandb_project, given.wandb_mode, run_id, settings)
    if given.mlflow_experiment:
        yield MlflowWriter(given.mlflow_experiment, run_id, settings)
    if given.vertex_experiment:
        yield ExperimentsWriter(given.vertex_experiment, given.vertex_tensorboard, run_id, settings)


def _flat(settings: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """The settings by their names, with their sections."""
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", value
