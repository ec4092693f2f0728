"""What can be said of a step beside its loss: how well the devices were used, and how long it will take."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch.utils.flop_counter import FlopCounterMode

from trainer.metrics.mfu import mfu, peak_flops

RECENT = 20
"""Reports that the time left is told by."""


class Figures:
    """Device figures of one rank. `flops_per_token` is `None` where they have to be counted."""

    def __init__(
        self,
        device: torch.device,
        world: int,
        flops_per_token: float | None,
        *,
        compiled: bool = False,
        peak: float | None = None,
    ) -> None:
        """`peak` is the device's FLOP/s, by default what is known of a GPU of its name.

        What is compiled can't be counted: torch never compiles what it meets under a counter first.
        """
        self._counts = flops_per_token is None and not compiled
        self._device, self._world, self._flops = device, world, flops_per_token
        known = peak is None and device.type == "cuda"
        self._peak = peak_flops(torch.cuda.get_device_name(device)) if known else peak
        self._seen: deque[tuple[float, int]] = deque(maxlen=RECENT)

    @contextmanager
    def counted(self, tokens: int) -> Iterator[None]:
        """Around a forward and backward pass of this rank over so many tokens.

        The first one's matrix products, convolutions and attention are counted, each multiply-add as two,
        where they are not known; nothing is, where no peak is known to compare them with.
        """
        if not self._counts or self._peak is None:
            yield
            return
        self._counts = False
        with FlopCounterMode(display=False) as counter:
            yield
        self._flops = counter.get_total_flops() / tokens

    def of(self, step: int, total: int, tokens_per_second: float) -> dict[str, float]:
        """MFU (0 to 1), the most memory held (bytes) and the seconds left, each where it is known."""
        found: dict[str, float] = {}
        if self._flops is not None:
            used = mfu(self._flops * tokens_per_second, 1.0, self._world, self._peak)
            if used is not None:
                found["mfu"] = used
        if self._device.type == "cuda":
            found["memory_bytes"] = float(torch.cuda.max_memory_allocated(self._device))
        left = self._left(step, total)
        if left is not None:
            found["eta_seconds"] = left
        return found

    def _left(self, step: int, total: int) -> float | None:
        now = time.monotonic()
        self._seen.append((now, step))
        began, first = self._seen[0]
        if step <= first:
            return None
        # All that happens between two steps counts: evaluations and checkpoints take their time too.
        return (now - began) / (step - first) * (total - step)
