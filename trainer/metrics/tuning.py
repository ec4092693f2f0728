"""The metric of a tuning trial, in the file that Vertex reads (docs/facts/vertex.md 10.4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainer.structured_log import emit


class TuningSink:
    """Reports one metric of this trial under the study's metric id."""

    def __init__(self, metric_id: str, metric: str) -> None:
        self._metric_id, self._metric = metric_id, metric
        self._report: Any = None
        self._failed = False

    def record(self, step: int, metrics: Mapping[str, float]) -> None:
        """Report the trial's metric if `metrics` contain it."""
        if self._failed or self._metric not in metrics:
            return
        try:
            if self._report is None:
                from hypertune import HyperTune  # noqa: PLC0415 - only in a trial

                self._report = HyperTune().report_hyperparameter_tuning_metric
            self._report(self._metric_id, float(metrics[self._metric]), step)
        except (OSError, ModuleNotFoundError) as error:
            self._failed = True
            emit(
                "phase",
                f"this trial's metric can't be reported: {error}",
                severity="WARNING",
                phase="metrics",
            )

    def close(self, seconds: float, *, finished: bool) -> None:
        """Do nothing: `record` writes each report immediately."""
