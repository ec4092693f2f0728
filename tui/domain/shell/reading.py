"""One reading of a script: its state, its notes, and the execution of nodes, texts and substitutions."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from tui.domain.shell.expansion import Expander, Stop
from tui.domain.shell.parameters import OPEN, OpenValue, OpenValues
from tui.domain.shell.scanning import Unclosed
from tui.domain.shell.script import NotRead, Outside, Script, Word, short
from tui.domain.shell.state import State, TooMuch
from tui.domain.shell.syntax import ScriptSource

Statement = Callable[["ScriptReading", Any], bool | None]
"""Function that runs a node of one type; returns whether it succeeds, or `None` if that is unknown."""
_MAX_DEPTH = 400
_MAX_STEPS = 100_000
_ASSIGNED = re.compile(r"\b([A-Za-z_]\w*)\+?=")


class Exit(Exception):
    """The script called `exit`."""

    def __init__(self, status: int | None = 0) -> None:
        super().__init__(status)
        self.status = status


class Return(Exception):
    """A function called `return`."""

    def __init__(self, status: int | None = 0) -> None:
        super().__init__(status)
        self.status = status


class Loop(Exception):
    """A loop called `break` or `continue`."""

    def __init__(self, levels: int, *, again: bool) -> None:
        super().__init__(levels)
        self.levels, self.again = levels, again


class ScriptReading:
    """The state of one reading; `statements` maps types of nodes to the functions that run them."""

    def __init__(  # noqa: PLR0917 - everything that a reading depends on
        self,
        file: str,
        program: str,
        base: str,
        environment: Mapping[str, str],
        read: Callable[[str], str] | None,
        statements: Mapping[str, Statement],
    ) -> None:
        self.file, self.program, self._read, self._statements = file, program, read, statements
        self.state = State(base, "./" + file.rsplit("/", 1)[-1])
        self.values = OpenValues()
        self.expander = Expander(self.state, self.values, environment.get, self._substitute)
        self.script = Script()
        self.source: ScriptSource
        self.output: list[str] | None = None
        """Captured output; `None` while the output is not captured."""
        self.opaque = False
        """Whether the captured output is unknown."""
        self.stdin: str | None = None
        self.naming = ""
        """Name of the variable being assigned, which becomes the name of an open value."""
        self.assumed = False
        """Whether the last condition depends on an open value."""
        self.locals: list[dict[str, Any]] = []
        """Earlier values of the local variables, for each running function."""
        self._depth = 0
        self._steps = 0

    def run_source(self, source: ScriptSource) -> None:
        """Run an entire text."""
        before, self.source = getattr(self, "source", source), source
        try:
            self.run(source.root)
        finally:
            self.source = before

    def note(self, node: Any, message: str) -> None:
        """Record once that a statement could not be followed."""
        self.note_line(self.source.line(node), message)

    def note_line(self, line: int, message: str) -> None:
        """Record once that a line could not be followed."""
        file = "" if self.source.file == self.file else f"{self.source.file}, "
        words = f"{file}line {line}: {message}"
        if words not in self.script.notes:
            self.script.notes.append(words)

    # Statements

    def run(self, node: Any) -> bool | None:
        """Run one node; return whether it succeeds, or `None` if that is unknown."""
        self._steps += 1
        if self._steps > _MAX_STEPS or self._depth > _MAX_DEPTH:
            raise NotRead("the script has too many steps to be followed.", self.source.line(node))
        statement = self._statements.get(node.type)
        # Inside a group each statement is checked separately.
        if node.has_error and node.type not in {"program"}:
            return self._not_read(node)
        if statement is None:
            if not node.is_named or node.type == "comment":
                return True
            self.forget(node, "is not followed")
            return None
        self._depth += 1
        try:
            self.state.budget.spend(0)
            return statement(self, node)
        except Unclosed as error:
            text = f"the quote or bracket {error} is not closed."
            raise NotRead(text, self.source.line(node)) from error
        except TooMuch as error:
            raise NotRead(f"the script {error}.", self.source.line(node)) from error
        except (ValueError, LookupError, ArithmeticError) as error:
            # A missing job is better than a wrong job.
            raise NotRead(
                f"`{short(self.source.of(node))}` can't be followed.", self.source.line(node)
            ) from error
        except RecursionError as error:
            raise NotRead("the script is nested too deeply.", self.source.line(node)) from error
        finally:
            self._depth -= 1

    def _not_read(self, node: Any) -> bool | None:
        text = self.source.of(node)
        if self.program in text:
            bad = _first_error(node)
            words = f"bash's syntax can't be read here: {self.source.of(bad)[:40]!r}."
            raise NotRead(words, self.source.line(bad), self.source.column(bad.start_byte))
        self.forget(node, "is not read")
        return None

    def forget(self, node: Any, why: str) -> None:
        """Mark the variables that a statement sets as unknown."""
        text = self.source.of(node)
        line = self.source.line(node)
        self.note(node, f"`{short(text)}` {why}.")
        for name in _ASSIGNED.findall(text):
            self.state.assign(
                name, self.unknown(f"{name} is set in line {line} by a command that can't be followed")
            )

    def run_all(self, nodes: list[Any]) -> bool | None:
        """Run several nodes; return the status of the last node."""
        status: bool | None = True
        for child in nodes:
            status = self.run(child)
        return status

    def unknown(self, problem: str) -> str:
        """Return an open value that is an error if it reaches the service."""
        return self.expander.unknown(problem)

    def word(self, text: str, start: int) -> Word:
        """Return a text as a Word with its position."""
        self.state.budget.spend(len(text))
        used = self.values.of(text)
        self.script.values |= {v.name: v for v in used}
        problem = next((v.problem for v in used if v.problem), "")
        names = tuple(v.name for v in used)
        line, column = self.source.line_at(start), self.source.column(start)
        return Word(self.values.template(text), line, column, names, problem)

    def read_file(self, name: str) -> str:
        """Read a file that the script wrote or that is next to it. Raises OSError."""
        path = self.state.path(name)
        if path in self.state.files:
            return self.state.files[path]
        if self._read is None or OPEN.search(path):
            raise FileNotFoundError(path)
        try:
            text = self._read(path)
        except Outside:
            self.note_line(self.expander.line, f"{path} lies outside the script's folder and is not read.")
            raise
        self.state.budget.spend(len(text))
        if OPEN.search(text):
            raise FileNotFoundError(path)
        return text

    # Substitution

    def _substitute(self, text: str, line: int) -> str:
        """Return the output of `$(text)`: computed if it depends only on the script, else an open value."""
        saved = self.state.copy(), self.output, self.opaque, self.stdin, self.naming
        self.output, self.opaque = [], False
        try:
            source = ScriptSource(text, self.source.file, self.state.budget, line)
            redirects = [part for node in source.root.named_children for part in node.named_children]
            # `$(<file)` is the text of the file.
            if [r.type for r in redirects] == ["file_redirect"] and redirects[0].children[0].type == "<":
                name = self.expander.text(source.of(redirects[0].children[-1]), line)
                self.output.append(self.read_file(name))
            else:
                self.run_source(source)
            if not self.opaque:
                return "".join(self.output).rstrip("\n")
        except (Exit, Stop, OSError):
            pass
        finally:
            before, self.output, self.opaque, self.stdin, self.naming = saved
            self.state.restore(before)
        name = self.naming or _name_for(text)
        shown = OPEN.sub("…", " ".join(text.split()))
        help = f"$({shown}) in line {line}"
        return self.values.add(OpenValue(name, help, line, command="" if OPEN.search(text) else text))


def _name_for(text: str) -> str:
    words = re.findall(r"[A-Za-z][\w]*", text)
    return "_".join(words[: 2 if words[:1] == ["git"] else 1]) or "output"


def _first_error(node: Any) -> Any:
    while not (node.is_error or node.is_missing):
        following = next((c for c in node.children if c.has_error or c.is_error or c.is_missing), None)
        if following is None:
            return node
        node = following
    return node
