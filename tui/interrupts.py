"""Ctrl+C when nothing has to be undone: the process reports the interrupt and ends without a traceback.

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
    """Handle SIGINT by ending the process: an import or a destructor could swallow an exception."""
    try:
        for clean_up in _CLEAN_UPS:
            clean_up()
        as_json = "--json" in sys.argv
        os.write(1 if as_json else 2, (_AS_JSON if as_json else f"{WORD}\n").encode())
    finally:
        os._exit(INTERRUPTED)


class Handling:
    """Context in which the signals have this handler unless they are ignored, as in a background job."""

    def __init__(self, handler: signal._HANDLER, *signals: signal.Signals) -> None:
        self._handler, self._signals = handler, signals

    def __enter__(self) -> None:
        before = {number: signal.getsignal(number) for number in self._signals}
        self._before = {n: handler for n, handler in before.items() if handler is not signal.SIG_IGN}
        for number in self._before:
            signal.signal(number, self._handler)

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)


def end_at_once() -> None:
    """Install the handler until the end of the process."""
    Handling(_end, signal.SIGINT).__enter__()


def before_end(clean_up: Callable[[], None]) -> None:
    """Call `clean_up` before the handler ends the process."""
    _CLEAN_UPS.append(clean_up)


def ending_at_once() -> Handling:
    """Return a context for work without effects, in which ctrl+c or SIGTERM ends the process."""
    return Handling(_end, signal.SIGINT, signal.SIGTERM)


def raising() -> Handling:
    """Return a context for code that must clean up, in which ctrl+c raises KeyboardInterrupt."""
    return Handling(signal.default_int_handler, signal.SIGINT)
