"""Assignments, and the commands that a script calls."""

from __future__ import annotations

import re
from typing import Any

from tui.domain.shell.builtins import BUILTINS, forget_written_files
from tui.domain.shell.parameters import OPEN
from tui.domain.shell.reading import Return, ScriptReading
from tui.domain.shell.script import Call, NotRead

_NO_WORDS = {"variable_assignment", "herestring_redirect", "file_redirect", "heredoc_redirect", "comment"}
_DEPTH = 40


def run_assignment(reading: ScriptReading, node: Any) -> bool:
    name_node, value = node.child_by_field_name("name"), node.child_by_field_name("value")
    name, line = reading.source.of(name_node), reading.source.line(node)
    append = any(child.type == "+=" for child in node.children)
    if name_node.type == "subscript":
        _assign_element(reading, name, value, line)
        return True
    reading.naming = name
    try:
        if value is not None and value.type == "array":
            reading.state.assign(name, _array(reading, value), append=append)
        else:
            start = next(c for c in node.children if c.type in {"=", "+="}).end_byte
            text = reading.source.text(start, node.end_byte)
            reading.state.assign(name, reading.expander.text(text, line), append=append)
    finally:
        reading.naming = ""
    return True


def run_assignments(reading: ScriptReading, node: Any) -> bool:
    reading.run_all(node.named_children)
    return True


def _array(reading: ScriptReading, node: Any) -> list[str]:
    values: list[str] = []
    for start, text in reading.source.arguments([c for c in node.named_children if c.type != "comment"]):
        if re.match(r"\[[^]]*\]=", text):
            return [reading.unknown("an array with keys can't be followed")]
        values += reading.expander.words(text, reading.source.line_at(start))
    return values


def _assign_element(reading: ScriptReading, target: str, value: Any, line: int) -> None:
    name, _, index = target.partition("[")
    number = reading.expander.number(index.removesuffix("]"))
    values = reading.state.variables.get(name, [])
    element = "" if value is None else reading.expander.text(reading.source.of(value), line)
    if isinstance(values, list) and number.isdigit() and int(number) <= len(values):
        reading.state.assign(name, [*values[: int(number)], element, *values[int(number) + 1 :]])
    else:
        reading.state.assign(name, [reading.unknown(f"{target} can't be followed")])


def run_unset(reading: ScriptReading, node: Any) -> bool:
    for child in node.named_children:
        name = reading.source.of(child)
        reading.state.variables.pop(name, None)
        reading.state.unset.add(name)
    return True


def run_command(reading: ScriptReading, node: Any, extra: tuple[Any, ...] = ()) -> bool | None:
    """Run a command with additional words."""
    _assignments_before(reading, node)
    here = [c for c in node.children if c.type == "herestring_redirect"]
    nodes = [c for c in (*node.children, *extra) if c.is_named and c.type not in _NO_WORDS]
    words = [
        (start, word)
        for start, text in reading.source.arguments(nodes)
        for word in reading.expander.words(text, reading.source.line_at(start))
    ]
    outer = reading.stdin
    if here:
        text = reading.source.of(here[0].named_children[-1])
        reading.stdin = reading.expander.text(text, reading.source.line(node)) + "\n"
    try:
        if not words:
            reading.run_all([c for c in node.children if c.type == "variable_assignment"])
            return True
        return _call(reading, node, words)
    finally:
        if here:
            reading.stdin = outer


def _assignments_before(reading: ScriptReading, node: Any) -> None:
    """Run the assignments on the lines above a command, which the grammar attaches to the command."""
    first = [c for c in node.children if c.type == "variable_assignment"]
    name = node.child_by_field_name("name")
    if not first or name is None:
        return
    gap = reading.source.text(first[-1].end_byte, name.start_byte).replace("\\\n", "")
    if "\n" in gap:
        reading.run_all(first)


def _call(reading: ScriptReading, node: Any, words: list[tuple[int, str]]) -> bool | None:
    """Run a command with known words."""
    name = reading.values.default(words[0][1]) or words[0][1]
    if name in {"exec", "command", "time", "nohup", "builtin", "sudo"} and len(words) > 1:
        if not words[1][1].startswith("-"):
            return _call(reading, node, words[1:])
        return None
    if name in reading.state.functions:
        return _function(reading, name, [text for _, text in words[1:]])
    builtin = BUILTINS.get(name)
    if builtin is not None:
        return builtin(reading, node, [text for _, text in words[1:]])
    if name.rsplit("/", 1)[-1] == reading.program:
        _record(reading, node, words)
    reading.opaque = True
    forget_written_files(reading, name, [text for _, text in words[1:]])
    if name.rsplit("/", 1)[-1] == reading.program:
        return True
    if any(v.problem for v in reading.values.of(words[0][1])) or OPEN.search(name):
        reading.note(node, "the name of this command is unknown.")
    elif name in {"bash", "sh", "xargs", "env", "parallel", "timeout", "nice"} and any(
        reading.program in text.split() for _, text in words[1:]
    ):
        line = reading.source.line(node)
        raise NotRead(f"{reading.program} is called through {name}; call it directly.", line)
    return True if name not in {"command", "which", "type", "test"} else None


def _function(reading: ScriptReading, name: str, arguments: list[str]) -> bool | None:
    source, body = reading.state.functions[name]
    if reading.state.depth >= _DEPTH:
        raise NotRead(f"{name} calls itself too often to be followed.", source.line(body))
    outer, reading.state.arguments = reading.state.arguments, arguments
    before, reading.source = reading.source, source
    reading.state.depth += 1
    kept: dict[str, Any] = {}
    reading.locals.append(kept)
    try:
        return reading.run(body)
    except Return as signal:
        return signal.status == 0
    finally:
        reading.locals.pop()
        for key, value in kept.items():
            if value is None:
                reading.state.variables.pop(key, None)
            else:
                reading.state.variables[key] = value
        reading.state.depth -= 1
        reading.source, reading.state.arguments = before, outer


def _record(reading: ScriptReading, node: Any, words: list[tuple[int, str]]) -> None:
    arguments = tuple(reading.word(text, start) for start, text in words)
    files = {
        reading.values.template(name): reading.word(text, node.start_byte)
        for name, text in reading.state.files.items()
    }
    stdin = None if reading.stdin is None else reading.word(reading.stdin, node.start_byte)
    line = reading.source.line(node)
    reading.script.calls.append(Call(arguments, reading.source.file, line, stdin, files, reading.state.place))


def run_declaration(reading: ScriptReading, node: Any) -> bool | None:
    """Run `export`, `local`, `declare`, `readonly` or `typeset`."""
    local = node.children[0].type in {"local", "declare", "typeset"} and reading.locals
    flags = "".join(reading.source.of(c)[1:] for c in node.named_children if c.type == "word")
    for child in node.named_children:
        if child.type not in {"variable_assignment", "variable_name"}:
            if child.type not in {"word", "comment"}:
                reading.note(child, f"`{reading.source.of(child)[:50]}` is not followed.")
            continue
        target = child if child.type == "variable_name" else child.child_by_field_name("name")
        name = reading.source.of(target).partition("[")[0]
        if local and "g" not in flags and name not in reading.locals[-1]:
            reading.locals[-1][name] = reading.state.variables.get(name)
            reading.state.variables.pop(name, None)
        if set(flags) & set("AinluN"):
            reading.forget(child, "is not followed")
            reading.state.assign(name, reading.unknown(f"{name} is declared with -{flags}"))
        elif child.type == "variable_assignment":
            reading.run(child)
        elif local:
            reading.state.assign(name, [] if "a" in flags else "")
    return True
