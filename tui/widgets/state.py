"""A state as glyph, word and colour; each of them identifies it."""

from __future__ import annotations

from textual.content import Content
from textual.widget import Widget

from tui.domain.core.states import JobState

_GLYPH = {
    JobState.QUEUED: ("○", "$text-warning"),
    JobState.PENDING: ("○", "$text-warning"),
    JobState.RUNNING: ("●", "$text-success"),
    JobState.RESTARTING: ("◐", "$text-warning"),
    JobState.SUSPENDED: ("○", "$text-muted"),
    JobState.CANCELLING: ("◐", "$text-warning"),
    JobState.SUCCEEDED: ("✓", "$text-primary"),
    JobState.FAILED: ("✗", "$text-error"),
    JobState.CANCELLED: ("⊘", "$text-muted"),
    JobState.EXPIRED: ("⊘", "$text-error"),
    JobState.SKIPPED: ("⊘", "$text-muted"),
    JobState.UNKNOWN: ("·", "$text-muted"),
}


def state_content(state: JobState, *, word: bool = True) -> Content:
    """Glyph and word in the state's colour, e.g. `● running`."""
    glyph, style = _GLYPH[state]
    return Content.styled(f"{glyph} {state.value.lower()}" if word else glyph, style)


def bar(fraction: float, width: int) -> str:
    """A bar of `width` characters; full only at 1, empty only at 0."""
    inside = round(max(0.0, min(1.0, fraction)) * width)
    if 0 < fraction < 1:
        inside = max(1, min(width - 1, inside))
    return "█" * inside + "░" * (width - inside)


def wants_ascii(widget: Widget) -> bool:
    """Whether the setting `ascii` is on."""
    return bool(getattr(getattr(widget.app, "settings", None), "ascii", False))
