"""Read accelerator metrics of a node's pods in the Prometheus text format.

Two exporters are supported: cAdvisor in the kubelet (`container_accelerator_…`, which newer Kubernetes lacks
and the emulator has), and NVIDIA's DCGM exporter (`DCGM_FI_DEV_…`) of GKE or the GPU operator.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from tui.domain.core.metric import GPU, GPU_MEMORY

_PREFIXES = ("container_accelerator_", "DCGM_FI_DEV_")
_LINE = re.compile(r"(?P<name>\w+)\{(?P<labels>.*)\}\s+(?P<value>\S+)(?:\s+(?P<at>-?\d+))?")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_BUSY = frozenset({"container_accelerator_duty_cycle", "DCGM_FI_DEV_GPU_UTIL"})
"""Utilization metrics, in percent."""
_TOTALS = {
    "container_accelerator_memory_used_bytes": "container_accelerator_memory_total_bytes",
    "DCGM_FI_DEV_FB_USED": "",
}
"""The metric of total memory for each metric of used memory; DCGM reports free memory instead, in MiB."""
_FREE, _RESERVED = "DCGM_FI_DEV_FB_FREE", "DCGM_FI_DEV_FB_RESERVED"
Rows = Mapping[str, tuple[float, Mapping[str, str], datetime | None]]
"""Value, labels and time by metric name."""


@dataclass(frozen=True, slots=True)
class AcceleratorSample:
    """The utilization of one accelerator of a container; `at` is None for an exporter without timestamps."""

    metric: str
    namespace: str
    pod: str
    container: str
    accelerator: str
    value: float
    at: datetime | None = None
    simulated: bool = False


def accelerator_samples(text: str) -> list[AcceleratorSample]:
    """Return the samples of accelerators in use by pods; other lines are ignored."""
    rows: dict[tuple[str, ...], dict[str, tuple[float, Mapping[str, str], datetime | None]]] = {}
    for line in text.splitlines():
        match = _LINE.fullmatch(line.strip()) if line.startswith(_PREFIXES) else None
        if match is None:
            continue
        labels = {name: _unescaped(value) for name, value in _LABEL.findall(match["labels"])}
        value = _number(match["value"])
        # DCGM numbers a node's GPUs, cAdvisor names them.
        which = labels.get("gpu") or labels.get("acc_id") or ""
        key = (labels.get("namespace", ""), labels.get("pod", ""), labels.get("container", ""), which)
        if value is not None and key[1]:
            rows.setdefault(key, {})[match["name"]] = value, labels, _time(match["at"])
    return [sample for key, values in rows.items() for sample in _samples(key, values)]


def _samples(key: tuple[str, ...], rows: Rows) -> Iterable[AcceleratorSample]:
    for name, (value, labels, at) in rows.items():
        metric, share = GPU, value / 100 if name in _BUSY else None
        if name in _TOTALS:
            whole = _whole(name, rows)
            metric, share = GPU_MEMORY, value / whole if whole else None
        if share is not None:
            simulated = labels.get("simulated") == "true"
            namespace, pod, container, which = key
            yield AcceleratorSample(metric, namespace, pod, container, which, share, at, simulated)


def _whole(used: str, rows: Rows) -> float | None:
    """Return the total memory in the unit of the used memory; None if unknown."""
    if _TOTALS[used]:
        return rows[_TOTALS[used]][0] if _TOTALS[used] in rows else None
    if _FREE not in rows:
        return None
    return sum(rows[name][0] for name in (used, _FREE, _RESERVED) if name in rows)


def _unescaped(value: str) -> str:
    return re.sub(r"\\(.)", lambda match: "\n" if match[1] == "n" else match[1], value)


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _time(text: str | None) -> datetime | None:
    """Parse a time in milliseconds."""
    return datetime.fromtimestamp(int(text) / 1000, UTC) if text else None
