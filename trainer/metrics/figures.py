"""What can be said of a step beside its loss: how well the devices were used, and how long it will take."""

from __future__ import annotations

import time
from collections import deque

import torch

from trainer.metrics.mfu import mfu, peak_flops

RECENT = 20
"""Reports that the time left is told by."""


class Figures:
    """Device figures of one rank. `flops_per_token` `None` where nobody has counted them."""

    def __init__(self, device: torch.device, world: int, flops_per_token: float | None) -> None:
        self._device, self._world, self._flops = device, world, flops_per_token
        cuda = device.type == "cuda"
        self._peak = peak_flops(torch.cuda.get_device_name(device)) if cuda else None
        self._seen: deque[tuple[float, int]] = deque(maxlen=RECENT)

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
