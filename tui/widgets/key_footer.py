"""The last line: the keys that work now, from the registry of actions."""

from __future__ import annotations

from collections.abc import Sequence

from textual import events
from textual.content import Content
from textual.message import Message
from textual.widget import Widget

GAP = 2


class KeyFooter(Widget):
    """`key label` pairs in one line. Pairs that don't fit are left out, except `? help`."""

    DEFAULT_CSS = """
    KeyFooter {
        dock: bottom;
        height: 1;
        padding: 0 1;
    }
    """

    class Pressed(Message):
        """A pair was clicked."""

        def __init__(self, action_id: str) -> None:
            super().__init__()
            self.action_id = action_id

    def __init__(self) -> None:
        super().__init__()
        self._entries: tuple[tuple[str, str, str], ...] = ()

    def show(self, entries: Sequence[tuple[str, str, str]]) -> None:
        """Show (action id, key, label) triples, the most useful first."""
        if self._entries != tuple(entries):
            self._entries = tuple(entries)
            self.refresh()

    def _fitting(self) -> list[tuple[str, str, str]]:
        if not self._entries:
            return []
        # The last pair is help, which lists the keys left out.
        *entries, last = self._entries
        fitting, room = [], self.size.width + GAP - _wide(last)
        for entry in entries:
            if _wide(entry) <= room:
                fitting.append(entry)
                room -= _wide(entry)
        return [*fitting, last]

    def render(self) -> Content:
        parts: list[Content | tuple[str, str]] = []
        for _, key, label in self._fitting():
            parts += [(key, "bold $footer-key-foreground"), (f" {label}" + " " * GAP, "$text-muted")]
        return Content.assemble(*parts)

    def on_click(self, event: events.Click) -> None:
        """Run the clicked action."""
        at = event.x - 1
        for action_id, key, label in self._fitting():
            width = _wide((action_id, key, label))
            if 0 <= at < width:
                self.post_message(self.Pressed(action_id))
                return
            at -= width


def _wide(entry: tuple[str, str, str]) -> int:
    return len(entry[1]) + 1 + len(entry[2]) + GAP
