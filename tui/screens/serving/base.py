"""Shared by the screens of models and endpoints."""

from __future__ import annotations

from textual.content import Content

AT_ONCE = 8
"""Models whose versions are read at the same time."""


def muted(text: str) -> Content:
    """Text in the muted colour."""
    return Content.styled(text, "$text-muted")
