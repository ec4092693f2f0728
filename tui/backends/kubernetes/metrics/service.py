"""Time series of a job's pods.

GPU metrics come first from the trainer's own lines, which are the newest and most frequent. CPU and memory
come from the cluster's metrics API, which stores no history: samples are taken while the job is watched. If
the context names a project, Cloud Monitoring supplies the other metrics; otherwise exporters on the nodes
report the accelerators that the trainer does not report.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from tui.backends.errors import BackendError
from tui.backends.interface import MetricService
from tui.backends.kubernetes.job_pods import JobPods
from tui.backends.kubernetes.metrics.node_accelerators import NodeAccelerators
from tui.backends.kubernetes.metrics.pod_usage import PodUsage
from tui.backends.kubernetes.metrics.samples import SampleStore
from tui.backends.kubernetes.telemetry import KubernetesTelemetry
from tui.domain.core.job import Job
from tui.domain.core.metric import (
    CPU,
    GPU,
    GPU_MEMORY,
    MEMORY,
    NET_IN,
    NET_OUT,
    TRAINING_METRICS,
    MetricsReading,
    NotMeasured,
    Series,
)

if TYPE_CHECKING:
    from tui.backends.kubernetes.metrics.cloud import CloudMetrics

FIRST_LOOK = timedelta(minutes=10)
"""Period in which the first read searches the trainer's lines for GPU metrics."""


class KubernetesMetrics(MetricService):
    """Metrics of one cluster's jobs; `cloud` is `None` if the context names no project."""

    def __init__(
        self,
        pods: JobPods,
        usage: PodUsage,
        telemetry: KubernetesTelemetry,
        cloud: CloudMetrics | None = None,
        nodes: NodeAccelerators | None = None,
    ) -> None:
        self._pods = pods
        self._usage = usage
        self._telemetry = telemetry
        self._cloud = cloud
        self._nodes = nodes
        self._samples = SampleStore()

    async def aclose(self) -> None:
        """Close the channels to Google."""
        if self._cloud is not None:
            await self._cloud.aclose()

    async def read(
        self,
        name: str,
        *,
        since: datetime | None = None,
        metrics: Sequence[str] = (),
        job: Job | None = None,
    ) -> MetricsReading:
        names = tuple(dict.fromkeys(metrics or TRAINING_METRICS))
        job = job or await self._pods.job(name)
        now = datetime.now(UTC)
        problems: dict[str, str] = {}
        running = not job.state.terminal and job.start_time is not None
        reads = []
        if running and {CPU, MEMORY} & {*names}:
            reads.append(self._read_usage(job, problems))
        if running and job.accelerators and {GPU, GPU_MEMORY} & {*names}:
            reads.append(self._read_trainer(job, since, now))
        await asyncio.gather(*reads)
        series = self._samples.series(job, names, since)
        if running and job.accelerators and await self._read_nodes(job, series, names, problems):
            series = self._samples.series(job, names, since)
        series = _without_second(series)
        if self._cloud is not None:
            have = {(series.metric, series.replica) for series in series}
            missing_metrics = [metric for metric in names if not _covers(have, metric, job)]
            more, problem = await self._from_cloud(self._cloud, job, missing_metrics, since)
            series += [series for series in more if (series.metric, series.replica) not in have]
            if problem:
                problems.update((metric, problem) for metric in missing_metrics if metric not in problems)
        measured = {series.metric for series in series}
        missing = [
            NotMeasured(metric, self._reason(job, metric, problems))
            for metric in names
            if metric not in measured
        ]
        return MetricsReading(tuple(series), tuple(missing), now)

    async def _read_usage(self, job: Job, problems: dict[str, str]) -> None:
        try:
            pods = await self._pods.recent_pods(job)
            samples, problem = await self._usage.read(self._pods.selector(job.name), pods)
        except BackendError as error:
            problem, samples = error.message, []
        if problem:
            problems[CPU] = problems[MEMORY] = problem
        self._samples.add(job, samples)

    async def _read_trainer(self, job: Job, since: datetime | None, now: datetime) -> None:
        begin = since or max(job.start_time or now, now - FIRST_LOOK)
        try:
            lines = await self._telemetry.read([job], begin)
        except BackendError:
            # The log view reports the error; other sources may have measurements.
            return
        self._samples.add_lines(job, lines)

    async def _read_nodes(
        self, job: Job, series: Iterable[Series], names: Iterable[str], problems: dict[str, str]
    ) -> bool:
        """Sample the accelerators that the trainer does not report, from exporters on the nodes."""
        reported = {(series.metric, series.replica) for series in series if not series.source}
        missing = [
            metric for metric in (GPU, GPU_MEMORY) if metric in names and not _covers(reported, metric, job)
        ]
        if not missing or self._nodes is None or self._cloud is not None:
            return False
        try:
            pods = await self._pods.recent_pods(job)
            samples, problem = await self._nodes.read(pod for pod, _ in pods)
        except BackendError as error:
            problem, samples = error.message, []
        if problem:
            problems.update((metric, problem) for metric in missing)
        self._samples.add(job, samples)
        return bool(samples)

    async def _from_cloud(
        self, cloud: CloudMetrics, job: Job, metrics: Iterable[str], since: datetime | None
    ) -> tuple[list[Series], str]:
        """Return the series of Cloud Monitoring, or the reason if there are none."""
        try:
            return await cloud.read(job, self._pods.place(job.name), metrics, since), ""
        except BackendError as error:
            return [], error.message

    def _reason(self, job: Job, metric: str, problems: Mapping[str, str]) -> str:
        if metric in {GPU, GPU_MEMORY} and not job.accelerators:
            return "no accelerator in this job"
        if job.start_time is None:
            return "the job has not run yet"
        if metric in problems:
            return problems[metric]
        if job.state.terminal and metric in {CPU, MEMORY}:
            return "the cluster stores no history: samples are taken while the job is watched"
        if self._cloud is not None:
            return "no samples; Cloud Monitoring shows them up to 4 min late"
        if metric in {NET_IN, NET_OUT}:
            return "the metrics API lacks this metric; a context with a `project` reads Cloud Monitoring"
        if metric in {GPU, GPU_MEMORY}:
            return (
                "neither the trainer nor the nodes report this metric; a context with a `project` "
                "reads Cloud Monitoring"
            )
        return "no samples yet"


def _without_second(all_series: Iterable[Series]) -> list[Series]:
    """Drop the series of a node if the trainer reports the same metric of the replica."""
    series = list(all_series)
    reported = {(line.metric, line.replica) for line in series if not line.source}
    return [line for line in series if not line.source or (line.metric, line.replica) not in reported]


def _covers(have: set[tuple[str, str]], metric: str, job: Job) -> bool:
    """Return whether every replica of the job has a series of the metric."""
    replicas = {replica.id for replica in job.replicas}
    return bool(replicas) and all((metric, replica) in have for replica in replicas)
