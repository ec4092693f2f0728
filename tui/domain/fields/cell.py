"""A cell of a list as plain data, which screens paint and verbs print."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum

from tui.domain.core.formatting import NOT_MEASURED, age
from tui.domain.core.states import JobState


class Tone(Enum):
    """The meaning of a cell's colour."""

    NORMAL = ""
    MUTED = "muted"
    GOOD = "good"
    DONE = "done"
    WARNING = "warning"
    BAD = "bad"
    ACCENT = "accent"


@dataclass(frozen=True, slots=True)
class Cell:
    """The content of a table cell: text with a tone, and optional parts."""

    text: str = ""
    tone: Tone = Tone.NORMAL
    strong: bool = False
    glyph: str = ""
    """A sign before the text, only on a screen."""
    trend: tuple[float | None, ...] = ()
    """Shares from 0 to 1, drawn before the text as a sparkline on a screen."""
    more: tuple[Cell, ...] = ()
    """Parts after the text with different tones."""
    long: str | None = None
    """Longer text for a verb's table."""

    @property
    def words(self) -> str:
        """Text for a verb's table."""
        return self.long if self.long is not None else self.text + "".join(cell.words for cell in self.more)


UNKNOWN = Cell(NOT_MEASURED, Tone.MUTED)
"""An unknown or unmeasured value."""


NONE = Cell(NOT_MEASURED, Tone.MUTED, long="")
"""A value that does not exist; a verb's table leaves the cell empty."""


def muted(text: str) -> Cell:
    """Make a cell of secondary text."""
    return Cell(text, Tone.MUTED)


def optional(text: str | None) -> Cell:
    """Make a cell of this text; `None` is an unknown value."""
    return UNKNOWN if text is None else Cell(text)


def age_cell(moment: datetime | None, now: datetime) -> Cell:
    """Make a cell with the time since a moment."""
    return muted(age(None if moment is None else now - moment))


STATES: Mapping[JobState, tuple[str, Tone]] = {
    JobState.QUEUED: ("○", Tone.WARNING),
    JobState.PENDING: ("○", Tone.WARNING),
    JobState.RUNNING: ("●", Tone.GOOD),
    JobState.RESTARTING: ("◐", Tone.WARNING),
    JobState.SUSPENDED: ("○", Tone.MUTED),
    JobState.CANCELLING: ("◐", Tone.WARNING),
    JobState.SUCCEEDED: ("✓", Tone.DONE),
    JobState.FAILED: ("✗", Tone.BAD),
    JobState.CANCELLED: ("⊘", Tone.MUTED),
    JobState.EXPIRED: ("⊘", Tone.BAD),
    JobState.SKIPPED: ("⊘", Tone.MUTED),
    JobState.UNKNOWN: ("·", Tone.MUTED),
}
"""Glyph and tone of each state."""
SILENT = "◇"
"""Glyph of a silent job, whose state is RUNNING."""


def state_cell(state: JobState) -> Cell:
    """Make a cell with glyph and word of a state: `● running`."""
    glyph, tone = STATES[state]
    return Cell(state.value.lower(), tone, glyph=glyph)
