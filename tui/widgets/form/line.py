"""The line in which a value of the form is edited, at the value's position."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.events import Blur
from textual.geometry import Offset, Size
from textual.message import Message
from textual.reactive import Reactive
from textual.widgets import Input


class FormLine(Input):
    """Hidden until `open`. Posts `Left` when it is left by enter, a cursor key or a click elsewhere."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,tab", "leave(1)", "Accept the value, next row"),
        Binding("up,shift+tab", "leave(-1)", "Accept the value, previous row"),
        Binding("enter", "leave(0)", "Take it"),
    ]
    DEFAULT_CSS = """
    FormLine {
        position: absolute;
        display: none;
        height: 1;
        border: none;
        padding: 0;
        background: $panel;
        &:ansi { background: ansi_default; text-style: underline; }
    }
    """

    # Textual's own attribute lays out the entire screen with every typed letter.
    virtual_size: Reactive[Size] = Reactive(Size(0, 0), layout=False)

    @dataclass
    class Left(Message):
        """Accept the text and move the cursor by `move` rows. `clicked` is true after a click elsewhere."""

        move: int
        clicked: bool = False

    def __init__(self) -> None:
        super().__init__(compact=True, id="edit", select_on_focus=False)
        self.cursor_blink = False
        self.is_open = False

    def open(self, text: str, offset: Offset, width: int, placeholder: str = "") -> None:
        """Show the line at `offset`, `width` cells wide, and edit `text`."""
        self.is_open = True
        self.placeholder = placeholder
        with self.prevent(Input.Changed):
            self.value = text
        self.cursor_position = len(text)
        self.move_to(offset, width)
        self.display = True
        # Set the focus at once, because the next key may already be waiting.
        self.screen.set_focus(self)

    def move_to(self, offset: Offset, width: int) -> None:
        """Show the line at `offset`, `width` cells wide."""
        self.styles.offset = (offset.x, offset.y)
        self.styles.width = width

    def close(self) -> None:
        """Hide the line."""
        self.is_open = False
        self.display = False

    def action_leave(self, move: int) -> None:
        """Accept the text."""
        self.post_message(self.Left(move))

    def _on_blur(self, event: Blur) -> None:
        super()._on_blur(event)
        if self.is_open and self.app.app_focus:
            self.post_message(self.Left(0, clicked=True))
