"""Base of the screens of models and endpoints."""

from __future__ import annotations

from textual.content import Content

from tui.screens.polled_list import PolledListScreen

AT_ONCE = 8
"""Models whose versions are read at the same time."""


class ServingScreen(PolledListScreen):
    """A list of what the service of models and endpoints has."""

    NEEDS = "serving"

    def __init__(self) -> None:
        super().__init__()
        self.deploying: set[tuple[str, str, str]] = set()
        """What is being deployed from here: endpoint, model's display name, version."""


def muted(text: str) -> Content:
    """Text that stands back."""
    return Content.styled(text, "$text-muted")
