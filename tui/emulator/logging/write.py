"""WriteLogEntries: complete the entries, refuse invalid entries as the service does, and store the other
entries once."""

from __future__ import annotations

import itertools
import re
from typing import Any

from google.cloud.logging_v2.types import logging as logging_types
from google.rpc import code_pb2

from tui.domain.log.json_line import DAY, MAX_ENTRY
from tui.emulator.logging.query.entries import owner
from tui.emulator.logging.record import MESSAGE, TEXT, EntryRow
from tui.emulator.logging.store import EntryStore
from tui.emulator.messages import Pb, copied
from tui.emulator.rpc.methods import WireError, invalid

RETENTION = 30 * DAY
"""Maximum age of an entry in ns: the retention of the `_Default` bucket (docs/facts/vertex.md 5.1)."""
PartialErrors = logging_types.WriteLogEntriesPartialErrors.pb()

_LOG_NAME = re.compile(
    r"((?:projects|organizations|folders|billingAccounts)/[^/\s]+)/logs/((?:[A-Za-z0-9_.-]|%[0-9A-Fa-f]{2}){1,512})"
)
_OF_ROW = ("log_name", "resource", "insert_id", "timestamp", "receive_timestamp", "severity")
_numbers = itertools.count()


def log_owner(field: str, name: str) -> str:
    """Return the owner of this log. Raises WireError: INVALID_ARGUMENT for a malformed name."""
    match = _LOG_NAME.fullmatch(name)
    if match is None:
        raise invalid(
            (
                field,
                f"{name!r} must be a log's name: projects/PROJECT_ID/logs/LOG_ID, with / as %2F in LOG_ID",
            )
        )
    return owner(match[1])


def write_entries(store: EntryStore, request: Pb) -> None:
    """Store a request's entries (writer's thread).

    Raises WireError: INVALID_ARGUMENT; with `partial_success` the valid entries are stored. sqlite3.Error:
    when nothing could be stored.
    """
    now = store.receipts.time_ns()
    rows: list[EntryRow] = []
    errors: dict[int, WireError] = {}
    for index, entry in enumerate(request.entries):
        try:
            rows.append(_row(store, request, entry, f"entries[{index}]", now))
        except WireError as error:
            errors[index] = error
    if errors and not request.partial_success:
        raise next(iter(errors.values()))
    if not request.dry_run:
        store.add(rows)
    if errors:
        first = next(iter(errors.values()))
        details: list[Any] = list(first.details)
        if rows:
            details.append(PartialErrors(log_entry_errors={i: e.status() for i, e in errors.items()}))
        raise WireError(code_pb2.INVALID_ARGUMENT, first.message, details)


def _row(store: EntryStore, request: Pb, log_entry: Pb, where: str, now: int) -> EntryRow:
    entry = copied(log_entry)
    name = entry.log_name or request.log_name
    project = log_owner(f"{where}.log_name" if entry.log_name or not name else "log_name", name)
    resource = entry.resource if entry.HasField("resource") else request.resource
    if not resource.type:
        raise invalid((f"{where}.resource", "the monitored resource must have a type, e.g. global"))
    for key, value in request.labels.items():
        if key not in entry.labels:
            entry.labels[key] = value
    size = entry.ByteSize()
    if size > MAX_ENTRY:
        raise invalid((where, f"the entry has {size} bytes; the limit is {MAX_ENTRY}"))
    timestamp = entry.timestamp.ToNanoseconds() if entry.HasField("timestamp") else now
    if not now - RETENTION <= timestamp <= now + DAY:
        raise invalid(
            (f"{where}.timestamp", "must be at most 30 days in the past and 24 hours in the future")
        )
    # Generated ids sort in the order of the entries, also over several calls.
    insert_id = entry.insert_id or f"{now:016x}{next(_numbers):08x}"
    source = store.source(project, name, resource.type, resource.labels)
    row_of = (source.id, timestamp, insert_id, entry.severity)
    for field in _OF_ROW:
        entry.ClearField(field)
    if [field.name for field, _ in entry.ListFields()] == ["text_payload"]:
        return (*row_of, TEXT, entry.text_payload, now)
    return (*row_of, MESSAGE, entry.SerializeToString(), now)
