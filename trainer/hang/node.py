"""The ranks of this node in one attempt: their heartbeats, and their records on request."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from trainer.hang.collect import collect
from trainer.hang.flight_recorder import BUFFER_SIZE, DEFAULT_BUFFER
from trainer.hang.heartbeat import FILE, SUPERVISOR, RankHeartbeat
from trainer.hang.limits import Limits, RankProgress, RankSample, Stall, node_stall
from trainer.structured_log import emit

_PAUSED = 5.0
"""Seconds between polls that indicate a suspended machine: a paused container, or a live migration."""

_NO_LIMIT = 1e9
"""Substitute for infinity, in seconds: JSON has no infinity."""


class NodeRanks:
    """The heartbeats of the ranks, in files below `folder`."""

    def __init__(
        self,
        folder: Path,
        attempt: int,
        ranks: range,
        limits: Limits,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`ranks` are the ranks of this node. Without space in the folder there are no heartbeats."""
        self._clock, self.codes = clock, dict[int, int]()
        """Exit codes by local rank, of ranks that ended."""
        self._beats: list[RankHeartbeat] = []
        with contextlib.suppress(OSError):
            self._beats = [
                RankHeartbeat(folder / f"heartbeat-{attempt}-{local}", create=True)
                for local in range(len(ranks))
            ]
        self._progress = [RankProgress(limits, clock()) for _ in self._beats]
        self._ranks, self._looked_at = ranks, clock()
        self._collecting: threading.Thread | None = None
        self._collected: list[dict[str, Any]] | None = None

    def variables(self, local_rank: int) -> dict[str, str]:
        """Return the environment variables of this process."""
        if local_rank >= len(self._beats):
            return {}
        return {
            FILE: str(self._beats[local_rank].path),
            SUPERVISOR: str(os.getpid()),
            BUFFER_SIZE: os.environ.get(BUFFER_SIZE, str(DEFAULT_BUFFER)),
        }

    def stall(self) -> Stall | None:
        """Read the heartbeats and return the stall; None while the ranks may still be working."""
        now, before = self._clock(), self._looked_at
        self._looked_at = now
        if now - before > _PAUSED:
            for progress in self._progress:
                progress.pause(now - before)
        running = [local for local in range(len(self._beats)) if local not in self.codes]
        for local in running:
            beat = self._beats[local]
            if beat.pid:
                sample = RankSample(beat.ticks, beat.ticked_at, beat.phase, beat.collectives, *beat.pending)
                self._progress[local].update(sample, now)
        return node_stall([self._progress[local] for local in running], now)

    def moved_at(self) -> float:
        """Return the time of the last progress of any rank."""
        return max((progress.moved_at for progress in self._progress), default=0.0)

    def step(self) -> int:
        """Return the highest step that ended."""
        return max((beat.step for beat in self._beats), default=0)

    def begin_collecting(self) -> None:
        """Collect records in a thread, because waiting for a rank that does not answer takes seconds.
        `collected` returns them."""
        if self._collecting is not None and self._collecting.is_alive():
            return
        self._collected = None
        self._collecting = threading.Thread(target=self._collect, name="hang-collect", daemon=True)
        self._collecting.start()

    def _collect(self) -> None:
        try:
            records = collect(self._beats, self._ranks, dict(self.codes))
            for record, progress in zip(records, self._progress, strict=True):
                record["seconds_left"] = min(progress.left(self._clock()), _NO_LIMIT)
            self._collected = records
        except Exception as error:  # noqa: BLE001 - a failed report must not end the supervisor
            self._collected = []
            text = f"the processes' stacks could not be collected: {type(error).__name__}: {error}"
            emit("phase", text, severity="WARNING", phase="hang")

    def collected(self) -> list[dict[str, Any]] | None:
        """Return the records, once; None until they are complete."""
        records, self._collected = self._collected, None
        return records
