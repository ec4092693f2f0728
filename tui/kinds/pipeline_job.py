"""Vertex AI pipelines: a graph of tasks, most of which are custom jobs."""

from __future__ import annotations

from tui.kinds.custom_job import EVENTS, SPEC
from tui.kinds.kind import Kind, KindAction, Tab, Words

OVERVIEW = Tab("overview", "tui.screens.pipeline.overview:PipelineOverviewPane")
TASKS = Tab("tasks", "tui.screens.pipeline.tasks:PipelineTasksPane")

PIPELINE_JOB = Kind(
    key="pipeline_job",
    words=Words("pipeline", group="pool"),
    tabs=(OVERVIEW, TASKS, SPEC, EVENTS),
    services={"vertex": "tui.backends.vertex.jobs.pipeline_jobs:PipelineJobs"},
    emulated="tui.emulator.kinds.pipeline_jobs:PIPELINE_JOBS",
    actions=(
        KindAction(
            "rerun",
            "r",
            "rerun",
            "Run the pipeline again; succeeded tasks come from the cache",
            operation="job.rerun",
            confirm=True,
        ),
    ),
    target="tui.screens.pipeline.rerun:PipelineTarget",
    task_kinds=("custom_job", "tuning_job"),
    page="pipelines/runs",
    compared="tui.domain.comparison.facts:pipeline_facts",
    body="pipelineJob",
    spec_format="tui.store.profiles.templates:PIPELINE_JOB",
)
