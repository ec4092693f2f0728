"""Metrics for TensorBoard, below $AIP_TENSORBOARD_LOG_DIR (docs/facts/vertex.md 3.6) or a given folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trainer.structured_log import emit


class TensorBoardSink:
    """Writes event files. After the first error, which is reported, the sink writes nothing more."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._writer: Any = None
        self._failed = False

    def record(self, step: int, metrics: Mapping[str, float]) -> None:
        """Add the metrics of a step, by name."""
        if self._failed:
            return
        try:
            if self._writer is None:
                from tensorboardX import SummaryWriter  # noqa: PLC0415 - optional

                self._writer = SummaryWriter(str(self._folder), flush_secs=30)
            for name, value in metrics.items():
                self._writer.add_scalar(name, float(value), step)
        except (OSError, ModuleNotFoundError) as error:
            self._give_up(error)

    def close(self, seconds: float, *, finished: bool) -> None:
        """Flush the buffer."""
        if self._writer is not None and not self._failed:
            try:
                self._writer.close()
            except OSError as error:
                self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        self._failed = True
        emit(
            "phase",
            f"metrics for TensorBoard can't be written to {self._folder}: {error}",
            severity="WARNING",
            phase="metrics",
        )
