"""This machine's GPUs, shared out among the replicas that ask for accelerators."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path


def present() -> tuple[int, ...]:
    """Device indices that may be used: the driver's, or those that our own CUDA_VISIBLE_DEVICES names."""
    names = [p.name.removeprefix("nvidia") for p in Path("/dev").glob("nvidia[0-9]*")]
    found = sorted(int(name) for name in names if name.isdigit())
    allowed = os.environ.get("CUDA_VISIBLE_DEVICES")
    if allowed is None:
        return tuple(found)
    wanted = {int(word) for word in allowed.split(",") if word.strip().isdigit()}
    return tuple(index for index in found if index in wanted)


def share_out(wanted: Sequence[int], devices: Sequence[int] | None = None) -> list[tuple[int, ...]]:
    """Devices for each replica, which asks for `wanted[i]` of them.

    They are dealt in order. A machine with fewer than are asked for lends one device to several replicas,
    but never the same device twice to one replica.
    """
    devices = present() if devices is None else devices
    shares: list[tuple[int, ...]] = []
    dealt = 0
    for count in wanted:
        mine = min(count, len(devices))
        shares.append(tuple(sorted(devices[(dealt + i) % len(devices)] for i in range(mine))))
        dealt += mine
    return shares


def variables(devices: Sequence[int]) -> dict[str, str]:
    """What makes CUDA see these devices and no others; NVML counts them in the same order."""
    return {
        "CUDA_VISIBLE_DEVICES": ",".join(str(index) for index in devices),
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
    }
