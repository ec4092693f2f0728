"""Formats values for columns: three significant digits, ages in two units, · for values not measured."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from tui.domain.core.job import Job, exit_codes
from tui.domain.core.replica import PARAMETER_SERVER, REDUCER
from tui.domain.core.states import JobState
from tui.domain.core.training_progress import Silence

NOT_MEASURED = "·"
_SHORT_UNITS = {"tokens/s": "tok/s"}
_LETTERS = {REDUCER: "R", PARAMETER_SERVER: "P", "evaluator": "E"}


def age(span: timedelta | None) -> str:
    """Format a span as `12s`, `14m`, `5h02`, `2d`; a span below zero (clocks differ) as `0s`."""
    if span is None:
        return NOT_MEASURED
    seconds = max(0, int(span.total_seconds()))
    if seconds < 60:
        return f"{seconds}s"
    if seconds < 3600:
        return f"{seconds // 60}m"
    if seconds < 86_400:
        return f"{seconds // 3600}h{seconds % 3600 // 60:02}"
    return f"{seconds // 86_400}d"


def silence_text(silence: Silence, now: datetime) -> str:
    """Format a silence: `no step for 38m`, `worker-1 silent for 41m`."""
    return f"{silence.phrase} for {age(now - silence.since)}"


def rfc3339(moment: datetime | None) -> str | None:
    """Return a time in UTC for `--json`."""
    if moment is None:
        return None
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def bar(fraction: float, width: int) -> str:
    """Return a bar of `width` characters that is full only at 1 and empty only at 0."""
    inside = round(max(0.0, min(1.0, fraction)) * width)
    if 0 < fraction < 1:
        inside = max(1, min(width - 1, inside))
    return "█" * inside + "░" * (width - inside)


def line(fraction: float, width: int) -> tuple[str, str]:
    """Return a thin line of `width` cells, done and to do; it is full only at 1 and empty only at 0."""
    done = bar(fraction, width).count("█")
    return "━" * done, "╌" * (width - done)


def percent(fraction: float) -> str:
    """Format a share, e.g. `47 %`; 100 only if it is complete."""
    return f"{min(99, round(fraction * 100)) if fraction < 1 else 100} %"


def lasted(job: Job, now: datetime) -> str:
    """Format a job's duration: `5h02` since its start or suspension, `waits 14m`, or `never ran`."""
    if job.state is JobState.SUSPENDED:
        return age(job.suspension(now))
    if job.start_time is not None and not job.waits:
        return age(job.duration(now))
    return "never ran" if job.state.terminal else f"waits {age(job.wait(now))}"


def figure(value: float | None) -> str:
    """Format three significant digits, with k, M, G above a thousand: `2.11`, `41.8k`."""
    if value is None:
        return NOT_MEASURED
    for unit in ("", "k", "M", "G"):
        if abs(value) < 999.5 or unit == "G":
            break
        value /= 1000
    return f"{value:.0f}{unit}" if abs(value) >= 99.95 else f"{value:.3g}{unit}"


def number_text(value: float) -> str:
    """Format a metric or parameter with four significant digits, an integer without a change."""
    if isinstance(value, int) or (value.is_integer() and abs(value) < 1e6):
        return f"{value:.0f}"
    return f"{value:.4g}"


def short_unit(unit: str) -> str:
    """Return the unit of a speed, shortened for a cell, e.g. `tok/s`."""
    return _SHORT_UNITS.get(unit, unit)


def speed_text(value: float, unit: str) -> str:
    """Format a speed, e.g. `41.8k tok/s` or `1.98 steps/s`."""
    return f"{figure(value)} {short_unit(unit)}"


def replicas(job: Job) -> str:
    """Format replicas by group: `1`, `1+3`, then reducers or parameter servers: `1+3+13R`, `1+1+2P`. A
    composite job has the replicas of each running task: `2×1+3`."""
    parts = []
    for group in job.groups:
        if group.replicas:
            parts.append(f"{group.replicas}{_LETTERS.get(group.role, '')}")
    times = f"{job.running_tasks}×" if job.composite and job.running_tasks > 1 else ""
    return times + "+".join(parts) if parts else NOT_MEASURED


def accelerators(job: Job) -> str:
    """Format a job's accelerators: `32 A100`, with a comma between several types, and `–` for none."""
    return accelerators_text(job.accelerators)


