"""Model FLOPs utilization (MFU): the model's operations over the devices' peak."""

from __future__ import annotations

from collections.abc import Sequence

PEAKS: tuple[tuple[str, float], ...] = (
    ("GB200", 2.5e15),
    ("B200", 2.25e15),
    ("H200", 989e12),
    ("H100 PCIe", 756e12),
    ("H100 NVL", 835e12),
    ("H100", 989e12),
    ("A100", 312e12),
    ("RTX PRO 6000", 504e12),
    ("L4", 121e12),
    ("T4", 65e12),
    ("V100", 125e12),
)
"""Peak FLOP/s of dense 16-bit matrix products, by words of the device's name; the first match applies. The
values are from data sheets, without sparsity. If a sheet has only a sparse value, half of it is used."""


def peak_flops(device_name: str) -> float | None:
    """Return FLOP/s of a device by its CUDA name, or `None` if it is not in the table."""
    name = device_name.casefold()
    return next((peak for word, peak in PEAKS if _matches(word.casefold().split(), name)), None)


def _matches(words: Sequence[str], name: str) -> bool:
    """Return whether all words are in the name, the first as a separate word (an L4 is not an L40)."""
    parts = name.replace("-", " ").split()
    return words[0] in parts and all(word in name for word in words)


def mfu(flops: float, seconds: float, devices: int, peak: float | None) -> float | None:
    """Return the `flops` of all devices together as a fraction of the peak, 0 to 1, or `None` if the peak is
    unknown."""
    if not peak or seconds <= 0 or devices < 1:
        return None
    return flops / (seconds * devices * peak)
