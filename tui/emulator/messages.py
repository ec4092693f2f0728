"""Plain protobuf messages: copies, and timestamps of the emulator's clock."""

from __future__ import annotations

import re
from typing import Any

from google.protobuf import timestamp_pb2

from tui.emulator.faults import clock

Pb = Any  # a plain protobuf message, whose classes are made at run time


def snake_case(noun: str) -> str:
    """Convert the name of a message to the name of its field: `custom_job` for `CustomJob`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", noun).lower()


def copied(pb: Pb) -> Pb:
    """Return a copy of the message, of the same class."""
    copy = type(pb)()
    copy.CopyFrom(pb)
    return copy


def timestamp(seconds: float) -> timestamp_pb2.Timestamp:
    """Convert seconds since the epoch to a timestamp with microsecond precision, like the service's own."""
    us = round(seconds * 1_000_000)
    return timestamp_pb2.Timestamp(seconds=us // 1_000_000, nanos=us % 1_000_000 * 1000)


def time_of(field: str, pb: Pb) -> int:
    """Return a time of the message in nanoseconds since the epoch, or 0 if it is not set."""
    return int(getattr(pb, field).ToNanoseconds())


def current_time() -> timestamp_pb2.Timestamp:
    """Return the current time of the emulator's clock."""
    return timestamp(clock.time())


def set_created(pb: Pb) -> Pb:
    """Set the times of creation and of the last update to now; return the resource."""
    pb.create_time.CopyFrom(current_time())
    pb.update_time.CopyFrom(pb.create_time)
    return pb
