"""Metrics for an MLflow server, or for a folder or database of MLflow."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

TAG = "vxtui.run"
"""The tag with which a restart finds its run: MLflow assigns its own ids to runs."""
_PARAMETERS = 100
"""Maximum number of parameters per request (mlflow.utils.validation.MAX_PARAMS_TAGS_PER_BATCH)."""


class MlflowWriter:
    """A `background.Writer` for MLflow. The address is $MLFLOW_TRACKING_URI, or MLflow's default."""

    name, package = "MLflow (--mlflow-experiment)", "mlflow-skinny"

    def __init__(self, experiment: str, run_id: str, settings: Mapping[str, Any]) -> None:
        self._experiment, self._id, self._settings = experiment, run_id, settings
        self._client: Any = None
        self._run = ""

    def open(self) -> None:
        from mlflow import MlflowClient  # noqa: PLC0415 - optional
        from mlflow.entities import Param  # noqa: PLC0415

        self._client = client = MlflowClient()
        existing = client.get_experiment_by_name(self._experiment)
        experiment = existing.experiment_id if existing else client.create_experiment(self._experiment)
        runs = client.search_runs([experiment], f"tags.`{TAG}` = '{self._id}'", max_results=1)
        if runs:
            self._run = runs[0].info.run_id
            client.update_run(self._run, status="RUNNING")
            return
        self._run = client.create_run(experiment, tags={TAG: self._id}, run_name=self._id).info.run_id
        parameters = [Param(name, str(value)) for name, value in self._settings.items()]
        for start in range(0, len(parameters), _PARAMETERS):
            client.log_batch(self._run, params=parameters[start : start + _PARAMETERS])

    def write(self, step: int, metrics: Mapping[str, float]) -> None:
        from mlflow.entities import Metric  # noqa: PLC0415

        now = int(time.time() * 1000)
        values = [Metric(name, value, now, step) for name, value in metrics.items()]
        self._client.log_batch(self._run, metrics=values)

    def close(self, *, finished: bool) -> None:
        self._client.set_terminated(self._run, "FINISHED" if finished else "KILLED")
