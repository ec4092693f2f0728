"""What a module of `formats/` declares about its lines."""

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
    """Substrings of which each line has at least one, and an RE2 expression that selects such lines on a
    log's server; it may match more lines than `read` accepts. Empty if another format's signs select them."""
