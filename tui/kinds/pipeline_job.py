"""Vertex AI pipelines: a graph of tasks, most of which are custom jobs."""

from __future__ import annotations

from tui.kinds.custom_job import EVENTS, OVERVIEW, SPEC
from tui.kinds.kind import Kind, Tab, Words

TASKS = Tab("tasks", "tui.screens.pipeline.tasks:PipelineTasksPane")

PIPELINE_JOB = Kind(
    key="pipeline_job",
    words=Words("pipeline", group="pool"),
    tabs=(OVERVIEW, TASKS, SPEC, EVENTS),
    services={"vertex": "tui.backends.vertex.jobs.pipeline_jobs:PipelineJobs"},
    task_kinds=("custom_job", "tuning_job"),
)
