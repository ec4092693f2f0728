"""A state as glyph, word and colour, each of which identifies it."""

from __future__ import annotations

from textual.content import Content
from textual.widget import Widget

from tui.domain.core.states import JobState
from tui.domain.fields.cell import STATES
from tui.widgets.table.cells import STYLES


def state_content(state: JobState, *, word: bool = True) -> Content:
    """Return the glyph and word in the state's colour, e.g. `● running`."""
    glyph, tone = STATES[state]
    return Content.styled(f"{glyph} {state.value.lower()}" if word else glyph, STYLES[tone])


def wants_ascii(widget: Widget) -> bool:
    """Return whether the setting `ascii` is on."""
    return bool(getattr(getattr(widget.app, "settings", None), "ascii", False))
