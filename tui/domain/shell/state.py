"""The state of a script: variables, functions and files."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass, field
from time import thread_time
from typing import Any

MOST_TEXT = 1_000_000
"""Maximum number of characters in one text of a script."""
_MOST_TOTAL = 8_000_000
"""Maximum number of characters in all texts together; each text also counts `_EACH` characters."""
_EACH = 16
_MOST_PARSED = 500_000
"""Maximum number of characters that are parsed. The parser's tree takes 200 bytes per character."""
_MOST_PIPES = 2000
"""Maximum number of `|` that are parsed: the memory of the parser grows with their square."""
_SECONDS = 5.0
"""Longest reading, in seconds of CPU time. A large process may spend 2 s on one garbage collection."""


class TooMuch(Exception):
    """The script exceeds a limit of the reading; the message completes "the script …"."""

    @classmethod
    def text(cls) -> TooMuch:
        return cls(f"makes a text of more than {MOST_TEXT:,} characters")


class ShellBudget:
    """Text and time left for one reading."""

    def __init__(self) -> None:
        self._left = _MOST_TOTAL
        self._parsed = self._pipes = 0
        self._end = thread_time() + _SECONDS

    def spend(self, size: int, texts: int = 1) -> None:
        """Subtract texts with this total size from the budget. Raises TooMuch."""
        self._left -= size + texts * _EACH
        if size > MOST_TEXT:
            raise TooMuch.text()
        if self._left < 0:
            raise TooMuch(f"makes texts of more than {_MOST_TOTAL:,} characters")
        if self.late:
            raise TooMuch(f"takes more than {_SECONDS:.0f} s to read")

    @property
    def late(self) -> bool:
        """Whether the time limit has passed."""
        return thread_time() > self._end

    def parse(self, text: str) -> None:
        """Count a text that is to be parsed. Raises TooMuch."""
        self._parsed += len(text)
        self._pipes += text.count("|")
        if self._parsed > _MOST_PARSED:
            raise TooMuch(f"has more than {_MOST_PARSED:,} characters")
        if self._pipes > _MOST_PIPES:
            raise TooMuch(f"has more than {_MOST_PIPES:,} pipes")


@dataclass(slots=True)
class State:
    """Variables, functions and files at one point of a script. `files` are the files that it writes."""

    base: str
    script: str
    budget: ShellBudget = field(default_factory=ShellBudget)
    arguments: list[str] = field(default_factory=list)
    variables: dict[str, str | list[str]] = field(default_factory=dict)
    unset: set[str] = field(default_factory=set)
    functions: dict[str, Any] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    place: str = "."
    depth: int = 0

    def copy(self) -> State:
        """Return an independent copy of the state."""
        lists = {k: list(v) if isinstance(v, list) else v for k, v in self.variables.items()}
        self.budget.spend(0, len(lists) + sum(len(v) for v in lists.values() if isinstance(v, list)))
        return State(self.base, self.script, self.budget, list(self.arguments), lists, set(self.unset),
                     dict(self.functions), dict(self.files), self.place, self.depth)  # fmt: skip

    def restore(self, other: State) -> None:
        """Set this state to the content of `other`."""
        self.arguments, self.variables, self.unset = other.arguments, other.variables, other.unset
        self.functions, self.files, self.place = other.functions, other.files, other.place

    def path(self, name: str) -> str:
        """Return a file's name relative to the folder of the script."""
        return posixpath.normpath(posixpath.join(self.place, name))

    def folder(self) -> str:
        """Return the current folder, absolute if the script's own folder is known."""
        return posixpath.normpath(posixpath.join(self.base, self.place))

    def assign(self, name: str, value: str | list[str], *, append: bool = False) -> None:
        """Set a variable."""
        self.unset.discard(name)
        before = self.variables.get(name)
        if append and isinstance(value, list):
            old = before if isinstance(before, list) else [] if before is None else [before]
            value = [*old, *value]
        elif append and isinstance(value, str):
            value = (before if isinstance(before, str) else "") + value
        self.budget.spend(0, len(value)) if isinstance(value, list) else self.budget.spend(len(value))
        self.variables[name] = value
