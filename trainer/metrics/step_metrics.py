"""Metrics of a step besides its loss: device utilisation, memory, and the time left."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch.utils.flop_counter import FlopCounterMode

from trainer.metrics.mfu import mfu, peak_flops

RECENT = 20
"""Number of recent reports that the estimate of the remaining time uses."""


class StepTimer:
    """Measures the seconds of a step, also on a device that runs behind the host: there the time between two
    steps that the host has awaited is divided by the number of steps."""

    def __init__(self, *, lags: bool) -> None:
        self._lags, self._steps = lags, 0
        self._first_began = self._last_ended = 0.0
        self._seconds = 0.0

    def ended(self, began: float, now: float, *, complete: bool) -> float:
        """Return the seconds of the step, or the last known ones if the device may not have `complete`d the
        step; times are in seconds of the monotonic clock."""
        # Work between two steps, such as an evaluation, does not count.
        between = began - self._last_ended if self._steps else 0.0
        if self._steps == 0:
            self._first_began = began
        else:
            self._first_began += between
        self._steps, self._last_ended = self._steps + 1, now
        if complete or not self._lags:
            first = self._first_began if self._lags else began
            self._seconds = (now - first) / (self._steps if self._lags else 1)
            self._steps = 0
        return self._seconds or now - began


class StepMetrics:
    """Device metrics of one rank. If `flops_per_token` is `None`, the first pass is counted."""

    def __init__(
        self,
        device: torch.device,
        world_size: int,
        flops_per_token: float | None,
        *,
        compiled: bool = False,
        peak: float | None = None,
    ) -> None:
        """`peak` is the device's FLOP/s, by default from the data sheet of the GPU's name.

        A compiled model is not counted: torch never compiles a model that first runs under a counter.
        """
        self._counts = flops_per_token is None and not compiled
        self._device, self._world_size, self._flops = device, world_size, flops_per_token
        look_up = peak is None and device.type == "cuda"
        self._peak = peak_flops(torch.cuda.get_device_name(device)) if look_up else peak
        self._reports: deque[tuple[float, int]] = deque(maxlen=RECENT)
        self._timer = StepTimer(lags=device.type == "cuda")

    def timed(self, began: float, *, complete: bool) -> float:
        """Return the seconds of a step as `StepTimer.ended` does; the step ends now."""
        return self._timer.ended(began, time.monotonic(), complete=complete)

    @contextmanager
    def counted(self, tokens: int) -> Iterator[None]:
        """Return a context for this rank's forward and backward pass over `tokens` tokens.

        The first pass counts matrix products, convolutions and attention, and a multiply-add as two
        operations. Nothing is counted if the count is known, the model is compiled, or the peak is unknown.
        """
        if not self._counts or self._peak is None:
            yield
            return
        self._counts = False
        with FlopCounterMode(display=False) as counter:
            yield
        self._flops = counter.get_total_flops() / tokens

    def at(self, step: int, total: int, tokens_per_second: float) -> dict[str, float]:
        """Return MFU (0 to 1), peak memory (bytes) and the remaining seconds, each only if known."""
        metrics: dict[str, float] = {}
        if self._flops is not None:
            used = mfu(self._flops * tokens_per_second, 1.0, self._world_size, self._peak)
            if used is not None:
                metrics["mfu"] = used
        if self._device.type == "cuda":
            metrics["memory_bytes"] = float(torch.cuda.max_memory_allocated(self._device))
        left = self._left(step, total)
        if left is not None:
            metrics["eta_seconds"] = left
        return metrics

    def _left(self, step: int, total: int) -> float | None:
        now = time.monotonic()
        self._reports.append((now, step))
        began, first = self._reports[0]
        if step <= first:
            return None
        # The time includes evaluations and checkpoints between the steps.
        return (now - began) / (step - first) * (total - step)
