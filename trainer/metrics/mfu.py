"""Model FLOPs utilization: the arithmetic that the model needs over what the device could do in that time."""

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
"""Peak of dense 16-bit matrix products a second, by a word of the device's name; the first that fits counts.

From the makers' data sheets, without sparsity: those that print only the sparse figure are halved.
"""


def peak_flops(device_name: str) -> float | None:
    """FLOP/s of a device by the name that CUDA gives it; `None` for one that is not in the table."""
    name = device_name.casefold()
    return next((peak for word, peak in PEAKS if _fits(word.casefold().split(), name)), None)


def _fits(words: Sequence[str], name: str) -> bool:
    """All words stand in the name, the first one not inside another (an L4 is no L40)."""
    parts = name.replace("-", " ").split()
    return words[0] in parts and all(word in name for word in words)


def mfu(flops: float, seconds: float, devices: int, peak: float | None) -> float | None:
    """Share of the peak, 0 to 1, for `flops` of all devices together; `None` where no peak is known."""
    if not peak or seconds <= 0 or devices < 1:
        return None
    return flops / (seconds * devices * peak)
