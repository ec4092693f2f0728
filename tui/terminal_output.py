"""Keeps the terminal free of other output while the screen is shown.

gRPC's C core and other native code write to file descriptor 2 (docs/facts/clients.md). Therefore fd 2 points
to a log file, and the screen draws on a copy of the terminal's own descriptor.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


class NoTerminal(Exception):
    """The output or the input is not a terminal."""


@contextmanager
def screen_only(log: Path | None) -> Iterator[IO[str]]:
    """Reserve the terminal for the screen; fd 2 goes to `log`, or nowhere without a log.

    The context yields the copy of the terminal on which the screen draws; afterwards everything is restored.
    Raises NoTerminal if there is no terminal to draw on or to read keys from.
    """
    if not os.isatty(0):
        raise NoTerminal("the keyboard must be a terminal")
    shown = next((fd for fd in (1, 2) if os.isatty(fd)), None)
    if shown is None:
        raise NoTerminal("the output must be a terminal")
    saved = os.dup(2)
    display = os.fdopen(os.dup(shown), "w", encoding="utf-8", errors="replace")
    original = sys.__stderr__
    # Write to the descriptor itself, because sys.stderr is captured while the screen is shown.
    handler = logging.StreamHandler(os.fdopen(2, "w", closefd=False))
    handler.setFormatter(logging.Formatter("%(asctime)s %(name)s %(levelname)s %(message)s"))
    try:
        target = _open_log(log)
        os.dup2(target, 2)
        os.close(target)
        # Textual draws on sys.__stderr__.
        sys.__stderr__ = display  # type: ignore[misc]
        logging.getLogger().addHandler(handler)
        yield display
    finally:
        logging.getLogger().removeHandler(handler)
        sys.__stderr__ = original  # type: ignore[misc]
        os.dup2(saved, 2)
        os.close(saved)
        display.close()


def _open_log(log: Path | None) -> int:
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
    if log is not None:
        try:
            log.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            return os.open(log, flags, 0o600)
        except OSError:
            # A full or read-only disk must not prevent the start.
            return os.open(os.devnull, os.O_WRONLY)
    return os.open(os.devnull, os.O_WRONLY)
