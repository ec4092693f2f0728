"""An exception of a pane is that pane's error line, one of a dialog closes the dialog; none ends the console.

Textual ends the app at an exception in a handler, a timer, a callback or a render. Here the pane that it came
from hides its widgets and shows the error; ctrl+r shows them again. A dialog closes, and a toast gives the
error: the key that opened it tries again.
"""

from __future__ import annotations

import logging
from typing import Any

from textual.app import App
from textual.message import Message
from textual.message_pump import MessagePump
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.worker import WorkerFailed, get_current_worker

from tui.config import crash_log
from tui.domain.masking import mask_text
from tui.domain.text import plain
from tui.widgets.notice import Notice

LOG = logging.getLogger("vxtui")
ERROR_ID = "pane-error"


class ErrorBoundary(Widget):
    """A screen or pane that contains the exceptions of its widgets and its own.

    It is the last of several bases: Textual takes the styles of the first that is a widget, and of its bases.
    """

    failed = False
    """The error is shown in place of the widgets."""
    _hidden_parts: tuple[Widget, ...] = ()

    def parts(self) -> list[Widget]:
        """The widgets that the error takes the place of."""
        return [child for child in self.children if child.id != ERROR_ID]

    def fail(self, what: str, why: str) -> None:
        """Show an error in place of the widgets; the first one stays until `retry`."""
        if self.failed:
            return
        self.failed = True
        self._hidden_parts = tuple(part for part in self.parts() if part.display)
        for part in self._hidden_parts:
            part.display = False
        notice = Notice(id=ERROR_ID)
        parts = self.parts()
        self.mount(notice, after=parts[-1] if parts else None)
        notice.show(what, why, "ctrl+r tries again", bad=True)

    def retry(self) -> bool:
        """Show the widgets again; False where there was no error."""
        if not self.failed:
            return False
        self.failed = False
        self.query(f"#{ERROR_ID}").remove()
        for part in self._hidden_parts:
            part.display = True
        self._hidden_parts = ()
        return True


Place = ErrorBoundary | ModalScreen[Any]
"""Where an exception is shown; a dialog is a modal screen."""


class ContainingApp(App[None]):
    """An app whose error boundaries and dialogs contain exceptions; all others end it, as Textual does."""

    def _handle_exception(self, error: Exception) -> None:
        cause, pump = error, None
        if isinstance(error, WorkerFailed) and isinstance(error.error, Exception):
            # A worker of Textual's own calls this inside of itself.
            cause, pump = error.error, get_current_worker().node
        if not self.contain(cause, pump if isinstance(pump, MessagePump) else None):
            super()._handle_exception(error)

    def contain(self, error: Exception, pump: MessagePump | None) -> bool:
        """Show the error where it belongs; False where there is no such place. `pump` handled a message."""
        place = _place_of(error, pump, self)
        if place is None:
            return False
        first = not place.failed if isinstance(place, ErrorBoundary) else place in self.screen_stack
        if first:
            LOG.error("%s failed", type(place).__name__, exc_info=error)
            why = f"{type(error).__name__}: {plain(mask_text(str(error)))[:200]}; {crash_log.write(error)}."
            if isinstance(place, ErrorBoundary):
                place.fail("This part of the screen failed unexpectedly.", why)
            else:
                self.close_failed(place, why)
        return True

    def close_failed(self, dialog: ModalScreen[Any], why: str) -> None:
        """Close a dialog, with what was opened from it, and give the error in a toast."""
        while dialog in self.screen_stack:
            self.pop_screen()
        self.notify(f"The dialog failed unexpectedly and was closed.\n{why}", severity="error", markup=False)


def _place_of(error: Exception, pump: MessagePump | None, app: App[Any]) -> Place | None:
    """The dialog that handled the message, else the place around the innermost widget in the traceback.

    What a dialog calls, e.g. the check of a typed name, may be a method of the screen behind it.
    """
    found: list[Any] = [pump]
    trace = error.__traceback__
    while trace is not None:
        found.append(trace.tb_frame.f_locals.get("self"))
        trace = trace.tb_next
    widgets = [one for one in found if isinstance(one, Widget)]
    if widgets and isinstance(handling := _place_around(widgets[0]), ModalScreen):
        return handling
    for widget in reversed(widgets):
        place = _place_around(widget)
        # A dialog that failed while it was made is not shown: what was opening it failed.
        shown = place in app.screen_stack if isinstance(place, ModalScreen) else place and place.is_attached
        if shown:
            return place
    return None


def _place_around(widget: Widget) -> Place | None:
    return next(
        (node for node in widget.ancestors_with_self if isinstance(node, ErrorBoundary | ModalScreen)), None
    )


_dispatch = MessagePump._dispatch_message


async def _dispatch_contained(self: MessagePump, message: Message) -> None:
    """As Textual's own, but a contained exception does not end the widget's message loop.

    Textual leaves the loop at any exception: the widget would be deaf from then on.
    """
    try:
        await _dispatch(self, message)
    except Exception as error:
        app = getattr(self, "app", None)
        if not (isinstance(app, ContainingApp) and app.contain(error, self)):
            raise


MessagePump._dispatch_message = _dispatch_contained  # type: ignore[method-assign]
