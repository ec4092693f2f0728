"""A stored log entry: a row of the database, and its LogEntry message.

Lines of replicas are stored as text, and the message is built on demand. Entries written by a client are
stored as messages.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from google.cloud.logging_v2.types import log_entry as log_entry_types
from google.protobuf import json_format, struct_pb2
from google.protobuf.timestamp_pb2 import Timestamp

from tui.domain.log.json_line import parse_json_line
from tui.emulator.messages import Pb

LogEntryPb = log_entry_types.LogEntry.pb()
TEXT, JSON, MESSAGE = 0, 1, 2
"""Kinds of payload: a line, a line that is a JSON object, a serialized LogEntry."""

EntryRow = tuple[int, int, str, int, int, str | bytes, int]
"""Source id, timestamp (ns), insert_id, severity, kind, payload, receive time (ns)."""


class ReceiptClock:
    """A monotonic clock for receive times, so that readers can request entries newer than their last entry.

    If the time of day is set back, the clock stands still until the time has passed its last value. The
    method is thread-safe.
    """

    def __init__(self, database: Path) -> None:
        """Start no earlier than the last change of the database by a previous server."""
        self._lock = threading.Lock()
        self._latest = 0
        for path in (database, database.with_name(f"{database.name}-wal")):
            with contextlib.suppress(OSError):
                self._latest = max(self._latest, path.stat().st_mtime_ns)

    def time_ns(self) -> int:
        """Return the nanoseconds since the epoch."""
        with self._lock:
            self._latest = max(self._latest, time.time_ns())
            return self._latest


@dataclass(frozen=True)
class LogSource:
    """One log of one resource: the fields that its entries share."""

    id: int
    project: str
    log_name: str
    resource_type: str
    resource_labels: Mapping[str, str]

    @cached_property
    def log_id(self) -> str:
        """Last part of the log's name, decoded."""
        return unquote(self.log_name.partition("/logs/")[2])

    @cached_property
    def head(self) -> bytes:
        """A serialized LogEntry with the log's name and the resource."""
        entry = LogEntryPb(log_name=self.log_name)
        entry.resource.type = self.resource_type
        entry.resource.labels.update(self.resource_labels)
        return bytes(entry.SerializeToString())


class StoredEntry:
    """One stored entry. Expensive properties are computed on demand."""

    __slots__ = ("_extra", "_json", "row", "source")

    def __init__(self, source: LogSource, row: EntryRow) -> None:
        self.source = source
        self.row = row
        self._json: dict[str, Any] | None = None
        self._extra: dict[str, Any] | None = None

    @property
    def key(self) -> tuple[int, str, int]:
        """The sort key of a list: timestamp, insert_id, source."""
        return (self.row[1], self.row[2], self.row[0])

    @property
    def timestamp(self) -> int:
        """Nanoseconds since the epoch."""
        return self.row[1]

    @property
    def text(self) -> str:
        """The textPayload, or "" if there is none."""
        payload = self.row[5]
        if self.row[4] == TEXT and isinstance(payload, str):
            return payload
        return str(self.extra.get("textPayload", "")) if self.row[4] == MESSAGE else ""

    @property
    def json(self) -> dict[str, Any] | None:
        """The jsonPayload, or `None` if there is none."""
        if self._json is None and self.row[4] != TEXT:
            if self.row[4] == JSON:
                self._json = parse_json_line(str(self.row[5])).payload
            else:
                self._json = self.extra.get("jsonPayload")
        return self._json

    @property
    def extra(self) -> dict[str, Any]:
        """The complete entry in REST format if a client wrote it; otherwise empty."""
        if self._extra is None:
            self._extra = {}
            if self.row[4] == MESSAGE:
                entry = LogEntryPb.FromString(self.row[5])
                try:
                    self._extra = json_format.MessageToDict(entry)
                except TypeError:
                    # A protoPayload of an unknown type can be forwarded but not parsed.
                    entry.ClearField("proto_payload")
                    self._extra = json_format.MessageToDict(entry)
        return self._extra

    def message(self) -> Pb:
        """Return the LogEntry message."""
        entry = LogEntryPb()
        self.fill(entry)
        return entry

    def fill(self, entry: Pb) -> None:
        """Fill an empty LogEntry, e.g. an entry that was just added to a response."""
        _, timestamp, insert_id, severity, kind, payload, received = self.row
        if kind == MESSAGE:
            entry.MergeFromString(payload)
            entry.ClearField("resource")
        # Parsing the shared fields is faster than setting them one by one.
        entry.MergeFromString(self.source.head)
        entry.insert_id = insert_id
        entry.severity = severity
        _set_time(entry.timestamp, timestamp)
        _set_time(entry.receive_timestamp, received)
        if kind == TEXT:
            entry.text_payload = payload
        elif kind == JSON:
            fill_struct(entry.json_payload, self.json or {})


def _set_time(field: Timestamp, nanoseconds: int) -> None:
    field.seconds, field.nanos = divmod(nanoseconds, 10**9)


def fill_struct(target: struct_pb2.Struct, values: Mapping[str, Any]) -> None:
    """Copy a JSON object to an empty Struct; much faster than `json_format.ParseDict`."""
    # Otherwise an empty object would leave the field unset.
    target.SetInParent()
    fields = target.fields
    for name, value in values.items():
        _fill_value(fields[name], value)


def _fill_value(target: struct_pb2.Value, value: Any) -> None:
    if isinstance(value, str):
        target.string_value = value
    elif isinstance(value, bool):
        target.bool_value = value
    elif isinstance(value, int | float):
        target.number_value = value
    elif value is None:
        target.null_value = struct_pb2.NULL_VALUE
    elif isinstance(value, dict):
        fill_struct(target.struct_value, value)
    else:
        target.list_value.SetInParent()
        for element in value:
            _fill_value(target.list_value.values.add(), element)
