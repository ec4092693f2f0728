"""A cell of a list as plain data, which screens paint and verbs print."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum

from tui.domain.core.formatting import NOT_MEASURED, age
from tui.domain.core.states import JobState


class Tone(Enum):
    """What a cell's colour says of its text."""

    NORMAL = ""
    MUTED = "muted"
    GOOD = "good"
    DONE = "done"
    WARNING = "warning"
    BAD = "bad"
    ACCENT = "accent"


@dataclass(frozen=True, slots=True)
class Cell:
    """Text with a tone."""

    text: str = ""
    tone: Tone = Tone.NORMAL
    strong: bool = False
    glyph: str = ""
    """A sign before the text, on a screen only."""
    trend: tuple[float | None, ...] = ()
    """Shares from 0 to 1 that a screen draws before the text as a sparkline."""
    more: tuple[Cell, ...] = ()
    """Parts after the text that have tones of their own."""
    long: str | None = None
    """Text for a verb's table, where that has room for more."""

    @property
    def words(self) -> str:
        """Text for a verb's table."""
        return self.long if self.long is not None else self.text + "".join(cell.words for cell in self.more)


UNKNOWN = Cell(NOT_MEASURED, Tone.MUTED)
"""A value that is not known or not measured."""


NONE = Cell(NOT_MEASURED, Tone.MUTED, long="")
"""A value that there is none of, which a verb leaves empty."""


def muted(text: str) -> Cell:
    """A cell of secondary text."""
    return Cell(text, Tone.MUTED)


def optional(text: str | None) -> Cell:
    """A cell of this text; `None` is an unknown value."""
    return UNKNOWN if text is None else Cell(text)


def age_cell(moment: datetime | None, now: datetime) -> Cell:
    """The time since a moment."""
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


def state_cell(state: JobState) -> Cell:
    """Glyph and word of a state: `● running`."""
    glyph, tone = STATES[state]
    return Cell(state.value.lower(), tone, glyph=glyph)
