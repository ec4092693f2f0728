"""A specification as highlighted YAML with a search. Only the lines in view are drawn."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Mapping
from typing import Any

import yaml
from rich.style import Style
from textual.content import Content
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.visual import Visual

from tui.actions.registry import bindings
from tui.domain.core.text import plain
from tui.domain.log.pattern import Pattern
from tui.domain.masking import MASK

_LINE = re.compile(r"^(?P<indent>\s*(?:- )*)(?:(?P<key>[\w./\"'-]+:)(?P<gap>\s+|$))?(?P<value>.*)$")
_PLAIN = re.compile(r"^(?:-?\d[\d.eE+-]*|true|false|null)$")


def to_yaml(spec: Mapping[str, Any]) -> str:
    """Return the specification as YAML, in its own order, with long values in one line."""
    return yaml.safe_dump(dict(spec), sort_keys=False, allow_unicode=True, width=10_000)


def highlight_line(line: str) -> Content:
    """Return one line of YAML with highlighted parts."""
    match = _LINE.match(line)
    if match is None:
        return Content(line)
    value = match["value"]
    style = "$text-accent" if _PLAIN.match(value) else ""
    if MASK in value:
        style = "$text-warning"
    return Content.assemble(
        (match["indent"], "$text-muted"),
        (match["key"] or "", "$text-primary"),
        match["gap"] or "",
        (value, style),
    )


class SpecView(ScrollView, can_focus=True):
    """A text with a search. `display_spec` shows a text; `find` highlights the matches."""

    BINDINGS = bindings("pane")
    DEFAULT_CSS = """
    SpecView {
        height: 1fr;
        padding: 0 1;
        scrollbar-size-vertical: 1;
        scrollbar-size-horizontal: 1;
    }
    """

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.text = ""
        self.pattern: Pattern | None = None
        self.current: int | None = None
        """Line of the current match."""
        self._lines: list[Content] = []
        self.hits: list[int] = []
        """Numbers of the lines that match."""

    def display_spec(self, text: str) -> None:
        """Show this text."""
        if text != self.text:
            self.text = text
            self._lines = [highlight_line(plain(line)) for line in text.splitlines()]
            width = max((line.cell_length for line in self._lines), default=0)
            self.virtual_size = Size(width + 1, len(self._lines))
            self._search()

    def find(self, pattern: Pattern | None) -> None:
        """Search for this pattern. `None` ends the search."""
        if pattern != self.pattern:
            self.pattern = pattern
            self._search()
            self.current = None
            if self.hits:
                self.jump(1, here=True)

    def _search(self) -> None:
        matches = self.pattern.matches if self.pattern else None
        self.hits = [n for n, line in enumerate(self._lines) if matches and matches(line.plain)]
        self.refresh()

    def jump(self, way: int, *, here: bool = False) -> bool:
        """Go to the next or the previous matching line; return False if no line matches. The search wraps
        around."""
        if not self.hits:
            return False
        line = self.current if self.current is not None else int(self.scroll_offset.y)
        if way > 0:
            at = bisect_left(self.hits, line if here or self.current is None else line + 1)
        else:
            at = bisect_left(self.hits, line) - 1
        self.current = self.hits[at % len(self.hits)]
        top = int(self.scroll_offset.y)
        if not top <= self.current < top + self.size.height:
            self.scroll_to(y=max(0, self.current - self.size.height // 2), animate=False)
        self.refresh()
        return True

    def render_line(self, y: int) -> Strip:
        left, top = self.scroll_offset
        width = self.size.width
        if top + y >= len(self._lines):
            return Strip.blank(width, self.rich_style)
        line = self._lines[top + y]
        for start, end in self.pattern.spans(line.plain) if self.pattern else ():
            here = top + y == self.current
            line = line.stylize("reverse bold" if here else "reverse", start, end)
        wide = max(1, line.cell_length)
        strips = Visual.to_strips(self, line, wide, 1, self.visual_style, apply_selection=False)
        strip = strips[0] if strips else Strip.blank(wide, Style.null())
        return strip.crop_extend(left, left + width, self.rich_style)
