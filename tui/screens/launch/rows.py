"""Divides the screen's rows between the values of a launch and its checks."""

from __future__ import annotations

from collections.abc import Iterable

from textual.containers import HorizontalGroup, VerticalGroup, VerticalScroll
from textual.css.scalar import Scalar
from textual.widget import Widget

LEAST = 0.45
"""Minimum fraction of the rows for the values, if they need it."""
CHECKS = 6
"""Number of rows reserved for the checks before they are known, so that the values don't jump."""
PADDING = 1
"""Number of rows above the values."""


class LaunchRows(VerticalGroup):
    """The values and the job's shape, in the rows that the checks leave."""

    DEFAULT_CSS = """
    LaunchRows { height: 1fr; }
    """

    def __init__(self, form: Widget, shape: Widget, known: Iterable[Widget]) -> None:
        super().__init__()
        self._form, self._shape = form, shape
        self._ahead = VerticalScroll(*known, id="ahead", can_focus=False)

    def compose(self) -> Iterable[Widget]:
        yield HorizontalGroup(self._form, self._shape, id="above")
        yield self._ahead

    def on_mount(self) -> None:
        for part in (self._form, self._ahead):
            self.watch(part, "virtual_size", self._share)

    def on_resize(self) -> None:
        """Divide the rows again after a resize."""
        self._share()

    def _share(self) -> None:
        rows = self.size.height
        if not rows:
            return
        known = max(CHECKS, self._ahead.virtual_size.height)
        most = max(round(rows * LEAST), rows - PADDING - known)
        values = min(most, max(self._form.virtual_size.height, self._shape.size.height))
        for part, height in (
            (self._form, most),
            (self._shape, most),
            (self._ahead, rows - PADDING - values),
        ):
            limit = Scalar.from_number(height)
            if part.styles.max_height != limit:
                part.styles.max_height = limit
