"""Metrics for Weights & Biases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class WandbWriter:
    """A `background.Writer` for a W&B run with this run's id, which a restart continues. In the mode
    `offline` it writes files below `./wandb` ($WANDB_DIR), for a later `wandb sync`."""

    name, package = "W&B (--wandb-project)", "wandb"

    def __init__(self, project: str, mode: str, run_id: str, settings: Mapping[str, Any]) -> None:
        self._project, self._id, self._settings = project, run_id, settings
        self._mode: Any = mode
        self._run: Any = None

    def open(self) -> None:
        import wandb  # noqa: PLC0415 - optional

        self._run = wandb.init(
            project=self._project,
            id=self._id,
            name=self._id,
            resume="allow",
            mode=self._mode,
            config=dict(self._settings),
            settings=wandb.Settings(console="off", silent=True),
        )
        # By default W&B drops steps that are repeated after a restart: its own counter only increases.
        self._run.define_metric("*", step_metric="step")

    def write(self, step: int, metrics: Mapping[str, float]) -> None:
        self._run.log({"step": step, **metrics})

    def close(self, *, finished: bool) -> None:
        self._run.finish(exit_code=0 if finished else 1)
