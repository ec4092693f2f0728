"""The state shared by every screen and verb: the open context, the settings, and read-only access."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from time import monotonic
from typing import TYPE_CHECKING

from tui.backends.errors import BackendError, Stopped
from tui.config.access import ContextAccess
from tui.config.settings import Settings

if TYPE_CHECKING:
    from tui.backends.interface import Backend

# Screens don't import backends; the session module re-exports the errors that they catch.
__all__ = ["BackendError", "Session", "Stopped", "now"]


def now() -> datetime:
    """Return the current time. Tests replace `Session.clock` instead of patching this function."""
    return datetime.now(UTC)


@dataclass(slots=True)
class Session:
    """The shared state of one run of the console or of a verb."""

    backend: Backend
    settings: Settings
    access: ContextAccess = field(default_factory=ContextAccess)
    clock: Callable[[], datetime] = field(default=now)
    monotonic: Callable[[], float] = field(default=monotonic)
    """Monotonic clock in seconds, for waits and for ages on which decisions depend. The wall clock may
    jump."""
