"""Reads a script: the calls of a program, in order, with their words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tui.domain.shell.commands import (
    run_assignment,
    run_assignments,
    run_command,
    run_declaration,
    run_unset,
)
from tui.domain.shell.conditions import holds
from tui.domain.shell.control_flow import joined, run_c_style_for, run_case, run_for, run_if, run_while
from tui.domain.shell.expansion import Stop
from tui.domain.shell.parameters import OPEN
from tui.domain.shell.reading import Exit, Loop, Return, ScriptReading, Statement
from tui.domain.shell.redirections import run_redirected
from tui.domain.shell.script import NotRead, Script, short
from tui.domain.shell.state import TooMuch
from tui.domain.shell.syntax import ScriptSource


def read_script(
    text: str,
    file: str,
    program: str,
    *,
    base: str = "",
    environment: Mapping[str, str] | None = None,
    read: Callable[[str], str] | None = None,
) -> Script:
    """Return every call of `program` that bash would make.

    `base` is the script's folder and `read` reads a file relative to it (raises OSError, Outside for a file
    that must not be read). Raises NotRead with
    the line that bash would refuse or that can't be followed.
    """
    if (reserved := OPEN.search(text)) is not None:
        line = text.count("\n", 0, reserved.start()) + 1
        raise NotRead("the script has a character from a private-use plane; remove it.", line)
    reading = ScriptReading(file, program, base, environment or {}, read, _STATEMENTS)
    try:
        reading.run_source(ScriptSource(text, file, reading.state.budget))
    except (Exit, Return, Loop):
        pass
    except TooMuch as error:
        raise NotRead(f"the script {error}.", 1) from error
    except Stop as error:
        raise NotRead(f"the script ends here: {error}.", reading.expander.line) from error
    return reading.script


def _run_program(reading: ScriptReading, node: Any) -> bool | None:
    status: bool | None = True
    for child in node.named_children:
        if child.is_error:
            _broken(reading, child)
        following = child.next_named_sibling
        if following is not None and following.is_error:
            _broken(reading, following)
        status = reading.run(child)
    return status


def _broken(reading: ScriptReading, node: Any) -> None:
    """Refuse a syntax error beside a call, because the call may be truncated."""
    near = [n for n in (node.prev_named_sibling, node, node.next_named_sibling) if n is not None]
    if any(reading.program in reading.source.of(n) for n in near):
        text = reading.source.of(node)
        start = node.start_byte
        if text[:1] in "'\"":
            words = f"the quote {text[0]} is not closed."
        else:
            words = f"bash's syntax can't be read here: {short(text)!r}."
        raise NotRead(words, reading.source.line(node), reading.source.column(start))


def _run_compound_statement(reading: ScriptReading, node: Any) -> bool | None:
    text = reading.source.of(node)
    return reading.expander.evaluate(text[2:-2]) if text.startswith("((") else _run_program(reading, node)


def _run_subshell(reading: ScriptReading, node: Any) -> bool | None:
    text = reading.source.of(node)
    if text.startswith("((") and text.endswith("))"):
        # After `!` the grammar parses arithmetic as a subshell.
        return reading.expander.evaluate(text[2:-2])
    before = reading.state.copy()
    try:
        return _run_program(reading, node)
    except Exit as signal:
        return signal.status == 0
    finally:
        reading.state.restore(before)


def _run_function_definition(reading: ScriptReading, node: Any) -> bool:
    name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
    reading.state.functions[reading.source.of(name)] = (reading.source, body)
    return True


def _run_list(reading: ScriptReading, node: Any) -> bool | None:
    left, operator, right = node.children[0], node.children[1].type, node.children[-1]
    return joined(reading, reading.run(left), operator, right)


def _run_pipeline(reading: ScriptReading, node: Any) -> bool | None:
    stages = node.named_children
    before, stdin, outer, opaque = reading.state.copy(), reading.stdin, reading.output, reading.opaque
    try:
        for stage in stages[:-1]:
            reading.output, reading.opaque = [], False
            reading.run(stage)
            reading.state.restore(before.copy())
            reading.stdin = None if reading.opaque else "".join(reading.output)
            if reading.opaque:
                text = short(reading.source.of(stage))
                reading.stdin = reading.unknown(f"the output of `{text}` is unknown")
        reading.output, reading.opaque = outer, opaque
        return reading.run(stages[-1])
    finally:
        reading.state.restore(before)
        reading.stdin = stdin
        reading.output = outer


def _run_negated_command(reading: ScriptReading, node: Any) -> bool | None:
    status = reading.run(node.named_children[-1])
    return None if status is None else not status


def _run_test_command(reading: ScriptReading, node: Any) -> bool | None:
    text = reading.source.of(node)
    if text.startswith("(("):
        return reading.expander.evaluate(text[2:-2])
    status, assumed = holds(node, reading)
    if assumed and status is not None:
        reading.note(node, f"`{short(text)}` is decided as if the script ran here.")
    reading.assumed = assumed
    return status


_STATEMENTS: dict[str, Statement] = {
    "program": _run_program, "do_group": _run_program, "else_clause": _run_program,
    "compound_statement": _run_compound_statement, "subshell": _run_subshell, "list": _run_list,
    "function_definition": _run_function_definition, "pipeline": _run_pipeline,
    "negated_command": _run_negated_command, "test_command": _run_test_command, "command": run_command,
    "variable_assignment": run_assignment, "variable_assignments": run_assignments,
    "declaration_command": run_declaration, "unset_command": run_unset,
    "redirected_statement": run_redirected, "if_statement": run_if, "case_statement": run_case,
    "for_statement": run_for, "c_style_for_statement": run_c_style_for, "while_statement": run_while,
}  # fmt: skip
"""Functions that run the nodes of each type of the grammar."""
