"""An app that copies: to the terminal's clipboard, through tmux too."""

from __future__ import annotations

from tui.display.ordered_keys import OrderedKeysApp
from tui.widgets.clipboard import copy_sequences


class ClipboardApp(OrderedKeysApp[int]):
    """See the module."""

    def send_copy(self, text: str, what: str) -> None:
        """Copy, and say that it was sent: whether it arrived, no program can know."""
        if copy_sequences(text):
            self.copy_to_clipboard(text)
            self.notify(f"Sent {what} to the terminal's clipboard", markup=False)
        else:
            self.notify(f"{what} is too long for the terminal's clipboard", severity="warning", markup=False)

    def copy_to_clipboard(self, text: str) -> None:
        """As Textual's own, and through tmux too."""
        super().copy_to_clipboard(text)
        wrapped = copy_sequences(text, bare=False)
        # Textual has no public way to write a control sequence.
        if wrapped and self._driver is not None:
            self._driver.write(wrapped)
