"""The frame of the screen, written before anything is loaded: it stands while the console starts.

Standard library only, and little of it: what is imported here is waited for before the first sign of life.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

ENTER = "\x1b[?1049h\x1b[?25l\x1b[H\x1b[2J"
LEAVE = "\x1b[?25h\x1b[?1049l"
_FLAGS = ("--read-only", "--slow", "--ascii")
_CHOICES = {"--context": "context_name", "--output": "output"}
_OUTPUTS = ("diff", "stock")

_standing: int | None = None
"""The terminal that the skeleton stands on; `None` where there is none, or where it has been replaced."""


def screen_options(argv: Sequence[str]) -> dict[str, str | bool] | None:
    """The arguments of `screen` where `argv` (without the program) opens the screen, else `None`.

    It knows just what the screen takes, so that the screen opens without the parser of the verbs. Whatever
    it does not understand is left to that one, which also says what is wrong.
    """
    found: dict[str, str | bool] = {"context_name": "", "read_only": False}
    rest = list(argv)
    while rest:
        word, _, value = rest.pop(0).partition("=")
        if word in _FLAGS and not value:
            found["ascii_only" if word == "--ascii" else word[2:].replace("-", "_")] = True
        elif word in _CHOICES and (value or rest):
            value = value or rest.pop(0)
            if word == "--output" and value not in _OUTPUTS:
                return None
            found[_CHOICES[word]] = value
        else:
            return None
    return found


def show(context: str = "", *, ascii_only: bool = False) -> None:
    """Draw the skeleton where keyboard and output are a terminal; nothing happens elsewhere."""
    global _standing  # noqa: PLW0603 - there is one terminal
    if os.environ.get("TERM", "") in {"", "dumb"} or not os.isatty(0):
        return
    tty = next((fd for fd in (1, 2) if os.isatty(fd)), None)
    if tty is None:
        return
    try:
        columns, rows = _size(tty)
        os.write(tty, (ENTER + frame(columns, rows, context, ascii_only=ascii_only)).encode())
    except OSError:
        return
    _standing = tty


def _size(tty: int) -> tuple[int, int]:
    """Columns and rows, as Textual will take them: the environment's go before the terminal's own."""
    columns, rows = os.get_terminal_size(tty)
    given = [os.environ.get(name, "") for name in ("COLUMNS", "LINES")]
    wanted = [int(text) if text.isdecimal() else 0 for text in given]
    return wanted[0] or columns, wanted[1] or rows


def frame(columns: int, rows: int, context: str = "", *, ascii_only: bool = False) -> str:
    """What `show` draws: the two lines above and the line of keys, where the screen will have them."""
    dots = "..." if ascii_only else "…"
    name = "".join(c if c.isprintable() else "?" for c in context)
    top = f" vxtui   {name}"[: max(0, columns - 12)]
    right = f"starting{dots} "
    gap = " " * max(1, columns - len(top) - len(right))
    keys = " ctrl+q quit"[:columns]
    lines = f"\x1b[1m{top}\x1b[m{gap}\x1b[2m{right}\x1b[m\r\n \x1b[1mJobs\x1b[m"
    return f"{lines}\x1b[{rows};1H\x1b[2m{keys}\x1b[m\x1b[H"


def hand_over() -> None:
    """The screen takes the terminal from here: it draws over the skeleton, and leaves the terminal itself."""
    global _standing  # noqa: PLW0603
    _standing = None


def take_back() -> None:
    """Give the terminal back as it was, where the skeleton still stands."""
    global _standing
    if _standing is not None:
        tty, _standing = _standing, None
        os.write(tty, LEAVE.encode())
