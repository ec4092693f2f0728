"""One row: the number of lines over the log's time, in the colour of the worst severity."""

from __future__ import annotations

import math

from textual.content import Content
from textual.widgets import Static

from tui.store.log.histogram import Bin, Histogram
from tui.widgets.state import wants_ascii

_BARS = "▁▂▃▄▅▆▇█"
_ASCII = ".:-=+*#@"
SIDE = 8
"""Width of the time label at each end, in cells."""


def bins_for(width: int) -> int:
    """Return the number of bins that fit in a row of this width."""
    return max(0, width - 2 * SIDE - 4)


class SeverityStrip(Static):
    """The strip. `show` paints only changes."""

    DEFAULT_CSS = """
    SeverityStrip { height: 1; padding: 0 1; color: $text-muted; }
    """

    def __init__(self) -> None:
        super().__init__("", markup=False)
        self._text = Content("")
        self.display = False

    def show(self, histogram: Histogram | None) -> None:
        """Show this histogram; None hides the strip."""
        self.display = histogram is not None
        if histogram is None:
            return
        marks = _ASCII if wants_ascii(self) else _BARS
        highest = max((bin_.total for bin_ in histogram.bins), default=0)
        parts: list[tuple[str, str]] = [(f"{histogram.start.astimezone():%H:%M:%S} ", "$text-muted")]
        for bin_ in histogram.bins:
            parts.append((_mark(bin_, highest, marks), _style(bin_)))
        parts.append((f" {histogram.end.astimezone():%H:%M:%S}", "$text-muted"))
        text = Content.assemble(*parts)
        if text != self._text:
            self._text = text
            self.update(text, layout=False)


def _mark(bin_: Bin, highest: float, marks: str) -> str:
    """Return the mark on a log scale, so that a single error beside ten thousand lines is visible."""
    if not bin_.total:
        return " "
    share = math.log1p(bin_.total) / math.log1p(highest)
    return marks[min(len(marks) - 1, int(share * len(marks)))]


def _style(bin_: Bin) -> str:
    if bin_.errors:
        return "$text-error"
    return "$text-warning" if bin_.warnings else "$text-muted"
