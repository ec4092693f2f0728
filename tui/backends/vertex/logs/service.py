"""The log service of one context: stored entries and tails."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from tui.backends.interface import LogBatch, LogQuery, LogService
from tui.backends.vertex.logs.reader import Get, LogReader
from tui.backends.vertex.logs.tail import Tail
from tui.backends.vertex.transport.channels import Clients
from tui.domain.resource_name import log_project


class Logs(LogService):
    """Logging of one context's project."""

    def __init__(self, clients: Clients, project: str, get: Get, reader: LogReader) -> None:
        self._clients = clients
        self._project = project
        self._get = get
        self._reader = reader

    def read(
        self, query: LogQuery, *, newest_first: bool = False, limit: int | None = None
    ) -> AsyncGenerator[LogBatch, None]:
        return self._reader.read(query, newest_first=newest_first, limit=limit)

    def tail(self, query: LogQuery) -> AsyncGenerator[LogBatch, None]:
        project = log_project(query.job_name, self._project)
        return Tail(self._clients, project, self._get, self._reader, query).follow()
