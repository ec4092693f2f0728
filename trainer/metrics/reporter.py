"""The metrics of a rank: device metrics of its steps, its node's GPUs, and the sinks of rank 0."""

from __future__ import annotations

import os
from collections.abc import Mapping

import torch

from trainer.config import Config
from trainer.distributed.device import local_gpu_count
from trainer.metrics.gpu import GpuReporter
from trainer.metrics.sinks import MetricSink, make_sinks
from trainer.metrics.step_metrics import StepMetrics
from trainer.structured_log import emit
from trainer.torch_private import compiled_graphs


class MetricsReporter:
    """Measures the steps of one rank and records the metrics that its loop reports."""

    steps: StepMetrics
    """Device metrics of the steps; set by `measure_steps`."""

    def __init__(self, config: Config, device: torch.device, local_rank: int) -> None:
        self._config, self._device = config, device
        # One process per node reads all of its GPUs.
        reports_gpus = device.type == "cuda" and local_rank == 0
        self._gpus = GpuReporter(local_gpu_count(os.environ)) if reports_gpus else None
        self._reports_graphs = config.parallel.compile == "on" and local_rank == 0
        self._sinks: list[MetricSink] | None = None
        """The sinks, created at the first record, because the run's id is unknown before."""

    def measure_steps(self, flops_per_token: float | None, world_size: int) -> None:
        """Measure steps of this many ranks from now on; without `flops_per_token` count the FLOPs of the
        first pass."""
        compiled = self._config.parallel.compile == "on"
        self.steps = StepMetrics(self._device, world_size, flops_per_token, compiled=compiled)

    def tick(self) -> None:
        """Report the GPUs if their interval has passed, and after the first step the compiled graphs."""
        if self._reports_graphs:
            self._reports_graphs = False
            report_graphs(*compiled_graphs())
        if self._gpus is not None:
            self._gpus.tick()

    def record(self, step: int, metrics: Mapping[str, float], run_id: str) -> None:
        """Record the metrics of a reported step; only rank 0 calls it."""
        if self._sinks is None:
            self._sinks = make_sinks(self._config, 0, run_id)
        for sink in self._sinks:
            sink.record(step, metrics)

    def close(self, *, finished: bool) -> None:
        """Flush the sinks; an unfinished run was stopped by a signal and has little time left."""
        for sink in self._sinks or ():
            sink.close(30.0 if finished else 1.0, finished=finished)


def report_graphs(graphs: int, breaks: list[str]) -> None:
    """Log what torch.compile compiled in the first step; blocks of equal code and shapes share a graph."""
    text = f"--compile on: the number of compiled graphs is {graphs}"
    if not graphs:
        text += ": torch compiled nothing, so the flag has no effect"
    elif breaks:
        text += f"; torch divided a graph: {breaks[0]}"
    severity = "INFO" if graphs and not breaks else "WARNING"
    emit("phase", text, severity=severity, phase="training", graphs=graphs)
