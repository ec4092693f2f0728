"""Goodput: the fraction of the time spent on useful steps, and the remaining time by cause.

Buckets, in seconds: `init` (start to first step), `restore` (loading a checkpoint), `data` (waiting for a
batch), `step`, `eval`, `checkpoint` (training stopped for a save), `lost` (steps repeated after a restart),
`restart` (from the previous attempt's last step to this attempt's start). Checkpoints contain the buckets,
which accumulate over attempts. Events have the names of Google's library: see `SOURCES`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainer.hang import progress

SOURCES = {
    "init": "PROGRAM_STARTUP",
    "restore": "UNPRODUCTIVE_CHECKPOINT_RESTORE_TIME",
    "data": "DATA_LOADING_SYNC",
    "eval": "CUSTOM_BADPUT_EVENTS.EVAL",
    "checkpoint": "UNPRODUCTIVE_CHECKPOINT_SAVE_TIME",
    "lost": "WASTED_PROGRESS_FROM_DISRUPTION",
    "restart": "INFRASTRUCTURE_RECOVERY_FROM_DISRUPTION",
}
"""The `badput_source` of each bucket except `step`, as in ml-goodput-measurement 0.2.3.

See goodput_utils.BadputType, and monitoring._flatten_badput_dict for custom events. The metrics have the
names that the library writes below compute.googleapis.com/workload/:
monitoring._upload_goodput_metrics_to_gcm.
"""
BUCKETS = (*SOURCES, "step")


@dataclass(frozen=True, slots=True)
class RecordedStep:
    """A step in a progress file: the time of its end (epoch seconds), and its duration."""

    step: int
    at: float
    seconds: float


class Goodput:
    """Seconds by bucket. `progress_file`, on the node's disk, has the last step for the next attempt."""

    def __init__(self, progress_file: Path | None) -> None:
        self.seconds = dict.fromkeys(BUCKETS, 0.0)
        self.disruptions = 0
        """Number of restarts of the run, over all attempts."""
        self._file = progress_file
        self._previous = last_step(progress_file) if progress_file is not None else None
        self._started, self._began = time.time(), time.monotonic()

    @property
    def elapsed(self) -> float:
        """Seconds since the start of this process's training."""
        return time.monotonic() - self._began

    @contextmanager
    def measure(self, bucket: str, phase: str = "") -> Iterator[None]:
        """Return a context whose time counts in `bucket`; the supervisor sees the phase `phase`, by default
        the bucket's name."""
        began = time.monotonic()
        try:
            with progress.phase(phase or bucket):
                yield
        finally:
            self.seconds[bucket] += time.monotonic() - began

    def resume(self, step: int, saved: Mapping[str, float]) -> None:
        """Continue from a checkpoint of `step`: add its saved seconds, the lost steps of the previous
        attempt, and the time since that attempt."""
        for name in BUCKETS:
            self.seconds[name] += float(saved.get(name, 0.0))
        self.disruptions = int(saved.get("disruptions", 0)) + 1
        if self._previous is None:
            return
        before = self._previous
        self.seconds["lost"] += max(0, before.step - step) * before.seconds
        self.seconds["restart"] += max(0.0, self._started - before.at)

    def count_as_lost(self, seconds: float) -> None:
        """Count the seconds of steps that will be repeated."""
        moved = min(seconds, self.seconds["step"])
        self.seconds["step"] -= moved
        self.seconds["lost"] += moved

    def record_step(self, step: int, step_seconds: float) -> None:
        """Write this completed step and its duration to the progress file."""
        if self._file is not None:
            with suppress(OSError):
                self._file.write_text(json.dumps({"step": step, "at": time.time(), "seconds": step_seconds}))

    def count_restore(self, seconds: float) -> None:
        """Move `seconds` from `init` to `restore`: the time in which the start loaded a checkpoint."""
        self.seconds["restore"] += seconds
        self.seconds["init"] -= seconds

    def state(self) -> dict[str, float]:
        """Return the values for the checkpoint."""
        return {**self._rounded(), "disruptions": self.disruptions}

    def load_state(self, saved: Mapping[str, float]) -> None:
        """Replace the values with those of another process of this run."""
        self.seconds = {name: float(saved[name]) for name in BUCKETS}
        self.disruptions = int(saved["disruptions"])

    def report(self, step: int) -> dict[str, Any]:
        """Return the metrics of an event at `step`, named as in ml-goodput-measurement; times in seconds."""
        rounded = self._rounded()
        return {
            "goodput_time": rounded["step"],
            "badput_time": {source: rounded[bucket] for bucket, source in SOURCES.items()},
            "disruptions": self.disruptions,
            "max_productive_steps": step,
        }

    def _rounded(self) -> dict[str, float]:
        return {name: round(value, 3) for name, value in self.seconds.items()}


def last_step(progress_file: Path) -> RecordedStep | None:
    """Return the last recorded step, or None if it can't be read."""
    try:
        record: dict[str, Any] = json.loads(progress_file.read_text())
        return RecordedStep(int(record["step"]), float(record["at"]), float(record["seconds"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None
