"""Converts plain protobuf of Cloud Logging into log entries.

A structured payload is converted to a `dict` once, here. The log store saves the payload's JSON text and
parses it only for visible lines.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

from google.protobuf import struct_pb2

from tui.backends.vertex.timestamps import EPOCH, moment, time_of
from tui.domain.core.log_entry import LogEntry, Severity
from tui.domain.log.judge import SeverityJudge

_SEVERITIES = {severity.value: severity for severity in Severity}
_DEFAULT = Severity.DEFAULT
_EXACT = 2**53
MOST_LATE = 60
"""Delay in seconds above which the replica's clock is considered wrong rather than the entry late."""


def entries(pbs: Sequence[Any], judge: SeverityJudge | None = None) -> list[LogEntry]:
    """Convert LogEntry messages in the order of the log; `judge` has already judged the earlier entries."""
    judge = judge or SeverityJudge()
    return [entry(pb, judge) for pb in pbs]


def entry(pb: Any, judge: SeverityJudge) -> LogEntry:
    """Convert a LogEntry message to a domain entry.

    `message` is the text payload, the `message` of a structured payload, or the structured payload as JSON.
    This function runs for every line of a log and is written for speed: each access to a message costs a
    call.
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
            message = payload.get("message")
            text = message if isinstance(message, str) else json.dumps(payload, ensure_ascii=False)
        elif kind == "proto_payload":
            text = f"({pb.proto_payload.type_url.rsplit('/', 1)[-1]})"
    labels = pb.resource.labels
    replica, number = labels.get("task_name", ""), labels.get("job_id", "")
    label = _SEVERITIES.get(pb.severity, _DEFAULT)
    severity = judge.judge(replica, label, text, payload)
    # A writer that calls the API itself gives its own severity, and where in its source it did.
    if severity is label or pb.HasField("source_location"):
        return LogEntry(at, pb.insert_id, replica, label, text, payload, number, nanos % 1000)
    return LogEntry(at, pb.insert_id, replica, severity, text, payload, number, nanos % 1000, label)


@dataclass(frozen=True, slots=True)
class Receipt:
    """The receive times of a message's entries."""

    newest: datetime | None = None
    """Newest receive time; `None` if the service does not report it."""
    whole_until: datetime | None = None
    """Receive time up to which a sorting stream has delivered everything, whatever it still buffers."""
    late: int = 0
    """Maximum delay between an entry's own time and its receipt in full seconds, up to `MOST_LATE`."""


def receipt(pbs: Iterable[Any]) -> Receipt:
    """Return the receive times of these entries."""
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
    # If many entries are buffered, the late entries are sent first because they are older. Their receive
    # times do not bound those of the rest.
    return Receipt(time_of(*newest), time_of(*min(newest, newest_own)), late)


def _unusual_time(pb: Any) -> datetime:
    return moment(pb, "timestamp") or moment(pb, "receive_timestamp") or EPOCH


@lru_cache(maxsize=64)
def _second(seconds: int) -> datetime:
    # Thousands of lines arrive per second, and most share their second with the previous line.
    return datetime.fromtimestamp(seconds, UTC)


def plain_struct(struct: struct_pb2.Struct) -> dict[str, Any]:
    """Convert a Struct to Python values. Integral numbers become `int`, because the wire has only doubles."""
    fields, values = struct.fields, dict[str, Any]()
    # For speed, this loop avoids items() and calls for numbers and strings: a JSON line spends most of its
    # time here.
    for name in fields:
        value = fields[name]
        kind = value.WhichOneof("kind")
        if kind == "number_value":
            values[name] = _plain_number(value.number_value)
        elif kind == "string_value":
            values[name] = value.string_value
        else:
            values[name] = _plain_value(value)
    return values


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
