"""`--ascii`: replaces the console's glyphs and Textual's drawing characters, e.g. borders and scroll bars."""

from __future__ import annotations

from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

_GLYPHS: dict[int, str] = str.maketrans(
    {
        "●": "*",
        "◐": "~",
        "○": "o",
        "✓": "+",
        "✗": "x",
        "⊘": "-",
        "·": ".",
        "–": "-",
        "…": "~",
        "▲": "^",
        "▼": "v",
        "↑": "^",
        "↓": "v",
        "▌": ">",
        "█": "#",
        "▓": "%",
        "▒": "=",
        "░": "-",
        "━": "=",
        "╌": "-",
        "─": "-",
        "×": "x",
        "│": "|",
        "┄": "-",
        "▸": ">",
        "▾": "v",
        "•": "*",
        "★": "*",
        "▴": "^",
        "◆": "+",
        "◇": "?",
        "‼": "!",
        "→": ">",
        "—": "-",
        "≥": ">",
        "┌": "+",
        "┐": "+",
        "└": "+",
        "┘": "+",
        "├": "+",
        "┤": "+",
        "┬": "+",
        "┴": "+",
        "┼": "+",
    }
)
_LIGHT = range(0x2581, 0x2588)
"""Partial blocks: the ends of a scroll bar's thumb, half borders."""
_BOXES = range(0x2500, 0x25A0)
_BORDER = 0x258C


def _table() -> dict[int, str]:
    boxes = dict.fromkeys(_BOXES, "|") | dict.fromkeys((0x2500, 0x2501, 0x2504, 0x2505, 0x2550, 0x2594), "-")
    return boxes | dict.fromkeys(_LIGHT, " ") | _GLYPHS | {_BORDER: "|"}


_TABLE = _table()


class AsciiFilter(LineFilter):
    """Replaces drawing characters. Other text, such as a log line, is unchanged."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """Return the segments with replaced characters, of the same widths."""
        return [
            segment if segment.text.isascii() else Segment(segment.text.translate(_TABLE), *segment[1:])
            for segment in segments
        ]
