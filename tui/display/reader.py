"""What is typed, from the terminal to the app, until one of them has gone.

Textual's own reader ends the app with a traceback on bytes that are no UTF-8, and asks a terminal that has
been closed again and again, at the cost of a whole core.
"""

from __future__ import annotations

import os
import selectors
from codecs import getincrementaldecoder
from collections.abc import Callable
from threading import Event

from textual._parser import ParseError
from textual._xterm_parser import XTermParser
from textual.message import Message

WAIT = 0.1
"""Seconds for which a lone escape is held, as what follows may make it a key's sequence."""
MOST = 4096


def read_keys(fd: int, ended: Event, take: Callable[[Message], None], *, debug: bool = False) -> bool:
    """Give everything typed to `take`; true when the terminal has gone, false when `ended` was set."""
    parser = XTermParser(debug)
    decode = getincrementaldecoder("utf-8")("replace").decode
    gone = False
    with selectors.SelectSelector() as selector:
        selector.register(fd, selectors.EVENT_READ)
        while not ended.is_set() and not gone:
            if selector.select(WAIT):
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


def _read(fd: int) -> bytes | None:
    """What can be read; no bytes where the terminal has gone, `None` where another reader was quicker."""
    try:
        return os.read(fd, MOST)
    except BlockingIOError:
        return None
    except OSError:
        return b""
