"""The interface of an interpreter to its builtins, conditions and branches."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from tui.domain.shell.expansion import Expander
from tui.domain.shell.parameters import OpenValues
from tui.domain.shell.script import Script
from tui.domain.shell.state import State
from tui.domain.shell.syntax import Source


class ScriptReading(ABC):
    """What the parts of an interpreter ask of each other."""

    state: State
    source: Source
    script: Script
    values: OpenValues
    expander: Expander
    program: str
    assumed: bool
    output: list[str] | None
    opaque: bool
    stdin: str | None

    @abstractmethod
    def run(self, node: Any) -> bool | None:
        """Run one node."""

    @abstractmethod
    def note(self, node: Any, message: str) -> None:
        """Say what could not be followed."""

    @abstractmethod
    def note_line(self, line: int, message: str) -> None:
        """Note that a line could not be followed."""

    @abstractmethod
    def arithmetic(self, text: str, node: Any) -> bool | None:
        """`((…))`."""

    @abstractmethod
    def forget(self, node: Any, why: str) -> None:
        """Take a statement's variables as unknown."""

    def unknown(self, problem: str) -> str:
        """A value that is an error where it reaches the service."""
        return self.expander.unknown(problem)

    @abstractmethod
    def run_all(self, nodes: list[Any]) -> bool | None:
        """Run several nodes; the status of the last."""

    @abstractmethod
    def run_source(self, source: Source) -> None:
        """Run a whole text."""

    @abstractmethod
    def run_command(self, node: Any, extra: tuple[Any, ...] = ()) -> bool | None:
        """Run a command with further words."""

    @abstractmethod
    def joined(self, status: bool | None, operator: str, right: Any) -> bool | None:
        """What follows `&&` or `||`."""

    @abstractmethod
    def read_file(self, name: str) -> str:
        """A file. Raises OSError."""
