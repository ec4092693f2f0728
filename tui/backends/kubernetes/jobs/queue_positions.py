"""The queue position of a waiting job, from Kueue's visibility API, which can't be watched."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tui.backends.errors import BackendError
from tui.backends.kubernetes.cluster import ConnectedCluster
from tui.domain.core.job import Job
from tui.domain.kubernetes.names import JobName
from tui.domain.kubernetes.waiting import is_pending, position_words
from tui.domain.kubernetes.workloads import at

Obj = Mapping[str, Any]
RECENT = 5.0
"""Seconds for which a summary is cached. Without a cache, a screen would request it every second."""


class QueuePositions:
    """Cached summaries of LocalQueues."""

    def __init__(self, cluster: ConnectedCluster) -> None:
        self._cluster = cluster
        self._summaries: dict[str, tuple[float, Obj]] = {}
        """Read time and summary by path. The summary is empty if the API can't be read."""

    async def with_position(self, name: JobName, job: Job, workload: Obj | None) -> Job:
        """Add the number of jobs ahead in the queue to the reasons why the job waits."""
        of, queue = self._cluster.served.positions, str(at(workload or {}, "spec", "queueName") or "")
        if of is None or workload is None or not queue or not job.waiting or not is_pending(workload):
            return job
        summary = await self._summary(of.path(name.namespace, queue, "pendingworkloads"), queue)
        words = position_words(summary, workload)
        return replace(job, waiting=(*job.waiting, words)) if words else job

    async def _summary(self, path: str, queue: str) -> Obj:
        now = asyncio.get_running_loop().time()
        read_at, summary = self._summaries.get(path, (now - RECENT, {}))
        if now - read_at >= RECENT:
            try:
                summary = await self._cluster.connection.request(
                    "GET", path, action=f"list the workloads that wait in the LocalQueue {queue}"
                )
            except BackendError:
                # Show the job without its position.
                summary = {}
            self._summaries[path] = now, summary
        return summary
