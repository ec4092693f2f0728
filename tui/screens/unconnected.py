"""The sentence for what waits for the connection, the same on every screen."""

from __future__ import annotations

from typing import Any

from textual.app import App

from tui.domain.text import plain


def not_connected(app: App[Any]) -> str:
    """Why what needs the context can't run: it is not reached, or the first attempt still runs."""
    if getattr(app, "trouble", None) is not None:
        return "Not connected yet; ctrl+r tries again."
    return f"Not connected yet: still connecting to {plain(getattr(app, 'context_name', 'the context'))}."
