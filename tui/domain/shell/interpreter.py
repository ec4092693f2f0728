"""What a script would call, in order, with the words of each call."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from tui.domain.shell.builtins import Builtins
from tui.domain.shell.conditions import holds
from tui.domain.shell.control_flow import ControlFlow
from tui.domain.shell.expansion import Expander, Stop
from tui.domain.shell.parameters import OPEN, OpenValue, OpenValues
from tui.domain.shell.scanning import Unclosed
from tui.domain.shell.script import Call, NotRead, Script, Word, short
from tui.domain.shell.signals import Exit, Loop, Return
from tui.domain.shell.state import State
from tui.domain.shell.syntax import Source

_NO_WORDS = {"variable_assignment", "herestring_redirect", "file_redirect", "heredoc_redirect", "comment"}
_DEPTH = 40
_ASSIGNED = re.compile(r"\b([A-Za-z_]\w*)\+?=")


def read_script(
    text: str,
    file: str,
    program: str,
    *,
    base: str = "",
    environment: Mapping[str, str] | None = None,
    read: Callable[[str], str] | None = None,
) -> Script:
    """Every call of `program`, as bash would make them.

    `base` is the script's folder and `read` reads a file relative to it (raises OSError).

    Raises:
        NotRead: with the line that bash would refuse or that can't be followed at all.
    """
    reading = Interpreter(file, program, base, environment or {}, read)
    reading.read(text)
    return reading.script


class Interpreter(ControlFlow):
    def __init__(
        self,
        file: str,
        program: str,
        base: str,
        environment: Mapping[str, str],
        read: Callable[[str], str] | None,
    ) -> None:
        self.program, self._environment, self._read = program, environment, read
        self.state = State(base, "./" + file.rsplit("/", 1)[-1])
        self.values = OpenValues()
        self.expander = Expander(self.state, self.values, environment.get, self.substitute)
        self.script = Script()
        self.file = file
        self.output: list[str] | None = None
        self.opaque = False
        self.stdin: str | None = None
        self.naming = ""
        self.assumed = False
        self._depth = 0
        self._calls = 0
        self._builtins = Builtins(self)

    def read(self, text: str) -> None:
        if found := OPEN.search(text):
            line = text.count("\n", 0, found.start()) + 1
            raise NotRead("the script has a character of a private plane; remove it.", line)
        try:
            self.run_source(Source(text, self.file))
        except Exit:
            return
        except Stop as error:
            raise NotRead(f"the script ends here: {error}.", self.expander.line) from error
        except (Return, Loop):
            return

    def run_source(self, source: Source) -> None:
        """Run a whole text."""
        before, self.source = getattr(self, "source", source), source
        try:
            self.run(source.root)
        finally:
            self.source = before

    def note(self, node: Any, message: str) -> None:
        """Say once what could not be followed."""
        self.note_line(self.source.line(node), message)

    def note_line(self, line: int, message: str) -> None:
        """Note once that a line could not be followed."""
        file = "" if self.source.file == self.file else f"{self.source.file}, "
        words = f"{file}line {line}: {message}"
        if words not in self.script.notes:
            self.script.notes.append(words)

    # Statements

    def run(self, node: Any) -> bool | None:
        """Run one node; whether it succeeds, None where that is not known."""
        self._calls += 1
        if self._calls > 100_000 or self._depth > _DEPTH * 10:
            raise NotRead("the script has too many steps to be followed.", self.source.line(node))
        method = self.run_command if node.type == "command" else getattr(self, f"_run_{node.type}", None)
        # Inside a group each statement is looked at on its own.
        if node.has_error and node.type not in {"program"}:
            return self._not_read(node)
        if method is None:
            if not node.is_named or node.type == "comment":
                return True
            self.forget(node, "is not followed")
            return None
        self._depth += 1
        try:
            found: bool | None = method(node)
            return found
        except Unclosed as error:
            text = f"the quote or bracket {error} is not closed."
            raise NotRead(text, self.source.line(node)) from error
        except (ValueError, LookupError, ArithmeticError, re.error) as error:
            # Better no job than a wrong one.
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
        """Take a statement's variables as unknown."""
        text = self.source.of(node)
        line = self.source.line(node)
        self.note(node, f"`{short(text)}` {why}.")
        for name in _ASSIGNED.findall(text):
            self.state.assign(name, self.unknown(f"{name} is set in line {line} by what can't be followed"))

    def _run_program(self, node: Any) -> bool | None:
        status: bool | None = True
        for child in node.named_children:
            if child.is_error:
                self._broken(child)
            following = child.next_named_sibling
            if following is not None and following.is_error:
                self._broken(following)
            status = self.run(child)
        return status

    def _broken(self, node: Any) -> None:
        """Refuse broken syntax beside a call: the call may be cut."""
        near = [n for n in (node.prev_named_sibling, node, node.next_named_sibling) if n is not None]
        if any(self.program in self.source.of(n) for n in near):
            text = self.source.of(node)
            start = node.start_byte
            if text[:1] in "'\"":
                words = f"the quote {text[0]} is not closed."
            else:
                words = f"bash's syntax can't be read here: {short(text)!r}."
            raise NotRead(words, self.source.line(node), self.source.column(start))

    _run_do_group = _run_else_clause = _run_program

    def _run_compound_statement(self, node: Any) -> bool | None:
        text = self.source.of(node)
        return self.arithmetic(text[2:-2], node) if text.startswith("((") else self._run_program(node)

    def _run_subshell(self, node: Any) -> bool | None:
        text = self.source.of(node)
        if text.startswith("((") and text.endswith("))"):
            # After `!` the grammar takes arithmetic for one.
            return self.arithmetic(text[2:-2], node)
        before = self.state.copy()
        try:
            return self._run_program(node)
        except Exit as signal:
            return signal.status == 0
        finally:
            self.state.restore(before)

    def _run_function_definition(self, node: Any) -> bool:
        name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
        self.state.functions[self.source.of(name)] = (self.source, body)
        return True

    def _run_list(self, node: Any) -> bool | None:
        left, operator, right = node.children[0], node.children[1].type, node.children[-1]
        return self.joined(self.run(left), operator, right)

    def joined(self, status: bool | None, operator: str, right: Any) -> bool | None:
        if status is None:
            self.maybe(right)
            return None
        if status is (operator == "&&"):
            if self.assumed:
                return self._as_assumed(right)
            return self.run(right)
        return status

    def _as_assumed(self, node: Any) -> bool | None:
        """Run what only a value of the environment allows; an end of the script there is not taken."""
        self.assumed = False
        before = self.state.copy()
        try:
            return self.run(node)
        except (Exit, Stop):
            self.state.restore(before)
            return True

    def _run_pipeline(self, node: Any) -> bool | None:
        stages = node.named_children
        before, stdin, outer, opaque = self.state.copy(), self.stdin, self.output, self.opaque
        try:
            for stage in stages[:-1]:
                self.output, self.opaque = [], False
                self.run(stage)
                self.state.restore(before.copy())
                self.stdin = None if self.opaque else "".join(self.output)
                if self.opaque:
                    self.stdin = self.unknown(f"the output of `{short(self.source.of(stage))}` is unknown")
            self.output, self.opaque = outer, opaque
            return self.run(stages[-1])
        finally:
            self.state.restore(before)
            self.stdin = stdin
            self.output = outer

    def _run_negated_command(self, node: Any) -> bool | None:
        status = self.run(node.named_children[-1])
        return None if status is None else not status

    def _run_test_command(self, node: Any) -> bool | None:
        text = self.source.of(node)
        if text.startswith("(("):
            return self.arithmetic(text[2:-2], node)
        status, assumed = holds(node, self)
        if assumed and status is not None:
            self.note(node, f"`{short(text)}` is decided as if the script ran here.")
        self.assumed = assumed
        return status

    def arithmetic(self, text: str, node: Any) -> bool | None:
        """`((…))`; assignments are made."""
        status: bool | None = None
        for part in text.split(","):
            match = re.fullmatch(r"\s*([A-Za-z_]\w*)\s*(\+\+|--|[-+*/%]?=(?!=))\s*(.*?)\s*", part, re.DOTALL)
            prefix = re.fullmatch(r"\s*(\+\+|--)\s*([A-Za-z_]\w*)\s*", part)
            if prefix:
                match = re.fullmatch(r"([A-Za-z_]\w*)(\+\+|--)(.*)", prefix[2] + prefix[1])
            if match is None:
                value = self.expander.number(part)
            else:
                name, operator, rest = match.groups()
                step = f"{name}{operator[0]}1" if operator in {"++", "--"} else rest
                step = f"{name}{operator[0]}({rest})" if len(operator) == 2 and rest else step
                if name not in self.state.variables and self.expander.known(name) is None:
                    self.state.assign(name, "0")
                value = self.expander.number(step)
                self.state.assign(name, value)
            status = value != "0" if re.fullmatch(r"-?\d+", value) else None
        return status

    # Commands

    def _run_variable_assignment(self, node: Any) -> bool:
        name_node, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        name, line = self.source.of(name_node), self.source.line(node)
        append = any(child.type == "+=" for child in node.children)
        if name_node.type == "subscript":
            self._assign_element(name, value, line)
            return True
        self.naming = name
        try:
            if value is not None and value.type == "array":
                self.state.assign(name, self._array(value), append=append)
            else:
                start = next(c for c in node.children if c.type in {"=", "+="}).end_byte
                text = self.source.text(start, node.end_byte)
                self.state.assign(name, self.expander.text(text, line), append=append)
        finally:
            self.naming = ""
        return True

    def _run_variable_assignments(self, node: Any) -> bool:
        self.run_all(node.named_children)
        return True

    def _array(self, node: Any) -> list[str]:
        found: list[str] = []
        for start, text in self.source.arguments([c for c in node.named_children if c.type != "comment"]):
            if re.match(r"\[[^]]*\]=", text):
                return [self.unknown("an array with keys can't be followed")]
            found += self.expander.words(text, self.source.line_at(start))
        return found

    def _assign_element(self, target: str, value: Any, line: int) -> None:
        name, _, index = target.partition("[")
        number = self.expander.number(index.removesuffix("]"))
        values = self.state.variables.get(name, [])
        made = "" if value is None else self.expander.text(self.source.of(value), line)
        if isinstance(values, list) and number.isdigit() and int(number) <= len(values):
            self.state.assign(name, [*values[: int(number)], made, *values[int(number) + 1 :]])
        else:
            self.state.assign(name, [self.unknown(f"{target} can't be followed")])

    def _run_declaration_command(self, node: Any) -> bool | None:
        return self._builtins.declare(node)

    def _run_unset_command(self, node: Any) -> bool:
        for child in node.named_children:
            name = self.source.of(child)
            self.state.variables.pop(name, None)
            self.state.unset.add(name)
        return True

    def _run_redirected_statement(self, node: Any) -> bool | None:
        return self._builtins.redirected(node)

    def run_command(self, node: Any, extra: tuple[Any, ...] = ()) -> bool | None:
        self._assignments_before(node)
        here = [c for c in node.children if c.type == "herestring_redirect"]
        nodes = [c for c in (*node.children, *extra) if c.is_named and c.type not in _NO_WORDS]
        words = [
            (start, made)
            for start, text in self.source.arguments(nodes)
            for made in self.expander.words(text, self.source.line_at(start))
        ]
        outer = self.stdin
        if here:
            self.stdin = self.expander.text(self.source.of(here[0].named_children[-1]),
                                            self.source.line(node)) + "\n"  # fmt: skip
        try:
            if not words:
                self.run_all([c for c in node.children if c.type == "variable_assignment"])
                return True
            return self.call(node, words)
        finally:
            if here:
                self.stdin = outer

    def _assignments_before(self, node: Any) -> None:
        """Make the assignments of lines above a command, which the grammar counts to the command."""
        first = [c for c in node.children if c.type == "variable_assignment"]
        name = node.child_by_field_name("name")
        if not first or name is None:
            return
        gap = self.source.text(first[-1].end_byte, name.start_byte).replace("\\\n", "")
        if "\n" in gap:
            self.run_all(first)

    def call(self, node: Any, words: list[tuple[int, str]]) -> bool | None:
        """Run a command whose words are known."""
        name = self.values.default(words[0][1]) or words[0][1]
        if name in {"exec", "command", "time", "nohup", "builtin", "sudo"} and len(words) > 1:
            if not words[1][1].startswith("-"):
                return self.call(node, words[1:])
            return None
        if name in self.state.functions:
            return self._function(name, [text for _, text in words[1:]])
        builtin = self._builtins.get(name)
        if builtin is not None:
            return builtin(node, [text for _, text in words[1:]])
        if name.rsplit("/", 1)[-1] == self.program:
            self._record(node, words)
        self.opaque = True
        self._builtins.outside(name, [text for _, text in words[1:]])
        if name.rsplit("/", 1)[-1] == self.program:
            return True
        if any(v.problem for v in self.values.of(words[0][1])) or OPEN.search(name):
            self.note(node, "the name of this command is not known.")
        elif name in {"bash", "sh", "xargs", "env", "parallel", "timeout", "nice"} and any(
            self.program in text.split() for _, text in words[1:]
        ):
            line = self.source.line(node)
            raise NotRead(f"{self.program} is called through {name}; call it directly.", line)
        return True if name not in {"command", "which", "type", "test"} else None

    def _function(self, name: str, arguments: list[str]) -> bool | None:
        source, body = self.state.functions[name]
        if self.state.depth >= _DEPTH:
            raise NotRead(f"{name} calls itself too often to be followed.", source.line(body))
        outer, self.state.arguments = self.state.arguments, arguments
        before, self.source = self.source, source
        self.state.depth += 1
        kept: dict[str, Any] = {}
        self._builtins.locals.append(kept)
        try:
            return self.run(body)
        except Return as signal:
            return signal.status == 0
        finally:
            self._builtins.locals.pop()
            for key, value in kept.items():
                if value is None:
                    self.state.variables.pop(key, None)
                else:
                    self.state.variables[key] = value
            self.state.depth -= 1
            self.source, self.state.arguments = before, outer

    def _record(self, node: Any, words: list[tuple[int, str]]) -> None:
        made = tuple(self.word(text, start) for start, text in words)
        files = {
            self.values.template(name): self.word(text, node.start_byte)
            for name, text in self.state.files.items()
        }
        stdin = None if self.stdin is None else self.word(self.stdin, node.start_byte)
        line = self.source.line(node)
        self.script.calls.append(Call(made, self.source.file, line, stdin, files, self.state.place))

    def word(self, text: str, start: int) -> Word:
        """A text with its place."""
        used = self.values.of(text)
        self.script.values |= {v.name: v for v in used}
        problem = next((v.problem for v in used if v.problem), "")
        names = tuple(v.name for v in used)
        line, column = self.source.line_at(start), self.source.column(start)
        return Word(self.values.template(text), line, column, names, problem)

    def read_file(self, name: str) -> str:
        """A file that the script wrote or that lies beside it. Raises OSError."""
        path = self.state.path(name)
        if path in self.state.files:
            return self.state.files[path]
        if self._read is None or OPEN.search(path):
            raise FileNotFoundError(path)
        text = self._read(path)
        if OPEN.search(text):
            raise FileNotFoundError(path)
        return text

    # Substitution

    def substitute(self, text: str, line: int) -> str:
        """The output of `$(text)`: computed where it depends on the script alone, else open."""
        saved = self.state.copy(), self.output, self.opaque, self.stdin, self.naming
        self.output, self.opaque = [], False
        try:
            if not re.match(r"\s*<\s*\S+\s*$", text):
                self.run_source(Source(text, self.source.file, line))
            else:
                self.output.append(self.read_file(self.expander.text(text.strip()[1:].strip(), line)))
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
