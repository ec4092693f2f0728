"""google.logging.v2.LoggingServiceV2 over the log store.

The service's quota of 60 reads a minute (docs/facts/vertex.md 5.3) is not enforced; its limit of ten open
tails is.
"""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator

from google.api import label_pb2, monitored_resource_pb2
from google.cloud.logging_v2.types import logging as logging_types
from google.protobuf import empty_pb2

from tui.emulator.database import StorageFull
from tui.emulator.interfaces import JobCatalog
from tui.emulator.logging.query.entries import EntryQuery, owners
from tui.emulator.logging.store import EntryStore
from tui.emulator.logging.tail import TailSessions
from tui.emulator.logging.write import log_owner, write_entries
from tui.emulator.messages import Pb
from tui.emulator.rpc.methods import Method, not_found
from tui.emulator.rpc.page_token import read_token, write_token
from tui.emulator.rpc.paging import query_digest

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
    """The RPC handlers of the logging service."""

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
        """Names of logs with entries, in order; invalid page sizes are ignored, as documented."""
        parents = [*([request.parent] if request.parent else []), *request.resource_names]
        projects = set(owners("parent", parents))
        digest = query_digest("logs", *sorted(projects))
        key = read_token(request.page_token, digest, (str,))
        names = await self._store.read(self._log_names, projects, str(key[0]) if key else "")
        size = request.page_size if 0 < request.page_size <= MAX_LOGS else MAX_LOGS
        token = write_token([names[size - 1]], digest) if len(names) > size else ""
        return LogsResponse(log_names=names[:size], next_page_token=token)

    def _log_names(self, projects: set[str], after: str) -> list[str]:
        by_name: dict[str, bool] = {}
        for source in self._store.sources():
            name = source.log_name
            if source.project in projects and name > after and not by_name.get(name):
                by_name[name] = self._store.has_entries(source)
        return sorted(name for name, there in by_name.items() if there)

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
        """The only resource type of training jobs."""
        descriptor = monitored_resource_pb2.MonitoredResourceDescriptor(
            type="ml_job",
            display_name="Cloud ML Job",
            description="A training job.",
            labels=[label_pb2.LabelDescriptor(key=k, description=d) for k, d in _LABELS.items()],
        )
        return DescriptorsResponse(resource_descriptors=[descriptor])


def methods(store: EntryStore, catalog: JobCatalog) -> list[Method]:
    """Every RPC of the service. Entries outlive their jobs, so the catalog is not used."""
    service = LoggingService(store)
    types = logging_types
    return [
        Method(
            SERVICE, "WriteLogEntries",
            types.WriteLogEntriesRequest.pb(), WriteResponse, service.write_log_entries,
        ),
        Method(
            SERVICE, "ListLogEntries",
            types.ListLogEntriesRequest.pb(), ListResponse, service.list_log_entries,
        ),
        Method(
            SERVICE, "TailLogEntries",
            types.TailLogEntriesRequest.pb(), types.TailLogEntriesResponse.pb(),
            bidi=service.tail_log_entries,
        ),
        Method(SERVICE, "ListLogs", types.ListLogsRequest.pb(), LogsResponse, service.list_logs),
        Method(SERVICE, "DeleteLog", types.DeleteLogRequest.pb(), empty_pb2.Empty, service.delete_log),
        Method(
            SERVICE, "ListMonitoredResourceDescriptors",
            types.ListMonitoredResourceDescriptorsRequest.pb(), DescriptorsResponse,
            service.list_monitored_resource_descriptors,
        ),
    ]  # fmt: skip
