"""The training progress in a log entry, by the first dialect that recognises it."""

from __future__ import annotations

from collections.abc import Callable

from tui.domain.core.log_entry import LogEntry
from tui.domain.progress.formats import (
    bars,
    dicts,
    example_lines,
    json_fields,
    keras_bars,
    named_lines,
    rich_bars,
)
from tui.domain.progress.parsing.line_text import may_report, parts, rank_of
from tui.domain.progress.parsing.reading import LineReading
from tui.domain.progress.pattern import ProgressPattern

DIALECTS: tuple[Callable[[str], LineReading | None], ...] = (
    bars.read, keras_bars.read, rich_bars.read, example_lines.read, dicts.read, named_lines.read,
)  # fmt: skip
"""Dialects in the order in which they are tried; each is a pure function of one line."""


def readings(entry: LogEntry, pattern: ProgressPattern | None = None) -> list[LineReading]:
    """Readings of the entry, the oldest first; empty for nearly every entry. Never raises. There are several
    if a bar has rewritten its line within one entry. `pattern` is the job's own, tried first."""
    payload = entry.json
    if payload is not None and (reading := json_fields.read(payload)) is not None:
        return [reading]
    text = entry.message
    if payload is not None and text[:1] == "{" and not isinstance(payload.get("message"), str):
        # The text of an object: its numbers were read above.
        return []
    if pattern is None and not may_report(text):
        return []
    return [reading for part in parts(text) if (reading := line_reading(part, pattern)) is not None]


def line_reading(text: str, pattern: ProgressPattern | None = None) -> LineReading | None:
    """The reading of one line of text."""
    own = pattern.read(text) if pattern is not None else None
    if own is not None:
        return own
    if not may_report(text):
        return None
    rank, rest = rank_of(text)
    for read in DIALECTS:
        reading = read(rest)
        if reading is not None:
            reading.rank = rank or reading.rank
            return reading
    return None
