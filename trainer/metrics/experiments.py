"""Metrics for Vertex AI Experiments, with time series in a Vertex AI TensorBoard."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any


class ExperimentsWriter:
    """A `background.Writer` for a run of an experiment, which a restart continues.

    Project and region are the variables that Vertex AI sets for a job (google.cloud.aiplatform.initializer),
    or $GOOGLE_CLOUD_PROJECT and $GOOGLE_CLOUD_REGION. Without `tensorboard` (a resource name), the writer
    uses the experiment's own TensorBoard, or the region's default.
    """

    name, package = "Vertex AI Experiments (--vertex-experiment)", "google-cloud-aiplatform"

    def __init__(self, experiment: str, tensorboard: str, run_id: str, settings: Mapping[str, Any]) -> None:
        self._experiment, self._tensorboard, self._settings = experiment, tensorboard, settings
        # A run's id must match [a-z0-9][a-z0-9-]{0,127} (google.cloud.aiplatform.ExperimentRun).
        self._id = re.sub(r"[^a-z0-9-]", "-", run_id.lower())[:128].lstrip("-")
        self._run: Any = None

    def open(self) -> None:
        from google.api_core.exceptions import NotFound  # noqa: PLC0415
        from google.cloud import aiplatform  # noqa: PLC0415 - optional, and imports for seconds

        aiplatform.init(experiment=self._experiment, experiment_tensorboard=self._tensorboard or None)
        try:
            self._run = aiplatform.start_run(self._id, resume=True)
        except NotFound:
            self._run = aiplatform.start_run(self._id)
            self._run.log_params(dict(self._settings))

    def write(self, step: int, metrics: Mapping[str, float]) -> None:
        self._run.log_time_series_metrics(dict(metrics), step=step)

    def close(self, *, finished: bool) -> None:
        if finished:
            self._run.end_run()
