"""The state of the connection to one context, and why it failed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum

from tui.backends.errors import BackendError, Stopped
from tui.domain.core.formatting import age

NOT_REACHED = "not reached"
"""The words of every screen for what can't be read now."""
NOTICED = timedelta(seconds=5)
"""From then on the words say how long."""


class ConnectionState(Enum):
    """The state of a connection."""

    WAITING = "waiting"
    CONNECTING = "connecting"
    LIVE = "live"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class ConnectionStatus:
    """A state and since when; `error` says why it failed."""

    state: ConnectionState = ConnectionState.WAITING
    since: datetime | None = None
    error: BackendError | None = None


def not_reached(what: str, since: datetime | None, now: datetime) -> str:
    """`local not reached for 21s`: what can't be read, `since` when; the same words on every screen."""
    lasts = now - since if since is not None else timedelta(0)
    return f"{what} {NOT_REACHED}" + (f" for {age(lasts)}" if lasts > NOTICED else "")


def cure(error: BackendError) -> str:
    """What to do about a lost connection; every screen that shows one says it."""
    again = "ctrl+r starts it" if isinstance(error, Stopped) else "ctrl+r tries again"
    return f"{error.fix}\n{again}" if error.fix else again


def broken(error: BaseException) -> BackendError:
    """Any exception as a `BackendError`, so that it is shown and not raised."""
    if isinstance(error, BackendError):
        return error
    return BackendError(
        f"vxtui itself failed: {type(error).__name__}: {error}",
        fix="Please report it with the console's log file.",
    )
