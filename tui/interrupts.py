"""Ctrl+C when nothing has to be undone: the process reports it and ends, without a traceback.

Otherwise Python's own handler raises KeyboardInterrupt, or cancels the task that asyncio runs.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable

INTERRUPTED = 130
WORD = "interrupted"
_AS_JSON = f'{{"schema": 1, "error": {{"code": "INTERRUPTED", "message": "{WORD}", "fix": ""}}}}\n'
_CLEAN_UPS: list[Callable[[], None]] = []


def _end(*_: object) -> None:
    """Handle SIGINT by ending the process. It raises nothing: an import or a destructor would print the
    exception, or replace it."""
    try:
        for clean_up in _CLEAN_UPS:
            clean_up()
        as_json = "--json" in sys.argv
        os.write(1 if as_json else 2, (_AS_JSON if as_json else f"{WORD}\n").encode())
    finally:
        os._exit(INTERRUPTED)


class Handling:
    """Context in which SIGINT has this handler, unless it is ignored as in a shell's background jobs."""

    def __init__(self, handler: signal._HANDLER) -> None:
        self._handler = handler

    def __enter__(self) -> None:
        self._before = signal.getsignal(signal.SIGINT)
        self._set(self._handler)

    def __exit__(self, *_: object) -> None:
        self._set(self._before)

    def _set(self, handler: signal._HANDLER) -> None:
        if self._before is not signal.SIG_IGN:
            signal.signal(signal.SIGINT, handler)


def end_at_once() -> None:
    """Install the handler for the rest of the process."""
    ending_at_once().__enter__()


def before_end(clean_up: Callable[[], None]) -> None:
    """Call `clean_up` before the handler ends the process."""
    _CLEAN_UPS.append(clean_up)


def ending_at_once() -> Handling:
    """Context for a question: ctrl+c ends the process."""
    return Handling(_end)


def raising() -> Handling:
    """Context for code that must clean up: ctrl+c raises KeyboardInterrupt."""
    return Handling(signal.default_int_handler)
