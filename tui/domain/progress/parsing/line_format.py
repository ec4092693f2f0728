"""The declaration of a line format by a module of `formats/`."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tui.domain.progress.parsing.reading import LineReading


class LineFormat(NamedTuple):
    """A line format. `read` is a pure function of one line."""

    priority: int
    """Formats with a lower number are tried earlier."""
    read: Callable[[str], LineReading | None]
    signs: tuple[tuple[tuple[str, ...], str], ...] = ()
    """Substrings of the format's lines, and an RE2 expression that selects such lines on a log's server.

    Each line has at least one of the substrings; the expression may match more lines than `read` accepts.
    Empty if another format's signs select the lines.
    """
