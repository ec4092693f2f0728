"""Contains exceptions: a pane shows its error, a failed dialog closes, and the console continues.

Textual ends the app at an exception in a handler, a timer, a callback or a render. Here the pane that raised
the exception hides its widgets and shows the error; ctrl+r shows them again. A dialog closes, and a toast
shows the error: the key that opened the dialog opens it again.
"""

from __future__ import annotations

import logging
from typing import Any

from textual.app import App
from textual.message_pump import MessagePump
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.worker import WorkerFailed, get_current_worker

from tui.config import crash_log
from tui.display.textual_private import contain_exceptions
from tui.domain.core.text import plain
from tui.domain.masking import mask_text
from tui.widgets.notice import Notice

LOG = logging.getLogger("vxtui")
ERROR_ID = "pane-error"


class ErrorBoundary:
    """Shows an exception in place of the widgets of a screen or pane, which has it as `boundary`."""

    def __init__(self, widget: Widget, *, kept: tuple[type[Widget], ...] = ()) -> None:
        """Set the widget. `kept` are the types of the children that stay visible beside the error."""
        self.widget = widget
        self._kept = kept
        self._hidden: list[Widget] = []
        self.failed = False
        """Whether the error is shown."""

    def fail(self, headline: str, why: str) -> None:
        """Show an error in place of the widgets. The first error stays until `retry` is called."""
        if self.failed:
            return
        self.failed = True
        replaced = [child for child in self.widget.children if not isinstance(child, self._kept)]
        self._hidden = [child for child in replaced if child.display]
        for child in self._hidden:
            child.display = False
        notice = Notice(id=ERROR_ID)
        self.widget.mount(notice, after=replaced[-1] if replaced else None)
        notice.show(headline, why, "ctrl+r tries again", bad=True)

    def retry(self) -> bool:
        """Show the widgets again. Return False if no error was shown."""
        if not self.failed:
            return False
        self.failed = False
        self.widget.query(f"#{ERROR_ID}").remove()
        for child in self._hidden:
            child.display = True
        self._hidden = []
        return True


Place = ErrorBoundary | ModalScreen[Any]
"""The part of the screen that shows an exception. A dialog is a modal screen."""


class ContainingApp(App[None]):
    """An app whose error boundaries and dialogs contain exceptions. Other exceptions end it."""

    def _handle_exception(self, error: Exception) -> None:
        cause, pump = error, None
        if isinstance(error, WorkerFailed) and isinstance(error.error, Exception):
            # Textual's own workers call this from inside the worker.
            cause, pump = error.error, get_current_worker().node
        if not self.contain(cause, pump if isinstance(pump, MessagePump) else None):
            super()._handle_exception(error)

    def contain(self, error: Exception, pump: MessagePump | None) -> bool:
        """Show the error in its dialog or boundary; return False if neither exists. `pump` handled a
        message."""
        place = _place_of(error, pump, self)
        if place is None:
            return False
        first = not place.failed if isinstance(place, ErrorBoundary) else place in self.screen_stack
        if first:
            failed = place.widget if isinstance(place, ErrorBoundary) else place
            LOG.error("%s failed", type(failed).__name__, exc_info=error)
            why = f"{type(error).__name__}: {plain(mask_text(str(error)))[:200]}; {crash_log.write(error)}."
            if isinstance(place, ErrorBoundary):
                place.fail("This part of the screen failed unexpectedly.", why)
            else:
                self.close_failed(place, why)
        return True

    def close_failed(self, dialog: ModalScreen[Any], why: str) -> None:
        """Close a dialog and the screens above it, and show the error in a toast."""
        while dialog in self.screen_stack:
            self.pop_screen()
        self.notify(f"The dialog failed unexpectedly and was closed.\n{why}", severity="error", markup=False)


def _place_of(error: Exception, pump: MessagePump | None, app: App[Any]) -> Place | None:
    """Return the dialog that handled the message, else the boundary of the innermost widget in the traceback.

    A callback of a dialog, e.g. the check of a typed name, may be a method of the screen behind the dialog.
    """
    owners: list[Any] = [pump]
    trace = error.__traceback__
    while trace is not None:
        owners.append(trace.tb_frame.f_locals.get("self"))
        trace = trace.tb_next
    widgets = [owner for owner in owners if isinstance(owner, Widget)]
    if widgets and isinstance(handling := _place_around(widgets[0]), ModalScreen):
        return handling
    for widget in reversed(widgets):
        place = _place_around(widget)
        # A dialog that failed during its creation is not shown, because the code that was opening it failed.
        if place is None:
            continue
        shown = place in app.screen_stack if isinstance(place, ModalScreen) else place.widget.is_attached
        if shown:
            return place
    return None


def _place_around(widget: Widget) -> Place | None:
    for node in widget.ancestors_with_self:
        boundary = getattr(node, "boundary", None)
        if isinstance(boundary, ErrorBoundary):
            return boundary
        if isinstance(node, ModalScreen):
            return node
    return None


def _contain(pump: MessagePump, error: Exception) -> bool:
    app = getattr(pump, "app", None)
    return isinstance(app, ContainingApp) and app.contain(error, pump)


contain_exceptions(_contain)
