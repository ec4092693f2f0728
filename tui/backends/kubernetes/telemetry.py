"""What the trainers of several jobs report of their machines, from the ends of their pods' logs."""

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
from tui.domain.training.telemetry import TelemetryLine, telemetry_line

MOST_PODS_LOCAL, MOST_PODS = 256, 128
"""Logs that one read asks for: on this machine, and of a cluster elsewhere; others come in the next."""
LINES = 300
"""Newest lines of a pod that are looked at."""


class KubernetesTelemetry(TelemetryService):
    """Reads one cluster's logs for what trainers report of their machines."""

    def __init__(self, pods: JobPods, newest: NewestReader, *, local: bool) -> None:
        self._pods = pods
        self._newest = newest
        self._most = MOST_PODS_LOCAL if local else MOST_PODS
        self._read_at: dict[str, float] = {}
        """When a pod was last read, by its uid."""

    async def read(self, jobs: Sequence[Job], since: datetime) -> Sequence[TelemetryLine]:
        found = await asyncio.gather(*(self._containers(job) for job in jobs))
        all_pods = [(job, name) for job, names in zip(jobs, found, strict=True) for name in names]
        known = {name.uid for _, name in all_pods}
        self._read_at = {uid: at for uid, at in self._read_at.items() if uid in known}
        all_pods.sort(key=lambda each: self._read_at.get(each[1].uid, 0.0))
        due = all_pods[: self._most]
        read = await asyncio.gather(*(self._lines(job, name, since) for job, name in due))
        errors = [lines for lines in read if isinstance(lines, BackendError)]
        if errors and len(errors) == len(read):
            raise errors[0]
        told = [line for lines in read if not isinstance(lines, BackendError) for line in lines]
        return sorted(told, key=lambda line: line.timestamp, reverse=True)

    async def _containers(self, job: Job) -> tuple[ContainerName, ...]:
        """The containers of the job that train and run."""
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
            # The pod is gone, or starts anew.
            return []
        except BackendError as error:
            return error
        # Only what may be such a line is parsed.
        marked = (line for line in lines if b'"vxtui"' in line.text)
        entries = (entry for line in marked for entry in entries_of(name, line.stamp, 0, line.text))
        found = (telemetry_line(replace(entry, job_id=job.name)) for entry in entries)
        return [line for line in found if line is not None]
