"""Vertex AI hyperparameter tuning jobs: custom jobs with varied arguments, compared by a metric."""

from __future__ import annotations

from tui.kinds.custom_job import EVENTS, LOGS, SPEC
from tui.kinds.kind import Kind, Tab, Words

OVERVIEW = Tab("overview", "tui.screens.tuning.overview:TuningOverviewPane")
# The key is the same for the parts of every kind: it opens the tab.
TRIALS = Tab("tasks", "tui.screens.tuning.trials:TrialsPane")

TUNING_JOB = Kind(
    key="tuning_job",
    words=Words("tuning job", group="pool", short="tuning"),
    tabs=(OVERVIEW, TRIALS, LOGS, SPEC, EVENTS),
    services={"vertex": "tui.backends.vertex.jobs.tuning_jobs:TuningJobs"},
    emulated="tui.emulator.tuning.service:TUNING_JOBS",
    page="training",
    task_kinds=("custom_job",),
    compared="tui.domain.comparison.facts:tuning_facts",
    body="tuningJob",
    spec_format="tui.domain.profile.vertex_formats:TUNING_JOB",
)
