"""Time series of the pods of a job.

GPUs are read from the trainer's own lines first: they are the newest and the finest. CPU and memory come from
the cluster's metrics API, which has one sample of now and no history: samples are taken while the job is
watched. Where the context names a project, Cloud Monitoring has the rest; where it names none, exporters on
the nodes say how busy the accelerators of a trainer are whose lines don't.
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
"""How far back the trainer's lines are searched for GPUs at first."""


class KubernetesMetrics(MetricService):
    """Figures of one cluster's jobs; `cloud` is `None` where the context names no project."""

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
        asked = tuple(dict.fromkeys(metrics or TRAINING_METRICS))
        job = job or await self._pods.job(name)
        now = datetime.now(UTC)
        problems: dict[str, str] = {}
        works = not job.state.terminal and job.start_time is not None
        reads = []
        if works and {CPU, MEMORY} & {*asked}:
            reads.append(self._read_usage(job, problems))
        if works and job.accelerators and {GPU, GPU_MEMORY} & {*asked}:
            reads.append(self._read_trainer(job, since, now))
        await asyncio.gather(*reads)
        found = self._samples.series(job, asked, since)
        if works and job.accelerators and await self._read_nodes(job, found, asked, problems):
            found = self._samples.series(job, asked, since)
        found = _without_second(found)
        if self._cloud is not None:
            have = {(series.metric, series.replica) for series in found}
            wanted = [metric for metric in asked if not _covers(have, metric, job)]
            more, problem = await self._from_cloud(self._cloud, job, wanted, since)
            found += [series for series in more if (series.metric, series.replica) not in have]
            if problem:
                problems.update((metric, problem) for metric in wanted if metric not in problems)
        measured = {series.metric for series in found}
        missing = [
            NotMeasured(metric, self._reason(job, metric, problems))
            for metric in asked
            if metric not in measured
        ]
        return MetricsReading(tuple(found), tuple(missing), now)

    async def _read_usage(self, job: Job, problems: dict[str, str]) -> None:
        """Take a sample of CPU and memory now."""
        try:
            pods = await self._pods.recent_pods(job)
            samples, problem = await self._usage.read(self._pods.selector(job.name), pods)
        except BackendError as error:
            problem, samples = error.message, []
        if problem:
            problems[CPU] = problems[MEMORY] = problem
        self._samples.add(job, samples)

    async def _read_trainer(self, job: Job, since: datetime | None, now: datetime) -> None:
        """Take what the trainer's lines say of its GPUs."""
        begin = since or max(job.start_time or now, now - FIRST_LOOK)
        try:
            lines = await self._telemetry.read([job], begin)
        except BackendError:
            # The log says so itself; there may be other measurements.
            return
        self._samples.add_lines(job, lines)

    async def _read_nodes(
        self, job: Job, found: Iterable[Series], asked: Iterable[str], problems: dict[str, str]
    ) -> bool:
        """Sample what exporters on the nodes have of accelerators that the trainer says nothing of."""
        told = {(series.metric, series.replica) for series in found if not series.source}
        wanted = [
            metric for metric in (GPU, GPU_MEMORY) if metric in asked and not _covers(told, metric, job)
        ]
        if not wanted or self._nodes is None or self._cloud is not None:
            return False
        try:
            pods = await self._pods.recent_pods(job)
            samples, problem = await self._nodes.read(pod for pod, _ in pods)
        except BackendError as error:
            problem, samples = error.message, []
        if problem:
            problems.update((metric, problem) for metric in wanted)
        self._samples.add(job, samples)
        return bool(samples)

    async def _from_cloud(
        self, cloud: CloudMetrics, job: Job, wanted: Iterable[str], since: datetime | None
    ) -> tuple[list[Series], str]:
        """What Cloud Monitoring has, or why it has nothing."""
        try:
            return await cloud.read(job, self._pods.place(job.name), wanted, since), ""
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
            return "the cluster keeps no history: samples are taken while the job is watched"
        if self._cloud is not None:
            return "no samples; Cloud Monitoring shows them up to 4 min late"
        if metric in {NET_IN, NET_OUT}:
            return "the metrics API of a cluster has none; a context with a `project` reads Cloud Monitoring"
        if metric in {GPU, GPU_MEMORY}:
            return "neither the trainer's log nor its nodes say it; with a `project` Cloud Monitoring is read"
        return "no samples yet"


def _without_second(found: Iterable[Series]) -> list[Series]:
    """The series without those of nodes where the trainer tells the same of a replica."""
    series = list(found)
    told = {(each.metric, each.replica) for each in series if not each.source}
    return [each for each in series if not each.source or (each.metric, each.replica) not in told]


def _covers(have: set[tuple[str, str]], metric: str, job: Job) -> bool:
    """Whether every replica of the job has a series of the metric."""
    replicas = {replica.id for replica in job.replicas}
    return bool(replicas) and all((metric, replica) in have for replica in replicas)
