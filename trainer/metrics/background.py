"""Metrics for a network service, written by a thread, so that the training never waits for the service."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Mapping
from typing import Protocol

from trainer.errors import one_line
from trainer.structured_log import emit

LIMIT = 1000
"""Maximum number of queued steps; further steps are dropped while the queue is full."""


class Writer(Protocol):
    """A run in a metrics service. One thread calls the methods, and stops calling them after an error."""

    name: str
    """Name of the service in messages, with the flag that enables it."""
    package: str
    """Package to install with pip."""

    def open(self) -> None:
        """Connect, and find the run of this id or create it."""

    def write(self, step: int, metrics: Mapping[str, float]) -> None:
        """Record the metrics of a step."""

    def close(self, *, finished: bool) -> None:
        """Send the remaining metrics; `finished` is false if the run will be resumed."""


class BackgroundSink:
    """A `sinks.MetricSink` that calls a writer. The writer's first error is logged as one WARNING, and the
    writer is not called again."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._queue: queue.Queue[Callable[[], None] | None] = queue.Queue(LIMIT)
        self._dropped, self._failed = 0, False
        self._thread = threading.Thread(target=self._run, name=f"metrics for {writer.name}", daemon=True)
        self._thread.start()

    def record(self, step: int, metrics: Mapping[str, float]) -> None:
        """Queue the metrics of a step, by name; returns immediately."""
        copied = {name: float(value) for name, value in metrics.items()}
        if self._failed:
            return
        try:
            self._queue.put_nowait(lambda: self._writer.write(step, copied))
        except queue.Full:
            self._dropped += 1

    def close(self, seconds: float, *, finished: bool) -> None:
        """Send the queued metrics, for at most `seconds`."""
        until = time.monotonic() + seconds
        for last in (lambda: self._writer.close(finished=finished), None):
            with contextlib.suppress(queue.Full):
                self._queue.put(last, timeout=max(0.01, until - time.monotonic()))
        self._thread.join(max(0.01, until - time.monotonic()))
        if not self._failed and (self._thread.is_alive() or self._dropped):
            left = self._queue.qsize() + self._dropped
            self._warn(f"{left} reported steps were not sent: no answer in time")

    def _run(self) -> None:
        try:
            self._writer.open()
            while (act := self._queue.get()) is not None:
                act()
        except ModuleNotFoundError as error:
            self._give_up(f"the package {error.name} is missing: pip install {self._writer.package}")
        except BaseException as error:  # noqa: BLE001 - a library may even ask to exit
            self._give_up(one_line(error))

    def _give_up(self, reason: str) -> None:
        self._failed = True
        self._warn(reason)

    def _warn(self, reason: str) -> None:
        text = f"no metrics for {self._writer.name}: {reason}; training continues"
        emit("phase", text, severity="WARNING", phase="metrics")
