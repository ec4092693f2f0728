"""The way to one context: how far it has come, and why it goes no further."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import Enum

from tui.backends.errors import BackendError


class LinkState(Enum):
    """Where the connection stands."""

    WAITING = "waiting"
    CONNECTING = "connecting"
    LIVE = "live"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Link:
    """A state since a time; `error` says why it failed."""

    state: LinkState = LinkState.WAITING
    since: datetime | None = None
    error: BackendError | None = None


def broken(error: BaseException) -> BackendError:
    """An error of our own making in the words of `BackendError`, so that it is shown and not thrown."""
    if isinstance(error, BackendError):
        return error
    return BackendError(
        f"vxtui itself failed: {type(error).__name__}: {error}",
        fix="Please report it with the console's log file.",
    )
