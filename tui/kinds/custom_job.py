"""Vertex AI custom jobs: worker pools of containers."""

from __future__ import annotations

from tui.kinds.kind import Kind, Tab, Words

OVERVIEW = Tab("overview", "tui.screens.job.overview:OverviewPane")
REPLICAS = Tab("replicas", "tui.screens.job.replicas:ReplicasPane")
LOGS = Tab("logs", "tui.screens.job.logs:LogsPane")
METRICS = Tab("metrics", "tui.screens.job.metrics:MetricsPane")
ATTEMPTS = Tab("attempts", "tui.screens.job.attempts:AttemptsPane")
SPEC = Tab("spec", "tui.screens.job.spec:SpecPane")
EVENTS = Tab("events", "tui.screens.job.events:EventsPane")

CUSTOM_JOB = Kind(
    key="custom_job",
    words=Words("custom job", group="pool", short="custom"),
    tabs=(OVERVIEW, REPLICAS, LOGS, METRICS, ATTEMPTS, SPEC, EVENTS),
    services={"vertex": "tui.backends.vertex.jobs.custom_jobs:CustomJobs"},
    emulated="tui.emulator.vertex.job_service:CUSTOM_JOBS",
    page="training",
    body="jobSpec",
    spec_format="tui.domain.profile.vertex_formats:CUSTOM_JOB_SPEC",
)
