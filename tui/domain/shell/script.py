"""The result of reading a script."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tui.domain.shell.parameters import OPEN, OpenValue


class NotRead(Exception):
    """The script is invalid in bash too, or too deep or too long to follow."""

    def __init__(self, message: str, line: int, column: int = 1) -> None:
        super().__init__(message)
        self.message, self.line, self.column = message, line, column


class Outside(OSError):
    """A file lies outside the script's folder."""


@dataclass(frozen=True, slots=True)
class Word:
    """One argument. `text` has `${NAME}` for an open value and `$${` for a literal `${`."""

    text: str
    line: int
    column: int
    names: tuple[str, ...] = ()
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Call:
    """A call of an external command. `stdin` and `files` are its inputs from the script, as in a Word."""

    words: tuple[Word, ...]
    file: str
    line: int
    stdin: Word | None
    files: Mapping[str, Word]
    place: str = "."


@dataclass(slots=True)
class Script:
    """The calls of one program, the open values, and notes on statements that could not be followed."""

    calls: list[Call] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    values: dict[str, OpenValue] = field(default_factory=dict)


def short(text: str) -> str:
    """Shorten a part of a script to one line, for a message."""
    line = " ".join(OPEN.sub("…", text).split())
    return line if len(line) <= 60 else line[:59] + "…"
