"""Every frame of an app twice, as Textual writes it and as the display layer does, on two terminals."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import pyte
from rich.control import Control
from textual._compositor import CompositorUpdate
from textual.screen import Screen

from tui.display.app import DisplayApp
from tui.display.cells import NotRepresentable

FIELDS = ("data", "fg", "bg", "bold", "italics", "underscore", "strikethrough", "reverse", "blink")


class Pair:
    """The two terminals. `written`: bytes of each; `foreign`: frames left to Textual, the last one `why`."""

    def __init__(self) -> None:
        self.stock = pyte.Screen(1, 1)
        self.ours = pyte.Screen(1, 1)
        self.written = [0, 0]
        self.frames = 0
        self.foreign = 0
        self.why = ""

    def frame(self, app: DisplayApp[Any], update: CompositorUpdate) -> None:
        """Write one frame to both, and compare them."""
        width, height = app.size
        if (self.ours.columns, self.ours.lines) != (width, height):
            # What a terminal keeps when its size changes is its own affair: both begin empty.
            self.stock, self.ours = pyte.Screen(width, height), pyte.Screen(width, height)
            for screen in (self.stock, self.ours):
                pyte.Stream(screen).feed("\x1b[?7l")
        cursor = app.screen.outer_size.clamp_offset(app.cursor_position)
        stock = update.render_segments(app.console) + Control.move_to(*cursor).segment.text
        try:
            ours = app.paint(update)  # type: ignore[arg-type]
        except NotRepresentable as error:
            self.foreign, self.why = self.foreign + 1, str(error)
            app._buffer, ours = None, "\x1b[m" + stock
        self.frames += 1
        for index, (screen, text) in enumerate(((self.stock, stock), (self.ours, ours))):
            # The device makes a new line of a line feed.
            pyte.Stream(screen).feed(text.replace("\n", "\r\n"))
            self.written[index] += len(text.encode())
        self.compare(ours)

    def compare(self, last: str) -> None:
        """Every cell and the cursor. Raises AssertionError with the first cells that differ."""
        wrong = []
        for y in range(self.stock.lines):
            left, right = self.stock.buffer[y], self.ours.buffer[y]
            for x in range(self.stock.columns):
                if left[x] != right[x]:
                    wrong.append((y, x, *_difference(left[x], right[x])))
        where = [(s.cursor.x, s.cursor.y) for s in (self.stock, self.ours)]
        assert not wrong, f"{len(wrong)} cells differ, first {wrong[:5]}, after {last[:400]!r}"
        assert where[0] == where[1], f"the cursor: {where}"


def _difference(left: pyte.screens.Char, right: pyte.screens.Char) -> tuple[tuple[str, Any, Any], ...]:
    return tuple(
        (name, getattr(left, name), getattr(right, name))
        for name in FIELDS
        if getattr(left, name) != getattr(right, name)
    )


@contextmanager
def both() -> Iterator[Pair]:
    """Show every frame of the apps that run inside on both terminals."""
    pair = Pair()

    def display(self: DisplayApp[Any], screen: Screen[Any], renderable: Any) -> None:
        if isinstance(renderable, CompositorUpdate) and not self._batch_count and self._running:
            pair.frame(self, renderable)
        self.post_display_hook()

    with patch.object(DisplayApp, "_display", display):
        yield pair
