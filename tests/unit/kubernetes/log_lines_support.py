"""What several tests share with test_log_lines."""

from __future__ import annotations

from datetime import UTC, datetime

from tui.backends.kubernetes.logs.lines.entries import ContainerName
from tui.backends.kubernetes.logs.lines.stamped import SECOND

START = 1_764_093_600 * SECOND
NAME = ContainerName("ml", "train-worker-0", "5b1c7f6a-aaaa", "pytorch", "worker-0")


def written(stamp: int, text: bytes, digits: int = 9) -> bytes:
    """A line as a kubelet writes it."""
    moment, fraction = datetime.fromtimestamp(stamp // SECOND, UTC), f"{stamp % SECOND:09}"[:digits]
    return f"{moment:%Y-%m-%dT%H:%M:%S}{'.' if digits else ''}{fraction}Z ".encode() + text + b"\n"