def accelerators_text(counts: Mapping[str, int]) -> str:
    """Format numbers of accelerators by type: `32 A100`, with a comma between several types, and `–` for
    none."""
    return ", ".join(f"{n} {ACCELERATOR_SHORT.get(kind, kind)}" for kind, n in counts.items()) or "–"


_CONTINENTS = {
    "africa": "af", "asia": "as", "australia": "au", "europe": "eu", "northamerica": "na",
    "southamerica": "sa",
}  # fmt: skip
_DIRECTIONS = {
    "northeast": "ne", "northwest": "nw", "southeast": "se", "southwest": "sw", "north": "n", "south": "s",
    "east": "e", "west": "w", "central": "c",
}  # fmt: skip
_REGION = re.compile(r"(?P<continent>[a-z]+)-(?P<direction>[a-z]+)(?P<number>\d+)")


def short_region(region: str, room: int) -> str:
    """Return a region's name in `room` cells: `na-northeast1`, then `na-ne1`. Short names remain unique. A
    context at the beginning stays: `prod/na-ne1`. A name without a shorter form is unchanged."""
    context, slash, name = region.rpartition("/")
    match = _REGION.fullmatch(name)
    if len(region) <= room or match is None:
        return region
    continent = _CONTINENTS.get(match["continent"], match["continent"])
    direction = match["direction"]
    for shown in (direction, _DIRECTIONS.get(direction, direction)):
        short = f"{context}{slash}{continent}-{shown}{match['number']}"
        if len(short) <= room:
            break
    return short


def pieces(count: int, singular: str, plural: str = "") -> str:
    """Format a count with its noun: `1 replica`, `2 replicas`."""
    return f"{count:,} {singular if count == 1 else plural or singular + 's'}"


def stakes(job: Job, now: datetime) -> str:
    """Return the losses if a job ends: `4 replicas, 32 A100, 61 %, last checkpoint 4m ago`."""
    parts = [pieces(job.replica_count, "replica")]
    if job.composite and job.tasks:
        parts = [pieces(len(job.tasks), "part")]
        if job.state.active:
            parts.append(f"{job.running_tasks} of them running")
    if job.accelerators:
        parts.append(accelerators(job))
    progress = job.progress
    if progress.fraction is not None:
        parts.append(f"{progress.fraction:.0%}")
    elif progress.step is not None:
        parts.append(f"step {progress.step:,}")
    if progress.last_checkpoint_at is not None:
        parts.append(f"last checkpoint {age(now - progress.last_checkpoint_at)} ago")
    elif progress.step and not job.composite:
        # The steps of a composite job are its parts.
        parts.append("no checkpoint yet")
    return ", ".join(parts)


def short_error(job: Job) -> str:
    """Return why a job failed, for a cell: the replica and its exit code if the service names them."""
    if job.diagnosis is not None and job.diagnosis.short:
        return job.diagnosis.short
    if job.error is None:
        return ""
    for replica, code in exit_codes(job.error).items():
        return f"OOM {replica}" if "memory" in job.error.reason else f"exit {code} {replica}"
    return job.error.summary


def why(job: Job) -> str:
    """Return the reason for a job's state, on one line; "" if its service gives no reason."""
    if job.error is not None and job.state is not JobState.CANCELLED:
        # An operator's message begins by repeating the state.
        short, message = short_error(job), job.error.exception or job.error.summary
        return message if short == message else f"{short}: {message}"
    if job.waiting and job.state.active:
        return job.waiting[0]
    return job.reason


ACCELERATOR_SHORT = {
    "NVIDIA_TESLA_P100": "P100",
    "NVIDIA_TESLA_V100": "V100",
    "NVIDIA_TESLA_P4": "P4",
    "NVIDIA_TESLA_T4": "T4",
    "NVIDIA_TESLA_A100": "A100",
    "NVIDIA_A100_80GB": "A100-80",
    "NVIDIA_L4": "L4",
    "NVIDIA_H100_80GB": "H100",
    "NVIDIA_H100_MEGA_80GB": "H100M",
    "NVIDIA_H200_141GB": "H200",
    "NVIDIA_B200": "B200",
    "NVIDIA_GB200": "GB200",
    "NVIDIA_RTX_PRO_6000": "RTX6000",
    "TPU_V2": "TPUv2",
    "TPU_V3": "TPUv3",
}
"""Accelerator types of the API (docs/facts/vertex.md 1.4) and the short names used in tables."""
