"""Assigns this machine's GPUs to the replicas that request accelerators."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path


def present() -> tuple[int, ...]:
    """Return the indices of the usable devices: the devices of the driver, or the devices in
    CUDA_VISIBLE_DEVICES of this process."""
    names = [p.name.removeprefix("nvidia") for p in Path("/dev").glob("nvidia[0-9]*")]
    indices = sorted(int(name) for name in names if name.isdigit())
    allowed = os.environ.get("CUDA_VISIBLE_DEVICES")
    if allowed is None:
        return tuple(indices)
    visible = {int(word) for word in allowed.split(",") if word.strip().isdigit()}
    return tuple(index for index in indices if index in visible)


def assign(counts: Sequence[int], devices: Sequence[int] | None = None) -> list[tuple[int, ...]]:
    """Return the devices of each replica. Replica i requests `counts[i]` devices.

    Devices are assigned in order. On a machine with fewer devices than requested, several replicas share a
    device; no replica has the same device twice.
    """
    devices = present() if devices is None else devices
    assigned: list[tuple[int, ...]] = []
    count_assigned = 0
    for count in counts:
        mine = min(count, len(devices))
        assigned.append(tuple(sorted(devices[(count_assigned + i) % len(devices)] for i in range(mine))))
        count_assigned += mine
    return assigned


def variables(devices: Sequence[int]) -> dict[str, str]:
    """Return the variables that make exactly these devices visible to CUDA, in NVML's order."""
    return {
        "CUDA_VISIBLE_DEVICES": ",".join(str(index) for index in devices),
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
    }
