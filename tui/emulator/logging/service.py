"""google.logging.v2.LoggingServiceV2 over the log store.

The quota of 60 reads a minute (docs/facts/vertex.md 5.3) is not enforced; the limit of ten open tails is.
"""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator

from google.api import label_pb2, monitored_resource_pb2
from google.cloud.logging_v2.types import logging as logging_types
from google.protobuf import empty_pb2

from tui.emulator.database import StorageFull
from tui.emulator.logging.query.entries import EntryQuery, owners
from tui.emulator.logging.store import EntryStore
from tui.emulator.logging.tail import TailSessions
from tui.emulator.logging.write import log_owner, write_entries
from tui.emulator.messages import Pb
from tui.emulator.rpc.methods import Method, methods_of, not_found
from tui.emulator.rpc.paging import page_of_names, query_digest

SERVICE = "google.logging.v2.LoggingServiceV2"
MAX_LOGS = 1000

ListResponse = logging_types.ListLogEntriesResponse.pb()
LogsResponse = logging_types.ListLogsResponse.pb()
WriteResponse = logging_types.WriteLogEntriesResponse.pb()
DescriptorsResponse = logging_types.ListMonitoredResourceDescriptorsResponse.pb()

_LABELS = {
    "project_id": "The project that runs the job.",
    "job_id": "Number of the job, the last part of its name.",
    "task_name": "The replica, such as workerpool0-0, or service for the platform.",
}


class LoggingService:
    """RPC handlers of the logging service."""

    def __init__(self, store: EntryStore) -> None:
        self._store = store
        self._tails = TailSessions(store)

    async def write_log_entries(self, request: Pb) -> Pb:
        try:
            await self._store.write(write_entries, self._store, request)
        except sqlite3.Error as error:
            raise StorageFull(self._store.path, error) from error
        return WriteResponse()

    async def list_log_entries(self, request: Pb) -> Pb:
        listing = EntryQuery.of(
            request.resource_names, request.filter, request.order_by, request.page_size, request.page_token
        )
        return await self._store.read(self._page, listing)

    def _page(self, listing: EntryQuery) -> Pb:
        records, token = listing.read(self._store)
        response = ListResponse(next_page_token=token)
        for record in records:
            record.fill(response.entries.add())
        return response

    async def tail_log_entries(self, requests: AsyncIterator[Pb]) -> AsyncIterator[Pb]:
        async for response in self._tails.serve(requests):
            yield response

    async def list_logs(self, request: Pb) -> Pb:
        """Return the names of logs with entries, in order; invalid page sizes are ignored, as documented."""
        parents = [*([request.parent] if request.parent else []), *request.resource_names]
        projects = set(owners("parent", parents))
        digest = query_digest("logs", *sorted(projects))
        names = await self._store.read(self._log_names, projects)
        size = request.page_size if 0 < request.page_size <= MAX_LOGS else MAX_LOGS
        page, token = page_of_names(names, request.page_token, size, digest)
        return LogsResponse(log_names=page, next_page_token=token)

    def _log_names(self, projects: set[str]) -> list[str]:
        names: set[str] = set()
        for source in self._store.sources():
            name = source.log_name
            if source.project in projects and name not in names and self._store.has_entries(source):
                names.add(name)
        return sorted(names)

    async def delete_log(self, request: Pb) -> Pb:
        project = log_owner("log_name", request.log_name)
        try:
            deleted = await self._store.write(self._store.delete_log, project, request.log_name)
        except sqlite3.Error as error:
            raise StorageFull(self._store.path, error) from error
        if not deleted:
            raise not_found("log", request.log_name)
        return empty_pb2.Empty()

    async def list_monitored_resource_descriptors(self, request: Pb) -> Pb:
        """Return the only resource type of training jobs."""
        descriptor = monitored_resource_pb2.MonitoredResourceDescriptor(
            type="ml_job",
            display_name="Cloud ML Job",
            description="A training job.",
            labels=[label_pb2.LabelDescriptor(key=k, description=d) for k, d in _LABELS.items()],
        )
        return DescriptorsResponse(resource_descriptors=[descriptor])


def methods(store: EntryStore) -> list[Method]:
    """Return the RPCs of this service."""
    service = LoggingService(store)
    types = logging_types
    tail = types.TailLogEntriesRequest.pb(), types.TailLogEntriesResponse.pb()
    return [
        Method(SERVICE, "TailLogEntries", *tail, bidi=service.tail_log_entries),
        *methods_of(
            SERVICE,
            types,
            ("WriteLogEntries", service.write_log_entries),
            ("ListLogEntries", service.list_log_entries),
            ("ListLogs", service.list_logs),
            ("DeleteLog", service.delete_log, empty_pb2.Empty),
            ("ListMonitoredResourceDescriptors", service.list_monitored_resource_descriptors),
        ),
    ]
