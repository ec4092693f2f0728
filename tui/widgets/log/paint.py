"""Draws the lines of a log as strips and caches them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from functools import lru_cache

from rich.cells import cell_len, chop_cells, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual.selection import Selection
from textual.strip import Strip

from tui.domain.core.log_entry import LogEntry, LogGap, Severity
from tui.domain.log.pattern import Pattern
from tui.domain.log.plain_line import collapsed
from tui.store.log.lines import Line
from tui.widgets.log.render import (
    HUES,
    STYLES,
    JsonForm,
    Part,
    TimeColumn,
    cut,
    gap_text,
    message_parts,
    pretty_lines,
    replica_style,
    severity_mark,
    short_replica,
    spans_of,
    time_text,
)

SHOWN = 16_384
"""Number of characters of a line that are drawn; a copy of the line contains all."""
CHUNKED = 200
"""Number of lines whose rows are cached."""
BEGINS = "◆"
"""The mark of a line at which an attempt begins, as on the charts."""
_ASCII = str.maketrans({"◆": "+", "▲": "!", "✗": "x", "‼": "X", "┄": "-"})
COMPONENTS = {
    f"log--{style}" for style in (*STYLES, *(f"hue{n}" for n in range(HUES)), "match", "cursor", "marked")
}
CSS = """
LogView {
    height: 1fr;
    padding: 0 0 0 1;
    overflow-x: hidden;
    overflow-y: scroll;
    scrollbar-size-vertical: 1;
    scrollbar-background: $background;
    scrollbar-background-hover: $background;
    scrollbar-background-active: $background;
    .log--time, .log--dim, .log--service { color: $text-muted; }
    .log--strong { text-style: bold; }
    .log--warning { color: $text-warning; }
    .log--error { color: $text-error; }
    .log--gap { color: $text-warning; }
    .log--match { background: $accent; color: $background; }
    .log--cursor { background: $block-cursor-background; }
    .log--marked { background: $panel; }
    .log--hue0 { color: #79c0ff; } .log--hue1 { color: #d2a8ff; }
    .log--hue2 { color: #7fdbca; } .log--hue3 { color: #f0a6ca; }
    .log--hue4 { color: #a8b5ff; } .log--hue5 { color: #c9b38c; }
    .log--hue6 { color: #9ecbd8; } .log--hue7 { color: #c8a2c8; }
    &:light .log--hue0 { color: #0a5fb0; } &:light .log--hue1 { color: #7a3fb0; }
    &:light .log--hue2 { color: #0b7a75; } &:light .log--hue3 { color: #b03a7a; }
    &:light .log--hue4 { color: #4a55c0; } &:light .log--hue5 { color: #7d6430; }
    &:light .log--hue6 { color: #2f6f8a; } &:light .log--hue7 { color: #7f4f7f; }
    &:ansi .log--hue0, &:ansi .log--hue4 { color: ansi_cyan; }
    &:ansi .log--hue1, &:ansi .log--hue5 { color: ansi_magenta; }
    &:ansi .log--hue2, &:ansi .log--hue6 { color: ansi_bright_cyan; }
    &:ansi .log--hue3, &:ansi .log--hue7 { color: ansi_bright_magenta; }
    &:ansi .log--cursor, &:ansi .log--match { background: ansi_default; text-style: reverse; }
    &:ansi .log--marked { background: ansi_default; text-style: underline; }
}
"""


class LinePainter:
    """Draws lines with these columns, wrapped or not. Change an attribute, then call `clear`."""

    def __init__(self, component_style: Callable[[str], Style]) -> None:
        """Set the styles. `component_style` returns the style of a name in `STYLES` or `COMPONENTS`."""
        self._component_style = component_style
        self.width = 80
        self.times = TimeColumn.CLOCK
        self.show_replica = True
        self.replica_width = 3
        self.wrapped = False
        self.json = JsonForm.TEMPLATE
        self.ascii_only = False
        self.left = 0
        """Number of cells of the message scrolled out at the left."""
        self.start: datetime | None = None
        """Start of the offsets in the time column."""
        self.begins: frozenset[int] = frozenset()
        """Times at which an attempt begins, in milliseconds."""
        self.pattern: Pattern | None = None
        self._painted: dict[int, tuple[list[Part], list[list[Part]]]] = {}
        self._styles: dict[tuple[Style, str], Style] = {}

    def clear(self) -> None:
        """Clear the cache, so that everything is redrawn."""
        self._painted.clear()
        self._styles.clear()

    @property
    def prefix(self) -> int:
        """Width before the message in cells: time, replica and severity mark."""
        return self.times.width + (self.replica_width + 1 if self.show_replica else 0) + 1

    @property
    def room(self) -> int:
        """Width of the message in cells."""
        return max(8, self.width - self.prefix)

    def parts(self, line: LogEntry) -> list[Part]:
        """Return the message in parts. An error line without parts has the error style."""
        parts = _bounded(message_parts(_shortened(line), self.json))
        if line.json is None and line.severity >= Severity.ERROR:
            return [(text, style or "error") for text, style in parts]
        return parts

    def text(self, line: Line) -> str:
        """Return the message as text."""
        if isinstance(line, LogGap):
            return gap_text(line, self.room)
        return "".join(text for text, _ in self.parts(line))

    @property
    def tall(self) -> bool:
        """Whether a line may occupy several rows."""
        return self.wrapped or self.json is JsonForm.PRETTY

    def _spread(self, line: Line) -> bool:
        """Return whether this line occupies several rows."""
        return self.wrapped or (
            self.json is JsonForm.PRETTY and isinstance(line, LogEntry) and line.json is not None
        )

    def chunks(self, line: Line) -> Sequence[str]:
        """Return the message cut into its rows."""
        if not self._spread(line):
            return [self.text(line)]
        texts = [self.text(line)]
        if self.json is JsonForm.PRETTY and isinstance(line, LogEntry) and line.json is not None:
            texts = [text for text, _ in _bounded([(text, "") for text in pretty_lines(line)])]
        return [chunk for text in texts for chunk in _chopped(text, self.room)] or [""]

    def row(
        self,
        line: Line,
        number: int,
        row: int,
        base: Style,
        *,
        selection: Selection | None = None,
        offsets: bool = False,
    ) -> Strip:
        """Return row `row` of the line with this number, drawn over the style `base`.

        With `offsets`, each segment holds the index of its first character, for mouse selection.
        """
        held = self._painted.get(number)
        if held is None:
            span = selection.get_span(number) if selection is not None else None
            held = self._painted[number] = (self._prefix(line), self._rows(line, self._message(line, span)))
        prefix, rows = held
        first = [Segment(" " * self.prefix, base)] if row else self._segments(prefix, base)
        message = Strip(self._segments(rows[row], base))
        if not self._spread(line) and (self.left or message.cell_length > self.room):
            message = message.crop(self.left, self.left + self.room)
        if offsets:
            message = message.apply_offsets(self._offset(line, rows, row), number)
        left = self.room - message.cell_length
        last = [Segment(" " * left, base)] if left > 0 else []
        return Strip([*first, *message, *last], self.prefix + self.room)

    def _rows(self, line: Line, parts: list[Part]) -> list[list[Part]]:
        """Return the parts of each row of the line; for a single row, as many parts as fill the width."""
        if not self._spread(line):
            return [_as_wide(parts, self.left + self.room)]
        return _split(parts, [len(chunk) for chunk in self.chunks(line)])

    def _offset(self, line: Line, rows: list[list[Part]], row: int) -> int:
        """Return the index in the message of the row's first character."""
        if self._spread(line) or not self.left:
            return sum(len(text) for parts in rows[:row] for text, _ in parts)
        shown = start_of(self.text(line), self.left)
        return len(chop_cells(shown, self.left)[0]) if shown else 0

    def _segments(self, parts: Iterable[Part], base: Style) -> list[Segment]:
        styles = self._styles
        pieces = []
        for text, name in parts:
            style = styles.get((base, name))
            pieces.append(Segment(text, self._style(base, name) if style is None else style))
        return pieces

    def _style(self, base: Style, name: str) -> Style:
        key = (base, name)
        if key not in self._styles:
            # A reversed row has a single colour, because not every pair of the 16 colours is legible.
            self._styles[key] = base + self._component_style(name) if name and not base.reverse else base
        return self._styles[key]

    def _prefix(self, line: Line) -> list[Part]:
        parts = []
        if self.times is not TimeColumn.NONE:
            parts.append((time_text(line.timestamp, self.times, self.start), "time"))
        name, style, mark = "", "", (" ", "")
        if isinstance(line, LogEntry):
            name, style = short_replica(line.replica), replica_style(line.replica)
            mark = severity_mark(line.severity)
        begins = bool(self.begins) and in_milliseconds(line.timestamp) in self.begins
        if self.show_replica:
            gap = "" if begins else " "
            parts.append((set_cell_size(name, self.replica_width) + gap, style))
            if begins:
                parts.append((self._drawn(BEGINS), "warning"))
        parts.append((self._drawn(mark[0]), mark[1]))
        return parts

    def _message(self, line: Line, span: tuple[int, int] | None) -> list[Part]:
        if isinstance(line, LogGap):
            return [(self._drawn(gap_text(line, self.room)), "gap")]
        parts = self.parts(line)
        if self.pattern is not None:
            text = "".join(part for part, _ in parts)
            parts = [(piece, style) for piece, style, _ in cut(parts, spans_of(text, self.pattern), "match")]
        if span is not None:
            end = sum(len(part) for part, _ in parts) if span[1] == -1 else span[1]
            parts = [(piece, style) for piece, style, _ in cut(parts, [(span[0], end)], "selected")]
        return parts

    def _drawn(self, text: str) -> str:
        return text.translate(_ASCII) if self.ascii_only else text


def in_milliseconds(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)


def _shortened(entry: LogEntry) -> LogEntry:
    """Return the entry with a message that is short enough to be drawn."""
    if len(entry.message) <= SHOWN:
        return entry
    message = collapsed(entry.message)
    if len(message) > SHOWN:
        message = f"{message[:SHOWN]} … ({len(message):,} characters)"
    json = entry.json
    if json is not None and len(str(json.get("message", ""))) > SHOWN:
        json = {**json, "message": message}
    return replace(entry, message=message, json=json)


def _bounded(parts: list[Part]) -> list[Part]:
    if sum(len(text) for text, _ in parts) <= 2 * SHOWN:
        return parts
    drawn, left = [], 2 * SHOWN
    for text, style in parts:
        drawn.append((text[:left], style))
        left -= len(text)
        if left <= 0:
            break
    return [*drawn, (" …", "dim")]


def _split(parts: list[Part], lengths: Iterable[int]) -> list[list[Part]]:
    """Return the parts cut into rows of these lengths."""
    rows, waiting = [], parts[::-1]
    for length in lengths:
        row: list[Part] = []
        left = length
        while left > 0 and waiting:
            text, style = waiting.pop()
            row.append((text[:left], style))
            if len(text) > left:
                waiting.append((text[left:], style))
            left -= len(text)
        rows.append(row)
    return rows


def _as_wide(parts: list[Part], cells: int) -> list[Part]:
    """Return the first parts, at least `cells` wide. The rest is out of view and slow to measure."""
    start, wide = [], 0
    for text, style in parts:
        shown = start_of(text, cells - wide)
        start.append((shown, style))
        wide += cell_len(shown)
        if wide > cells:
            break
    return start


def start_of(text: str, cells: int) -> str:
    """Return the text, or a prefix of it that is wider than `cells`."""
    length = max(1, cells + 1)
    while length < len(text) and cell_len(text[:length]) <= cells:
        length *= 2
    return text[:length]


@lru_cache(maxsize=CHUNKED)
def _chopped(text: str, room: int) -> tuple[str, ...]:
    """Return the text in rows of `room` cells, cached because each row of a line needs them."""
    return tuple(chop_cells(text, room))
