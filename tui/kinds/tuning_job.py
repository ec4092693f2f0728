"""Vertex AI hyperparameter tuning jobs: custom jobs with other arguments each, by what they measure."""

from __future__ import annotations

from tui.kinds.custom_job import EVENTS, LOGS, SPEC
from tui.kinds.kind import Kind, Tab, Words

OVERVIEW = Tab("overview", "tui.screens.tuning.overview:TuningOverviewPane")
# Its name is that of the other kinds' parts: `tasks` is the key that opens them.
TRIALS = Tab("tasks", "tui.screens.tuning.trials:TrialsPane")

TUNING_JOB = Kind(
    key="tuning_job",
    words=Words("tuning job", group="pool", short="tuning"),
    tabs=(OVERVIEW, TRIALS, LOGS, SPEC, EVENTS),
    services={"vertex": "tui.backends.vertex.jobs.tuning_jobs:TuningJobs"},
    task_kinds=("custom_job",),
    compared="tui.domain.comparison.facts:tuning_facts",
    body="tuningJob",
    spec_format="tui.domain.profile.vertex_formats:TUNING_JOB",
)
