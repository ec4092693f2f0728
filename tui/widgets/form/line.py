"""The line in which a value of the form is edited, at its place in the form."""

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
    """Hidden until `open`. Posts `Left` when it is left by enter, by a move, or by a click elsewhere."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,tab", "leave(1)", "Take it, next row"),
        Binding("up,shift+tab", "leave(-1)", "Take it, row before"),
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

    # Textual's lays out the screen anew with every letter, as if the line grew with its text.
    virtual_size: Reactive[Size] = Reactive(Size(0, 0), layout=False)

    @dataclass
    class Left(Message):
        """Take what is typed; `move` rows on. `clicked` where the focus had gone elsewhere."""

        move: int
        clicked: bool = False

    def __init__(self) -> None:
        super().__init__(compact=True, id="edit", select_on_focus=False)
        self.cursor_blink = False
        self.is_open = False

    def open(self, text: str, place: Offset, width: int, placeholder: str = "") -> None:
        """Edit `text` there."""
        self.is_open = True
        self.placeholder = placeholder
        with self.prevent(Input.Changed):
            self.value = text
        self.cursor_position = len(text)
        self.put(place, width)
        self.display = True
        # At once: the next key may have been typed already.
        self.screen.set_focus(self)

    def put(self, place: Offset, width: int) -> None:
        """Show it there."""
        self.styles.offset = (place.x, place.y)
        self.styles.width = width

    def shut(self) -> None:
        """Hide it."""
        self.is_open = False
        self.display = False

    def action_leave(self, move: int) -> None:
        """Take what is typed."""
        self.post_message(self.Left(move))

    def _on_blur(self, event: Blur) -> None:
        super()._on_blur(event)
        if self.is_open and self.app.app_focus:
            self.post_message(self.Left(0, clicked=True))
