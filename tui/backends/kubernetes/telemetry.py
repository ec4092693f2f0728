"""Machine telemetry that trainers report, read from the ends of their pods' logs."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from time import monotonic

from tui.backends.errors import BackendError, InvalidRequest, NotFound
from tui.backends.interface import TelemetryService
from tui.backends.kubernetes.job_pods import JobPods
from tui.backends.kubernetes.logs.lines.entries import ContainerName, entries_of
from tui.backends.kubernetes.logs.newest import NewestReader
from tui.domain.core.job import Job
from tui.domain.log.judge import SeverityJudge
from tui.domain.training.telemetry import TelemetryLine, telemetry_line

MOST_PODS_LOCAL, MOST_PODS = 256, 128
"""Maximum number of logs of one read, on this machine and in a remote cluster. The next read continues with
the others."""
LINES = 300
"""Number of newest lines read of a pod."""


class KubernetesTelemetry(TelemetryService):
    """Reads one cluster's logs for telemetry."""

    def __init__(self, pods: JobPods, newest: NewestReader, *, local: bool) -> None:
        self._pods = pods
        self._newest = newest
        self._most = MOST_PODS_LOCAL if local else MOST_PODS
        self._read_at: dict[str, float] = {}
        """Time of the last read by the pod's uid."""

    async def read(self, jobs: Sequence[Job], since: datetime) -> Sequence[TelemetryLine]:
        containers = await asyncio.gather(*(self._containers(job) for job in jobs))
        all_pods = [(job, name) for job, names in zip(jobs, containers, strict=True) for name in names]
        known = {name.uid for _, name in all_pods}
        self._read_at = {uid: at for uid, at in self._read_at.items() if uid in known}
        all_pods.sort(key=lambda job_and_name: self._read_at.get(job_and_name[1].uid, 0.0))
        due = all_pods[: self._most]
        answers = await asyncio.gather(*(self._lines(job, name, since) for job, name in due))
        errors = [lines for lines in answers if isinstance(lines, BackendError)]
        if errors and len(errors) == len(answers):
            raise errors[0]
        telemetry = [line for lines in answers if not isinstance(lines, BackendError) for line in lines]
        return sorted(telemetry, key=lambda line: line.timestamp, reverse=True)

    async def _containers(self, job: Job) -> tuple[ContainerName, ...]:
        try:
            pods = await self._pods.recent_pods(job)
        except NotFound:
            return ()
        return tuple(pod.container(pod.main) for pod, _ in pods if pod.containers[pod.main].running)

    async def _lines(
        self, job: Job, name: ContainerName, since: datetime
    ) -> list[TelemetryLine] | BackendError:
        self._read_at[name.uid] = monotonic()
        try:
            lines = await self._newest.last(name, LINES, since=int(since.timestamp()))
        except (NotFound, InvalidRequest):
            # The pod is deleted, or restarts.
            return []
        except BackendError as error:
            return error
        # Parsing is slow: skip unmarked lines first.
        judge = SeverityJudge()
        marked = (line for line in lines if b'"vxtui"' in line.text)
        entries = (entry for line in marked for entry in entries_of(name, line.stamp, 0, line.text, judge))
        parsed = (telemetry_line(replace(entry, job_id=job.name)) for entry in entries)
        return [line for line in parsed if line is not None]
