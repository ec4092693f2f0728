"""Plain protobuf of Cloud Logging into log entries.

A structured payload becomes a `dict` once, here. The log store keeps its JSON text, which is parsed only for
the lines that are shown.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

from google.protobuf import struct_pb2

from tui.backends.vertex.timestamps import EPOCH, moment, time_of
from tui.domain.core.log_entry import LogEntry, Severity

_SEVERITIES = {severity.value: severity for severity in Severity}
_EXACT = 2**53
MOST_LATE = 60
"""Seconds above which an entry did not come late: its replica's clock is wrong."""


def entry(pb: Any) -> LogEntry:
    """A LogEntry message as a domain entry.

    `message` is the text payload, the `message` of a structured one, or that one whole as JSON. This runs
    for every line of a log, so that it is written for speed: each access to a message costs a call.
    """
    stamp = pb.timestamp
    seconds, nanos = stamp.seconds, stamp.nanos
    try:
        at = _second(seconds) + timedelta(0, 0, nanos // 1000) if seconds else _unusual_time(pb)
    except (ValueError, OverflowError, OSError):
        at = _unusual_time(pb)
    payload: dict[str, Any] | None = None
    text = pb.text_payload
    if not text:
        kind = pb.WhichOneof("payload")
        if kind == "json_payload":
            payload = plain_struct(pb.json_payload)
            said = payload.get("message")
            text = said if isinstance(said, str) else json.dumps(payload, ensure_ascii=False)
        elif kind == "proto_payload":
            text = f"({pb.proto_payload.type_url.rsplit('/', 1)[-1]})"
    labels = pb.resource.labels
    replica, number = labels.get("task_name", ""), labels.get("job_id", "")
    severity = _SEVERITIES.get(pb.severity, Severity.DEFAULT)
    return LogEntry(at, pb.insert_id, replica, severity, text, payload, number, nanos % 1000)


@dataclass(frozen=True, slots=True)
class Receipt:
    """What a message's entries say of their receipt by the service."""

    newest: datetime | None = None
    """`None` where the service does not say it."""
    whole_until: datetime | None = None
    """A stream that sorts has nothing left to say of what was received before, whatever waits in it."""
    late: int = 0
    """Whole seconds between an entry's own time and its receipt, the most up to `MOST_LATE`."""


def receipt(pbs: Iterable[Any]) -> Receipt:
    """See `Receipt`."""
    newest, newest_own, late = (0, 0), (0, 0), 0
    for pb in pbs:
        at, own = pb.receive_timestamp, pb.timestamp
        seconds, own_seconds = at.seconds, own.seconds
        newest = max(newest, (seconds, at.nanos))
        newest_own = max(newest_own, (own_seconds, own.nanos))
        if late < seconds - own_seconds <= MOST_LATE:
            late = seconds - own_seconds
    if newest == (0, 0):
        return Receipt()
    # Late entries come first where many wait, for they are older: their receipt says nothing of the rest.
    return Receipt(time_of(*newest), time_of(*min(newest, newest_own)), late)


def _unusual_time(pb: Any) -> datetime:
    return moment(pb, "timestamp") or moment(pb, "receive_timestamp") or EPOCH


@lru_cache(maxsize=64)
def _second(seconds: int) -> datetime:
    # Lines come by the thousand a second: most share theirs with the line before.
    return datetime.fromtimestamp(seconds, UTC)


def plain_struct(struct: struct_pb2.Struct) -> dict[str, Any]:
    """A Struct as Python values. Whole numbers become `int` again: on the wire all are doubles."""
    fields, found = struct.fields, dict[str, Any]()
    # Not by items(), and numbers and texts without a call: this is most of the time that a JSON line takes.
    for name in fields:
        value = fields[name]
        kind = value.WhichOneof("kind")
        if kind == "number_value":
            found[name] = _plain_number(value.number_value)
        elif kind == "string_value":
            found[name] = value.string_value
        else:
            found[name] = _plain_value(value)
    return found


def _plain_number(number: float) -> int | float:
    return int(number) if number.is_integer() and abs(number) < _EXACT else number


def _plain_value(value: struct_pb2.Value) -> Any:
    kind = value.WhichOneof("kind")
    if kind == "number_value":
        return _plain_number(value.number_value)
    if kind == "struct_value":
        return plain_struct(value.struct_value)
    if kind == "list_value":
        return [_plain_value(item) for item in value.list_value.values]
    if kind in {None, "null_value"}:
        return None
    return getattr(value, kind)
