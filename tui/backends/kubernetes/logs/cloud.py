"""Reads logs of deleted pods from Cloud Logging, to which GKE sends them (`k8s_container`).

The module imports Google's clients, so callers import it late.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from datetime import datetime, timedelta

from tui.backends.interface import ContextInfo
from tui.backends.kubernetes.logs.lines.entries import CloudEntry
from tui.backends.vertex.logs import convert
from tui.backends.vertex.logs.filters import quote, stamp
from tui.backends.vertex.logs.reader import LogReader
from tui.backends.vertex.transport.channels import Clients
from tui.backends.vertex.transport.connect import CloudEndpoint, Endpoint
from tui.domain.core.job import Job

MARGIN = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class CloudPlace:
    """The Google Cloud project of a cluster's logs, and the cluster's name and location if known."""

    project: str
    cluster: str = ""
    location: str = ""


class CloudClients:
    """Clients of Google's services, opened on first use."""

    def __init__(self, place: CloudPlace, endpoint: Endpoint | None = None) -> None:
        self.place = place
        self._endpoint = endpoint or CloudEndpoint()
        self._clients: Clients | None = None
        self._opening = asyncio.Lock()

    async def open(self) -> Clients:
        """Return the open clients. Raises BackendError."""
        async with self._opening:
            if self._clients is None:
                await self._endpoint.open()
                self._clients = Clients(self._endpoint)
            return self._clients

    async def aclose(self) -> None:
        """Close the channels."""
        clients, self._clients = self._clients, None
        if clients is not None:
            await clients.close()


class CloudLog(CloudClients):
    """Reads the container logs of one project."""

    async def read(
        self, namespace: str, pods: str, since: datetime, until: datetime | None = None
    ) -> AsyncGenerator[list[CloudEntry], None]:
        """Yield the entries of pods with matching names, in pages, oldest first. Raises BackendError."""
        place = self.place
        reader = LogReader(ContextInfo("", place.project, ()), await self.open(), _no_job)
        labels = {"namespace_name": namespace, "cluster_name": place.cluster, "location": place.location}
        parts = ['resource.type="k8s_container"']
        parts += [f"resource.labels.{name}={quote(value)}" for name, value in labels.items() if value]
        parts += [f"resource.labels.pod_name=~{quote(pods)}", f"timestamp>={quote(stamp(since - MARGIN))}"]
        if until is not None:
            parts.append(f"timestamp<={quote(stamp(until))}")
        token = ""
        while True:
            reply = await reader.page(" AND ".join(parts), ("",), token=token)
            entries = []
            for pb, entry in zip(reply.entries, convert.entries(reply.entries), strict=True):
                resource_labels = pb.resource.labels
                pod, container = (
                    resource_labels.get("pod_name", ""),
                    resource_labels.get("container_name", ""),
                )
                entries.append(CloudEntry(pod, container, entry))
            if entries:
                yield entries
            token = reply.next_page_token
            if not token:
                return


async def _no_job(name: str) -> Job:
    raise AssertionError(f"the job {name} is not needed")
