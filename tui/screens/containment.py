"""An exception of one pane is that pane's error line, never the end of the console.

Textual ends the app at an exception in a handler, a timer, a callback or a render. Here the pane that it came
from hides its widgets and shows the error; ctrl+r shows them again.
"""

from __future__ import annotations

import logging
from typing import Any

from textual.app import App
from textual.message import Message
from textual.message_pump import MessagePump
from textual.widget import Widget

from tui.config import crash_log
from tui.domain.masking import mask_text
from tui.domain.text import plain
from tui.widgets.notice import Notice

LOG = logging.getLogger("vxtui")
ERROR_ID = "pane-error"


class ErrorBoundary(Widget):
    """A screen or pane that contains the exceptions of its widgets and its own."""

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


class ContainingApp(App[None]):
    """An app whose error boundaries contain exceptions; all others end it, as Textual does."""

    def _handle_exception(self, error: Exception) -> None:
        if not self.contain(error, None):
            super()._handle_exception(error)

    def contain(self, error: Exception, pump: MessagePump | None) -> bool:
        """Show the error in its boundary; False where there is none. `pump` handled a message."""
        boundary = _boundary_of(error, pump)
        if boundary is None:
            return False
        if not boundary.failed:
            LOG.error("%s failed", type(boundary).__name__, exc_info=error)
            why = f"{type(error).__name__}: {plain(mask_text(str(error)))[:200]}; {crash_log.write(error)}."
            boundary.fail("This part of the screen failed unexpectedly.", why)
        return True


def _boundary_of(error: Exception, pump: MessagePump | None) -> ErrorBoundary | None:
    """The boundary around the innermost widget in the traceback, else around the pump."""
    found: list[Any] = []
    trace = error.__traceback__
    while trace is not None:
        found.append(trace.tb_frame.f_locals.get("self"))
        trace = trace.tb_next
    for one in (*reversed(found), pump):
        if isinstance(one, Widget):
            around = next((node for node in one.ancestors_with_self if isinstance(node, ErrorBoundary)), None)
            if around is not None and around.is_attached:
                return around
    return None


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
