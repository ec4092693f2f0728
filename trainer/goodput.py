"""Where the time goes: useful steps, and what they have to wait for.

Buckets, in seconds: `init` (start to first step), `data` (waiting for a batch), `step`, `eval`, `checkpoint`
(training stood still for a save), `lost` (steps done again after a restart), `restart` (from the last sign
of the attempt before to this one's start). They add up over attempts: the checkpoint carries them.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

BUCKETS = ("init", "data", "step", "eval", "checkpoint", "lost", "restart")


class Goodput:
    """Seconds by bucket. `trace` is a small file on the node's disk that outlives a killed process."""

    def __init__(self, trace: Path | None) -> None:
        self.spent = dict.fromkeys(BUCKETS, 0.0)
        self._trace = trace
        self._before = self._read()

    @contextmanager
    def into(self, bucket: str) -> Iterator[None]:
        began = time.monotonic()
        try:
            yield
        finally:
            self.spent[bucket] += time.monotonic() - began

    def resume(self, step: int, spent: Mapping[str, float], started: float) -> None:
        """Go on from a checkpoint of `step`; `started` is this process's start, seconds since the epoch."""
        for name in BUCKETS:
            self.spent[name] += float(spent.get(name, 0.0))
        if self._before is None:
            return
        reached, at, each = self._before
        self.spent["lost"] += max(0, reached - step) * each
        self.spent["restart"] += max(0.0, started - at)

    def lose(self, seconds: float) -> None:
        """Steps of so many seconds are to be done again."""
        moved = min(seconds, self.spent["step"])
        self.spent["step"] -= moved
        self.spent["lost"] += moved

    def mark(self, step: int, seconds: float) -> None:
        """Leave a trace: this step was reached now, at so many seconds a step."""
        if self._trace is not None:
            with suppress(OSError):
                self._trace.write_text(json.dumps({"step": step, "at": time.time(), "seconds": seconds}))

    def rounded(self) -> dict[str, float]:
        return {name: round(value, 3) for name, value in self.spent.items()}

    def _read(self) -> tuple[int, float, float] | None:
        if self._trace is None:
            return None
        try:
            found: dict[str, Any] = json.loads(self._trace.read_text())
            return int(found["step"]), float(found["at"]), float(found["seconds"])
        except (OSError, ValueError, KeyError, TypeError):
            return None


def last_step(trace: Path) -> float:
    """When the last step that left a trace was, in seconds since the epoch; 0 where there is none."""
    found = Goodput(trace)._before
    return found[1] if found else 0.0
