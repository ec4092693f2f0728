"""The metric of a tuning trial, as Vertex reads it (vertex facts 10.4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainer.lines import emit


class Tuning:
    """Reports one figure of this trial by the name that the study gives its metric."""

    def __init__(self, tag: str, figure: str) -> None:
        self._tag, self._figure = tag, figure
        self._report: Any = None
        self._broken = False

    def record(self, step: int, figures: Mapping[str, float]) -> None:
        """Report the trial's figure if it is among these."""
        if self._broken or self._figure not in figures:
            return
        try:
            if self._report is None:
                from hypertune import HyperTune  # noqa: PLC0415 - only in a trial

                self._report = HyperTune().report_hyperparameter_tuning_metric
            self._report(self._tag, float(figures[self._figure]), step)
        except (OSError, ModuleNotFoundError) as error:
            self._broken = True
            emit(
                "phase",
                f"this trial's metric can't be reported: {error}",
                severity="WARNING",
                phase="metrics",
            )

    def close(self) -> None:
        """Nothing is left: each report is written at once."""
