"""Code shared by the screens of models and endpoints."""

from __future__ import annotations

from textual.content import Content

AT_ONCE = 8
"""Number of models whose versions are read at the same time."""


def muted(text: str) -> Content:
    """Return a text in the muted colour."""
    return Content.styled(text, "$text-muted")
