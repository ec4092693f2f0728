"""Holes in a followed log, which lists find and fill."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class HoleStart:
    """The start of a hole."""

    received: datetime | None
    """By the service's time of receipt; `None` where nothing was received before it."""
    newest: datetime | None
    """Timestamp of the newest entry known before it."""


@dataclass(slots=True)
class MissingRange:
    """Entries that a stream did not deliver, while lists search for them."""

    since: datetime | None
    """The newest entry known when it began."""
    began: float
    reasons: list[str]
    lost: int = 0
    """How many entries the service reported as suppressed; 0 (unknown) after a broken stream."""
    filled: int = 0
    fills: int = 0


@dataclass(slots=True)
class Heartbeat:
    """Lists that tell whether a quiet stream still brings what there is. Times are the event loop's."""

    due: float
    deaf_at: float | None = None
    """When the stream counts as silent, because it has not brought what such a list has found."""
    next_list: bool = False
    """The next list is a heartbeat."""
