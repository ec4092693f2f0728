"""This machine's GPUs as their driver measures them: one structured line every few seconds.

Only one process of a machine says it. A figure that the driver does not give is left out, never zero; where
it gives none at all, nothing more is asked.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch

from trainer.lines import emit

EVERY = 10.0
"""Seconds between two lines."""


def read_gpu(index: int) -> dict[str, Any]:
    """Share of the time the GPU was busy, its used and its whole memory in bytes, by NVML.

    Raises:
        ImportError: without the package nvidia-ml-py.
        Exception: what NVML says where it can't answer; its errors have no common class in torch.
    """
    return {
        "index": index,
        "utilization": torch.cuda.utilization(index) / 100,
        "memory_bytes": torch.cuda.device_memory_used(index),
        "memory_total_bytes": torch.cuda.get_device_properties(index).total_memory,
    }


class GpuLines:
    """`tick` may be called at every step; it says something when it is time."""

    def __init__(
        self,
        count: int,
        *,
        read: Callable[[int], dict[str, Any]] = read_gpu,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._left = list(range(count))
        self._read = read
        self._clock = clock
        self._next = clock()

    def tick(self) -> None:
        """Say what the GPUs do, where it is time and anything can be said."""
        now = self._clock()
        if not self._left or now < self._next:
            return
        self._next = now + EVERY
        found = []
        for index in list(self._left):
            try:
                found.append(self._read(index))
            except Exception as error:  # noqa: BLE001 - torch and NVML have no common class
                # A figure is never worth the training; a device that can't answer is not asked again.
                self._left.remove(index)
                emit("phase", f"GPU {index} can't be measured: {error}", severity="WARNING", phase="training")
        if found:
            busy = ", ".join(f"{gpu['utilization']:.0%}" for gpu in found)
            emit("gpu", f"GPU {busy} busy", gpus=found)
