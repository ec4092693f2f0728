"""Textual's Linux driver, with a writer that counts unsent bytes."""

from __future__ import annotations

import contextlib
import signal
import time
from typing import Any, Protocol, cast

from textual import events
from textual.drivers.linux_driver import LinuxDriver
from textual.message import Message

from tui.display.reader import StopEvent, read_keys
from tui.display.writer import LineWriter

LAST_ANSWER = 0.5
"""Seconds to wait at the end for an answer that would otherwise appear in the shell."""


class LineListener(Protocol):
    """Receives events that the driver reports to the app, on the app's event loop."""

    def line_free(self) -> None:
        """Handle the event that the writer has sent everything."""

    def line_answered(self) -> None:
        """Handle the terminal's answer to a request."""

    def leave(self, number: signal.Signals) -> None:
        """End as this signal would end the process, because the terminal is gone."""


class ConsoleDriver(LinuxDriver):
    """Writes through a `LineWriter`, and consumes the terminal's answers to vxtui's requests."""

    line: LineWriter | None = None
    questions = 0
    """Number of requests sent to the terminal."""
    answers = 0
    """Number of answers received. The reading thread counts them."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.exit_event = self._end = StopEvent()

    @property
    def _listener(self) -> LineListener:
        return cast("LineListener", self._app)

    @property
    def _writer_thread(self) -> Any:
        return self.line

    @_writer_thread.setter
    def _writer_thread(self, stock: Any) -> None:
        # Textual creates its writer thread when application mode starts; `LineWriter` replaces it.
        self.line = None if stock is None or self._file is None else LineWriter(self._file, self._on_free)

    def _on_free(self) -> None:
        self._loop.call_soon_threadsafe(self._listener.line_free)

    def run_input_thread(self) -> None:
        """Read keys until the app ends. If the terminal closes first, end the app."""
        if read_keys(self.fileno, self._end, self.process_message, debug=self._debug):
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._listener.leave, signal.SIGHUP)

    def process_message(self, message: Message) -> None:
        if isinstance(message, events.CursorPosition):
            self.answers += 1
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._listener.line_answered)
            return
        super().process_message(message)

    def write(self, data: str) -> None:
        # While another program has the terminal, vxtui writes nothing.
        if self.line is not None:
            super().write(data)

    def suspend_application_mode(self) -> None:
        super().suspend_application_mode()
        self.line = None

    def stop_application_mode(self) -> None:
        until = time.monotonic() + LAST_ANSWER
        while 0 < self.answers < self.questions and time.monotonic() < until:
            time.sleep(0.01)
        super().stop_application_mode()
