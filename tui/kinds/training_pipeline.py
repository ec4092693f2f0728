"""Vertex AI training pipelines: a custom job that the pipeline creates and ends with.

Google's SDK launches custom training this way (`CustomTrainingJob` and its siblings).
"""

from __future__ import annotations

from tui.kinds.custom_job import ATTEMPTS, EVENTS, LOGS, METRICS, OVERVIEW, REPLICAS, SPEC
from tui.kinds.kind import Kind, Tab, Words

TASKS = Tab("tasks", "tui.screens.job.tasks:TasksPane")

TRAINING_PIPELINE = Kind(
    key="training_pipeline",
    words=Words("training pipeline", group="pool", short="training"),
    tabs=(OVERVIEW, TASKS, REPLICAS, LOGS, METRICS, ATTEMPTS, SPEC, EVENTS),
    services={"vertex": "tui.backends.vertex.jobs.training_pipelines:TrainingPipelines"},
    emulated="tui.emulator.kinds.training_pipelines:TRAINING_PIPELINES",
    page="training",
    task_kinds=("custom_job",),
    body="trainingPipeline",
    spec_format="tui.domain.profile.vertex_formats:TRAINING_PIPELINE",
)
