"""The sentence for an action that waits for the connection, the same on every screen."""

from __future__ import annotations

from typing import Any

from textual.app import App

from tui.domain.core.text import plain
from tui.store.jobs.connection_state import NOT_REACHED


def not_connected(app: App[Any]) -> str:
    """Return why an action that needs the context can't run: the context is not reached, or still
    connecting."""
    name = plain(getattr(app, "context_name", "the context"))
    if getattr(app, "trouble", None) is not None:
        return f"{name} is {NOT_REACHED}; ctrl+r tries again."
    return f"Still connecting to {name}."
