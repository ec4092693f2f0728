"""The state of a script: variables, functions and files."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class State:
    """Variables, functions and files at one point of a script. `files` are those that it writes."""

    base: str
    script: str
    arguments: list[str] = field(default_factory=list)
    variables: dict[str, str | list[str]] = field(default_factory=dict)
    unset: set[str] = field(default_factory=set)
    functions: dict[str, Any] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    place: str = "."
    depth: int = 0

    def copy(self) -> State:
        """A state that changes on its own."""
        lists = {k: list(v) if isinstance(v, list) else v for k, v in self.variables.items()}
        return State(self.base, self.script, list(self.arguments), lists, set(self.unset),
                     dict(self.functions), dict(self.files), self.place, self.depth)  # fmt: skip

    def restore(self, other: State) -> None:
        """Become what `other` is."""
        self.arguments, self.variables, self.unset = other.arguments, other.variables, other.unset
        self.functions, self.files, self.place = other.functions, other.files, other.place

    def path(self, name: str) -> str:
        """A file's name relative to the folder of the script."""
        return posixpath.normpath(posixpath.join(self.place, name))

    def folder(self) -> str:
        """The current folder, absolute where the script's own is known."""
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
        self.variables[name] = value
