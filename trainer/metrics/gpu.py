"""Utilization and memory of this node's GPUs, measured by the driver: a structured line every 10 seconds.

One process per node reports all GPUs. A value that the driver does not report is omitted, never zero; a GPU
without values is not read again.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch

from trainer.structured_log import emit

INTERVAL = 10.0
"""Seconds between lines."""


def read_gpu(index: int) -> dict[str, Any]:
    """Return the utilization (0 to 1), used and total memory (bytes) of a GPU, by NVML.

    Raises:
        ImportError: without the package nvidia-ml-py.
        Exception: NVML's errors, which have no common class in torch.
    """
    return {
        "index": index,
        "utilization": torch.cuda.utilization(index) / 100,
        "memory_bytes": torch.cuda.device_memory_used(index),
        "memory_total_bytes": torch.cuda.get_device_properties(index).total_memory,
    }


class GpuReporter:
    """Reports the GPUs once per interval; call `tick` at every step."""

    def __init__(
        self,
        count: int,
        *,
        read: Callable[[int], dict[str, Any]] = read_gpu,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._readable = list(range(count))
        self._read = read
        self._clock = clock
        self._next = clock()

    def tick(self) -> None:
        """Report if the interval has passed and a GPU is readable."""
        now = self._clock()
        if not self._readable or now < self._next:
            return
        self._next = now + INTERVAL
        gpus = []
        for index in list(self._readable):
            try:
                gpus.append(self._read(index))
            except Exception as error:  # noqa: BLE001 - torch and NVML have no common class
                # A metric must not end the training; the device is not read again.
                self._readable.remove(index)
                emit("phase", f"GPU {index} can't be measured: {error}", severity="WARNING", phase="training")
        if gpus:
            busy = ", ".join(f"{gpu['utilization']:.0%}" for gpu in gpus)
            emit("gpu", f"GPU {busy} busy", gpus=gpus)
