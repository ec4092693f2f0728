"""The log service of one context: stored entries and tails."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from tui.backends.interface import LogBatch, LogQuery, LogService
from tui.backends.vertex.logs.reader import Get, LogReader
from tui.backends.vertex.logs.tail import LogTail
from tui.backends.vertex.logs.with_tasks import TasksLog
from tui.backends.vertex.transport.channels import Clients
from tui.domain.core.resource_name import log_project


class Logs(LogService):
    """Reads and follows logs of one context's project."""

    def __init__(self, clients: Clients, project: str, get: Get, reader: LogReader) -> None:
        self._clients = clients
        self._project = project
        self._get = get
        self._reader = reader

    def read(
        self, query: LogQuery, *, newest_first: bool = False, limit: int | None = None
    ) -> AsyncGenerator[LogBatch, None]:
        if query.tasks:
            return self._with_tasks(query).read(newest_first=newest_first, limit=limit)
        return self._reader.read(query, newest_first=newest_first, limit=limit)

    def tail(self, query: LogQuery) -> AsyncGenerator[LogBatch, None]:
        return self._with_tasks(query).follow() if query.tasks else self._tail(query).follow()

    def _tail(self, query: LogQuery) -> LogTail:
        project = log_project(query.job_name, self._project)
        return LogTail(self._clients, project, self._get, self._reader, query)

    def _with_tasks(self, query: LogQuery) -> TasksLog:
        look = self._clients.endpoint.pace.state_poll
        return TasksLog(query, self._get, self._reader, self._tail, look)
