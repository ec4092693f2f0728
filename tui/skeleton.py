"""The frame of the screen, drawn before anything is loaded and shown while the console starts.

This module imports only a few modules of the standard library, because each import delays the first output.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

ENTER = "\x1b[?1049h\x1b[?25l\x1b[H\x1b[2J"
LEAVE = "\x1b[?25h\x1b[?1049l"
_FLAGS = ("--read-only", "--slow", "--ascii")
_CHOICES = {"--context": "context_name", "--output": "output"}
_OUTPUTS = ("diff", "stock")

_shown_on: int | None = None
"""The terminal that shows the skeleton; `None` without a skeleton, e.g. once the screen has taken over."""


def screen_options(argv: Sequence[str]) -> dict[str, str | bool] | None:
    """Return the arguments of `screen` if `argv` (without the program) opens the screen, else `None`.

    Only the screen's options are parsed, so that the screen opens without the verbs' parser, which handles
    everything else and reports errors.
    """
    options: dict[str, str | bool] = {"context_name": "", "read_only": False}
    rest = list(argv)
    while rest:
        word, _, value = rest.pop(0).partition("=")
        if word in _FLAGS and not value:
            options["ascii_only" if word == "--ascii" else word[2:].replace("-", "_")] = True
        elif word in _CHOICES and (value or rest):
            value = value or rest.pop(0)
            if word == "--output" and value not in _OUTPUTS:
                return None
            options[_CHOICES[word]] = value
        else:
            return None
    return options


def show(context: str = "", *, ascii_only: bool = False) -> None:
    """Draw the skeleton if input and output are a terminal; otherwise do nothing."""
    global _shown_on  # noqa: PLW0603 - there is one terminal
    if os.environ.get("TERM", "") in {"", "dumb"} or not os.isatty(0):
        return
    tty = next((fd for fd in (1, 2) if os.isatty(fd)), None)
    if tty is None:
        return
    _shown_on = tty
    try:
        columns, rows = _size(tty)
        os.write(tty, (ENTER + frame(columns, rows, context, ascii_only=ascii_only)).encode())
    except OSError:
        _shown_on = None


def _size(tty: int) -> tuple[int, int]:
    """Return columns and rows as Textual reads them: from the environment first, then from the terminal."""
    columns, rows = os.get_terminal_size(tty)
    texts = [os.environ.get(name, "") for name in ("COLUMNS", "LINES")]
    sizes = [int(text) if text.isdecimal() else 0 for text in texts]
    return sizes[0] or columns, sizes[1] or rows


def frame(columns: int, rows: int, context: str = "", *, ascii_only: bool = False) -> str:
    """Return the text that `show` draws: the two top lines and the line of keys, at their positions."""
    dots = "..." if ascii_only else "…"
    name = "".join(c if c.isprintable() else "?" for c in context)
    top = f" vxtui   {name}"[: max(0, columns - 12)]
    right = f"starting{dots} "
    gap = " " * max(1, columns - len(top) - len(right))
    keys = " ctrl+q quit"[:columns]
    lines = f"\x1b[1m{top}\x1b[m{gap}\x1b[2m{right}\x1b[m\r\n \x1b[1mJobs\x1b[m"
    return f"{lines}\x1b[{rows};1H\x1b[2m{keys}\x1b[m\x1b[H"


def hand_over() -> None:
    """Hand the terminal over to the screen, which draws over the skeleton and restores the terminal."""
    global _shown_on  # noqa: PLW0603
    _shown_on = None


def take_back() -> None:
    """Restore the terminal if the skeleton is still shown."""
    global _shown_on
    if _shown_on is not None:
        tty, _shown_on = _shown_on, None
        os.write(tty, LEAVE.encode())
