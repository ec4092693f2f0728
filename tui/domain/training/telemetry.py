"""Telemetry in a trainer's own lines: the step that each replica has reached, and its GPUs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tui.domain.core.figures import count, finite
from tui.domain.core.log_entry import LogEntry

TELEMETRY_KINDS = ("step", "rank", "gpu")
"""Kinds of structured lines with telemetry (docs/JSON.md)."""


@dataclass(frozen=True, slots=True)
class GpuSample:
    """One GPU at a point in time. Shares are 0 to 1; unmeasured values are `None`."""

    index: str
    utilization: float | None = None
    memory: float | None = None


@dataclass(frozen=True, slots=True)
class TelemetryLine:
    """One line of one replica: a training step, or the state of its GPUs."""

    timestamp: datetime
    job_id: str
    """The job's id, or its full name for a service without unique ids."""
    replica: str
    step: int | None = None
    gpus: tuple[GpuSample, ...] = ()
    simulated: bool = False


def telemetry_line(entry: LogEntry) -> TelemetryLine | None:
    """Return the telemetry in an entry, or `None` for any other line. Malformed fields count as absent."""
    fields = (entry.json or {}).get("vxtui")
    if not isinstance(fields, Mapping) or fields.get("kind") not in TELEMETRY_KINDS:
        return None
    if fields["kind"] == "gpu":
        gpus = tuple(gpu for item in _items(fields.get("gpus")) if (gpu := _gpu(item)) is not None)
        step = None
    else:
        gpus, step = (), count(fields.get("step"))
    if step is None and not gpus:
        return None
    simulated = fields.get("simulated") is True
    return TelemetryLine(entry.timestamp, entry.job_id, entry.replica, step, gpus, simulated)


def _items(value: object) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list | tuple) else []


def _gpu(fields: Mapping[str, Any]) -> GpuSample | None:
    index = finite(fields.get("index"))
    if index is None or index < 0:
        return None
    used, total = finite(fields.get("memory_bytes")), finite(fields.get("memory_total_bytes"))
    memory = None if used is None or not total else _share(used / total)
    return GpuSample(str(int(index)), _share(finite(fields.get("utilization"))), memory)


def _share(value: float | None) -> float | None:
    return None if value is None else max(0.0, min(1.0, value))
