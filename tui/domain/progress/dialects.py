"""The training progress in a log entry, by the first dialect that recognises it."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Callable
from typing import Any

from tui.domain.core.log_entry import LogEntry
from tui.domain.progress import formats, json_fields
from tui.domain.progress.parsing.line_text import parts, rank_of
from tui.domain.progress.parsing.reading import LineReading
from tui.domain.progress.pattern import ProgressPattern

FORMATS: list[Any] = sorted(
    (importlib.import_module(f"{formats.__name__}.{m.name}") for m in pkgutil.iter_modules(formats.__path__)),
    key=lambda module: module.PRIORITY,
)
"""The modules of `formats/`, by priority."""
DIALECTS: tuple[Callable[[str], LineReading | None], ...] = tuple(module.read for module in FORMATS)
_SIGNS = [sign for module in FORMATS for sign in getattr(module, "SIGNS", ())]
EXPRESSIONS = tuple(expression for _, expression in _SIGNS)
"""RE2 expressions that select progress lines on a log's server."""
SHORT = 128
"""Number of characters below which a line is checked for the marks of short lines."""
_MARKS = tuple(mark for marks, _ in _SIGNS for mark in marks)
_GATES = tuple((gate, tuple(mark for mark in _MARKS if gate in mark)) for gate in "/=")
"""Characters that few lines have, with the marks that contain them."""
_OTHERS = tuple(mark for mark in _MARKS if not any(gate in mark for gate, _ in _GATES))
_STARTS = frozenset(" |[0123456789ILS\r\x1b")
_ENDS = frozenset(" |0123456789s:]m\r")
_SHORT = re.compile(
    r"[\s|]*+(?:\d++(?:[\d.\s|:e+s\x1b\[m;-]*+$|:\s+learn: )"
    r"|\[(?:\d++\]\s+[\w-]+:|(?:epoch=\d+\]\[)?batch=)|total_timesteps"
    r"|(?:Learning i|I)teration:? \d|Step:? \d)|[\x1b\r]"
)
"""Short lines that may report progress: rows of tables, boosting rounds and heads of blocks."""


def may_report(text: str) -> bool:
    """Return whether the text may be progress; the check is fast for nearly every other line."""
    for mark in _OTHERS:
        if mark in text:
            return True
    for gate, marks in _GATES:
        if gate in text:
            for mark in marks:
                if mark in text:
                    return True
    if text[:1] in _STARTS and text[-1:] in _ENDS and len(text) < SHORT and _may_be_short(text):
        return True
    if len(text) < 64 and "Epoch " in text:
        return True
    # The text may be a bar whose unit is not `it`.
    return "%|" in text and "<" in text


def _may_be_short(text: str) -> bool:
    # Rows have columns; most other lines begin with a date.
    columns = text[0] > "9" or "  " in text or "\t" in text or "|" in text
    return "step" in text or "STEP" in text or (columns and _SHORT.match(text) is not None)


def readings(entry: LogEntry, pattern: ProgressPattern | None = None) -> list[LineReading]:
    """Return the readings of the entry, oldest first; empty for most entries. Never raises. An entry has
    several readings if a bar rewrote its line. `pattern` is the job's own pattern, which has precedence."""
    payload = entry.json
    if payload is not None and (reading := json_fields.read(payload)) is not None:
        return [reading]
    text = entry.message
    if payload is not None and text[:1] == "{" and not isinstance(payload.get("message"), str):
        # This text belongs to a JSON object whose numbers were read before.
        return []
    if pattern is None and not may_report(text):
        return []
    return [reading for part in parts(text) if (reading := line_reading(part, pattern)) is not None]


def line_reading(text: str, pattern: ProgressPattern | None = None) -> LineReading | None:
    """Return the reading of one line of text."""
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
