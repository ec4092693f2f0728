"""The state of the connection to one context, and why it failed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum

from tui.backends.errors import BackendError, Stopped
from tui.domain.core.formatting import age

NOT_REACHED = "not reached"
"""Words that every screen shows for a source that can't be read now."""
NOTICED = timedelta(seconds=5)
"""Minimum duration of an outage to be stated in the message."""


class ConnectionState(Enum):
    """The state of a connection."""

    WAITING = "waiting"
    CONNECTING = "connecting"
    LIVE = "live"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class ConnectionStatus:
    """A connection state and its start time. `error` is the reason for a failure."""

    state: ConnectionState = ConnectionState.WAITING
    since: datetime | None = None
    error: BackendError | None = None


def not_reached(source: str, since: datetime | None, now: datetime) -> str:
    """Return e.g. `local not reached for 21s`, with the same words on every screen."""
    lasts = now - since if since is not None else timedelta(0)
    return f"{source} {NOT_REACHED}" + (f" for {age(lasts)}" if lasts > NOTICED else "")


def cure(error: BackendError) -> str:
    """Return the user's remedy for a lost connection."""
    again = "ctrl+r starts it" if isinstance(error, Stopped) else "ctrl+r tries again"
    return f"{error.fix}\n{again}" if error.fix else again
