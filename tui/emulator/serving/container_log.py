"""Output of a model server as log entries of its endpoint.

The log's name, the resource type `aiplatform.googleapis.com/Endpoint` and the label `deployed_model_id`
follow the documentation 'Online prediction logging'. stdout is INFO and stderr ERROR, as for replicas.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import sqlite3
from collections.abc import Sequence

from tui.domain.core.log_entry import Severity
from tui.domain.log.json_line import DEFAULT_SEVERITY, MAX_ENTRY, NotAnObject, parse_json_line, pieces
from tui.emulator.logging.record import MESSAGE, EntryRow, LogEntryPb, fill_struct
from tui.emulator.logging.store import EntryStore

log = logging.getLogger(__name__)

RESOURCE = "aiplatform.googleapis.com/Endpoint"
LOG_ID = "aiplatform.googleapis.com%2Fprediction_container"
CHUNK = 65536
_numbers = itertools.count()


def resource_labels(endpoint: str) -> dict[str, str]:
    """Return the labels of the monitored resource of an endpoint, by the endpoint's full name."""
    _, project, _, location, _, endpoint_id = endpoint.split("/")
    return {"resource_container": project, "location": location, "endpoint_id": endpoint_id}


class ContainerLog:
    """Writes the log of one deployed model. `quiet` drops the container's output."""

    def __init__(self, store: EntryStore, endpoint: str, deployed_id: str, *, quiet: bool = False) -> None:
        self._store, self._quiet = store, quiet
        self._project = endpoint.split("/")[1]
        self._labels = resource_labels(endpoint)
        self._entry_labels = {"deployed_model_id": deployed_id, "replica_id": f"{deployed_id}-0"}
        self.last_error = ""
        """Last line on stderr."""

    async def message(self, text: str, severity: Severity = Severity.INFO) -> None:
        """Write a line of the platform."""
        await self._add([(text.encode(), int(severity))])

    async def copy(self, stream: asyncio.StreamReader, name: str) -> None:
        """Write the lines of `stdout` or `stderr` until the stream ends."""
        rest = b""
        while data := await stream.read(CHUNK):
            *lines, rest = (rest + data).split(b"\n")
            if len(rest) > MAX_ENTRY:
                lines, rest = [*lines, rest], b""
            await self._output(lines, name)
        await self._output([rest] if rest else [], name)

    async def _output(self, lines: Sequence[bytes], name: str) -> None:
        written = [line for line in lines if line.strip()]
        if written and name == "stderr":
            self.last_error = written[-1].decode("utf-8", "replace")
        if written and not self._quiet:
            await self._add([(part, DEFAULT_SEVERITY[name]) for line in written for part in pieces(line)])

    async def _add(self, lines: Sequence[tuple[bytes, int]]) -> None:
        def write() -> None:
            name = f"projects/{self._project}/logs/{LOG_ID}"
            source = self._store.source(self._project, name, RESOURCE, self._labels).id
            now = self._store.receipts.time_ns()
            # A microsecond between two lines preserves their order.
            rows = [self._row(source, now + at * 1000, now, *line) for at, line in enumerate(lines)]
            self._store.add(rows)

        try:
            await self._store.write(write)
        except sqlite3.Error as error:
            log.warning("output of a model server could not be stored: %s", error)

    def _row(self, source: int, at: int, now: int, line: bytes, severity: int) -> EntryRow:
        entry = LogEntryPb(labels=self._entry_labels)
        text = line.decode("utf-8", "replace")
        try:
            parsed = parse_json_line(text) if text.startswith("{") else None
        except NotAnObject:
            parsed = None
        if parsed is None:
            entry.text_payload = text
        else:
            fill_struct(entry.json_payload, parsed.payload)
            severity = severity if parsed.severity is None else parsed.severity
            at = parsed.timestamp or at
        insert_id = f"{now:016x}{next(_numbers):08x}"
        return (source, at, insert_id, severity, MESSAGE, entry.SerializeToString(), now)
