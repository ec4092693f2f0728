"""Reads typed input from the terminal until the app or the terminal ends.

Textual's reader ends the app with a traceback on bytes that are not UTF-8, and polls a closed terminal in a
busy loop.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
from codecs import getincrementaldecoder
from collections.abc import Callable
from threading import Event

from textual._parser import ParseError
from textual._time import get_time
from textual._xterm_parser import XTermParser
from textual.message import Message

MAX_BYTES = 4096


class StopEvent(Event):
    """An event that can be awaited together with a file: `fileno` becomes readable once the event is set."""

    def __init__(self) -> None:
        super().__init__()
        self._wake = socket.socketpair()

    def fileno(self) -> int:
        return self._wake[0].fileno()

    def set(self) -> None:
        super().set()
        self._wake[1].send(b"!")

    def clear(self) -> None:
        super().clear()
        self._wake[0].setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while self._wake[0].recv(MAX_BYTES):
                pass


def read_keys(fd: int, ended: StopEvent, take: Callable[[Message], None], *, debug: bool = False) -> bool:
    """Pass all input to `take`. Return True when the terminal has closed, False when `ended` was set.

    The thread sleeps while nothing is typed.
    """
    parser = XTermParser(debug)
    decode = getincrementaldecoder("utf-8")("replace").decode
    gone = False
    with selectors.SelectSelector() as selector:
        selector.register(fd, selectors.EVENT_READ)
        selector.register(ended, selectors.EVENT_READ)
        while not ended.is_set() and not gone:
            if any(key.fd == fd for key, _ in selector.select(_held(parser))):
                data = _read(fd)
                gone = data == b""
                for message in parser.feed(decode(data)) if data else ():
                    take(message)
            for message in parser.tick():
                take(message)
    try:
        for _ in parser.feed(""):
            pass
    except (EOFError, ParseError):
        pass
    return gone


def _held(parser: XTermParser) -> float | None:
    """Return the seconds to hold a lone escape, which may be the start of a key's sequence."""
    until = parser._timeout_time
    return None if until is None else max(0.0, until - get_time())


def _read(fd: int) -> bytes | None:
    """Return the available bytes; b"" if the terminal has closed, `None` if another reader consumed them."""
    try:
        return os.read(fd, MAX_BYTES)
    except BlockingIOError:
        return None
    except OSError:
        return b""
