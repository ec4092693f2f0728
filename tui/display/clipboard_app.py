"""An app that copies to the terminal's clipboard, also through tmux."""

from __future__ import annotations

from tui.display.ordered_keys import OrderedKeysApp
from tui.widgets.clipboard import copy_sequences
from tui.widgets.toasts import ToastApp


class ClipboardApp(ToastApp[int], OrderedKeysApp[int]):
    """See the module."""

    def send_copy(self, text: str, what: str) -> None:
        """Copy, and notify that it was sent: a program can't know whether it arrived."""
        if copy_sequences(text):
            self.copy_to_clipboard(text)
            self.notify(f"Sent {what} to the terminal's clipboard", markup=False)
        else:
            self.notify(f"{what} is too long for the terminal's clipboard", severity="warning", markup=False)

    def copy_to_clipboard(self, text: str) -> None:
        """As Textual does, and also through tmux."""
        super().copy_to_clipboard(text)
        wrapped = copy_sequences(text, bare=False)
        # Textual has no public way to write a control sequence.
        if wrapped and self._driver is not None:
            self._driver.write(wrapped)
