"""Figures for TensorBoard, below $AIP_TENSORBOARD_LOG_DIR (vertex facts 3.6) or a folder of choice."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trainer.lines import emit


class TensorBoard:
    """Writes event files. What can't be written is said once and then left: training is worth more."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._writer: Any = None
        self._broken = False

    def record(self, step: int, figures: Mapping[str, float]) -> None:
        """Add the figures of a step, by name."""
        if self._broken:
            return
        try:
            if self._writer is None:
                from tensorboardX import SummaryWriter  # noqa: PLC0415 - only where it is asked for

                self._writer = SummaryWriter(str(self._folder), flush_secs=30)
            for name, value in figures.items():
                self._writer.add_scalar(name, float(value), step)
        except (OSError, ModuleNotFoundError) as error:
            self._give_up(error)

    def close(self) -> None:
        """Write what is left."""
        if self._writer is not None and not self._broken:
            try:
                self._writer.close()
            except OSError as error:
                self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        self._broken = True
        emit(
            "phase", f"no figures for TensorBoard in {self._folder}: {error}", severity="WARNING",
            phase="metrics",
        )  # fmt: skip
