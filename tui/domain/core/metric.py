"""Time series of a job's replicas, in which 'not measured' is a separate value."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

CPU = "cpu/utilization"
MEMORY = "memory/utilization"
GPU = "accelerator/utilization"
GPU_MEMORY = "accelerator/memory/utilization"
NET_IN = "network/received_bytes_count"
NET_OUT = "network/sent_bytes_count"

TRAINING_PREFIX = "ml.googleapis.com/training/"
TRAINING_METRICS = (CPU, MEMORY, GPU, GPU_MEMORY, NET_IN, NET_OUT)
"""Metric types of custom training, without their prefix (docs/facts/vertex.md 6.1)."""

UNITS = {CPU: "1", MEMORY: "1", GPU: "1", GPU_MEMORY: "1", NET_IN: "By/s", NET_OUT: "By/s"}
"""Displayed UCUM units; the byte counters are read as rates."""


METRICS_API, CADVISOR, DCGM = "the cluster's metrics API", "the nodes' cAdvisor", "the DCGM exporter"
"""Sources of pods' metrics, besides Cloud Monitoring and the trainer."""
_SOURCE = "source"


def source_label(name: str) -> tuple[str, str]:
    """Return the label with the source of a series."""
    return _SOURCE, name


@dataclass(frozen=True, slots=True)
class Series:
    """One metric of one replica (and possibly one accelerator), the oldest point first."""

    metric: str
    replica: str
    accelerator: str
    unit: str
    points: tuple[tuple[datetime, float], ...]
    labels: tuple[tuple[str, str], ...] = ()

    @property
    def latest(self) -> tuple[datetime, float] | None:
        """The newest point, or `None` without measurements."""
        return self.points[-1] if self.points else None

    @property
    def source(self) -> str:
        """The source of the series; "" for the trainer's own lines and for Cloud Monitoring."""
        return dict(self.labels).get(_SOURCE, "")

    @property
    def simulated(self) -> bool:
        """Whether an emulator simulated the metric of an accelerator that does not exist."""
        return ("simulated", "true") in self.labels


@dataclass(frozen=True, slots=True)
class NotMeasured:
    """A metric without samples, and the reason; "" for an unknown reason."""

    metric: str
    reason: str


@dataclass(frozen=True, slots=True)
class MetricsReading:
    """The result of reading a job's metrics: each requested metric is in exactly one field."""

    series: tuple[Series, ...]
    not_measured: tuple[NotMeasured, ...]
    read_at: datetime
