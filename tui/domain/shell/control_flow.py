"""Branches, loops, `&&` and `||` of a script."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tui.domain.log.pattern import PatternError
from tui.domain.shell import patterns
from tui.domain.shell.expansion import Stop
from tui.domain.shell.parameters import OPEN, OpenValue
from tui.domain.shell.reading import Exit, Loop, Return, ScriptReading
from tui.domain.shell.script import NotRead, short
from tui.domain.shell.state import State

_ROUNDS = 1000


def joined(reading: ScriptReading, status: bool | None, operator: str, right: Any) -> bool | None:
    """Run the command after `&&` or `||`, depending on the status of the first command; return the joint
    status."""
    if status is None:
        _maybe(reading, right)
        return None
    if status is (operator == "&&"):
        if reading.assumed:
            return _as_assumed(reading, right)
        return reading.run(right)
    return status


def _as_assumed(reading: ScriptReading, node: Any) -> bool | None:
    """Run a command that depends on an open value as if its condition held; skip it if it ends the script."""
    reading.assumed = False
    before = reading.state.copy()
    try:
        return reading.run(node)
    except (Exit, Stop):
        reading.state.restore(before)
        return True


def run_if(reading: ScriptReading, node: Any) -> bool | None:
    branches, guessed = _branches(node), False
    for i, (condition, body) in enumerate(branches):
        if condition is None:
            return True if guessed and _ends(reading, body) else reading.run_all(body)
        status, assumed = _condition(reading, condition)
        guessed |= assumed
        if status is None:
            reading.note(condition[0], f"`{short(reading.source.of(condition[0]))}` can't be decided here.")
            _either(reading, [body for _, body in branches[i:]], with_none=branches[-1][0] is not None)
            return None
        if status and not (assumed and _ends(reading, body)):
            return reading.run_all(body)
    return True


def _condition(reading: ScriptReading, nodes: list[Any]) -> tuple[bool | None, bool]:
    reading.assumed = False
    status = reading.run_all(nodes)
    assumed, reading.assumed = reading.assumed, False
    return status, assumed


def _ends(reading: ScriptReading, nodes: list[Any]) -> bool:
    """Return whether a branch ends the script, e.g. by `exit`."""
    before, calls, notes = reading.state.copy(), len(reading.script.calls), len(reading.script.notes)
    try:
        reading.run_all(nodes)
    except (Exit, Stop):
        return True
    except (Return, Loop):
        return False
    finally:
        reading.state.restore(before)
        del reading.script.calls[calls:], reading.script.notes[notes:]
    return False


def _maybe(reading: ScriptReading, node: Any) -> None:
    """Run a command that bash may skip, and merge both resulting states."""
    _either(reading, [[node]], with_none=True)


def _either(reading: ScriptReading, bodies: list[list[Any]], *, with_none: bool) -> None:
    """Run each body from the same state; variables that differ afterwards become open values."""
    before, ends, calls = reading.state.copy(), [], len(reading.script.calls)
    for body in bodies:
        reading.state.restore(before.copy())
        try:
            reading.run_all(body)
        except (Exit, Stop, Return, Loop):
            continue
        ends.append(reading.state.copy())
    ends = [*ends, before] if with_none or not ends else ends
    _merge(reading, ends, bodies)
    for call in reading.script.calls[calls:]:
        reading.note_line(call.line, "this command depends on a condition that can't be decided.")


def _merge(reading: ScriptReading, ends: list[State], bodies: list[list[Any]]) -> None:
    reading.state.restore(ends[0].copy())
    line = next((reading.source.line(node) for body in bodies for node in body), 1)
    for name in sorted({name for end in ends for name in end.variables}):
        values = [end.variables.get(name) for end in ends]
        if all(value == values[0] for value in values):
            continue
        problem = f"{name} depends on a condition near line {line} that can't be decided"
        reading.state.assign(name, _open_choice(reading, name, values, line, problem))
    for name in {name for end in ends for name in end.files}:
        if any(end.files.get(name) != ends[0].files.get(name) for end in ends):
            reading.state.files[name] = reading.unknown(f"{name} depends on a condition near line {line}")


def _open_choice(
    reading: ScriptReading, name: str, values: list[Any], line: int, problem: str
) -> str | list[str]:
    texts = [value for value in values if isinstance(value, str) and not OPEN.search(value)]
    if any(isinstance(value, list) for value in values) or len(texts) < len(values) - 1:
        return [reading.unknown(problem)] if isinstance(values[0], list) else reading.unknown(problem)
    words = f"{' or '.join(sorted(set(map(repr, texts))))}: set under a condition in line {line}"
    return reading.values.add(OpenValue(name, words, line))


def run_case(reading: ScriptReading, node: Any) -> bool | None:
    value = reading.expander.text(
        reading.source.of(node.child_by_field_name("value")), reading.source.line(node)
    )
    items = [child for child in node.named_children if child.type == "case_item"]
    now = reading.values.now(value)
    bodies = []
    for item in items:
        body = _body_of(item)
        if now is None:
            bodies.append(body)
            continue
        if any(_matches(reading, now, p) for p in item.children_by_field_name("value")):
            if OPEN.search(value):
                reading.note(node, f"`case {short(value)}` is decided as if the script ran here.")
                if _ends(reading, body):
                    continue
            return reading.run_all(body)
    if now is None:
        reading.note(node, "`case` can't be decided here.")
        _either(reading, bodies, with_none=True)
        return None
    return True


def _matches(reading: ScriptReading, value: str, pattern: Any) -> bool:
    glob = reading.expander.pattern(reading.source.of(pattern), reading.source.line(pattern))
    try:
        return patterns.matches(value, glob)
    except PatternError:
        return False


# Loops


def run_for(reading: ScriptReading, node: Any) -> bool | None:
    name = reading.source.of(node.child_by_field_name("variable"))
    values = [
        word
        for start, text in reading.source.arguments(node.children_by_field_name("value"))
        for word in reading.expander.words(text, reading.source.line_at(start))
    ]
    if not any(child.type == "in" for child in node.children):
        values = list(reading.state.arguments)
    body = node.child_by_field_name("body")
    for value in values[:_ROUNDS]:
        reading.state.assign(name, value)
        if not _round(reading, body):
            break
    if len(values) > _ROUNDS:
        raise NotRead(f"more than {_ROUNDS} rounds can't be followed.", reading.source.line(node))
    return True


def _round(reading: ScriptReading, body: Any) -> bool:
    """Run one iteration of a loop; return whether the loop continues."""
    try:
        reading.run(body)
    except Loop as signal:
        if signal.levels > 1:
            raise Loop(signal.levels - 1, again=signal.again) from None
        return signal.again
    return True


def run_c_style_for(reading: ScriptReading, node: Any) -> bool | None:
    start, condition, update = (
        node.child_by_field_name(part) for part in ("initializer", "condition", "update")
    )
    if start is not None:
        reading.expander.evaluate(reading.source.of(start))

    def goes_on() -> bool | None:
        return True if condition is None else reading.expander.evaluate(reading.source.of(condition))

    def after() -> None:
        if update is not None:
            reading.expander.evaluate(reading.source.of(update))

    return _while(reading, node, goes_on, after)


def run_while(reading: ScriptReading, node: Any) -> bool | None:
    body = node.child_by_field_name("body")
    conditions = [n for n in node.named_children if n != body and n.type != "comment"]
    until = node.children[0].type == "until"

    def goes_on() -> bool | None:
        status = _condition(reading, conditions)[0]
        return None if status is None else status is not until

    return _while(reading, node, goes_on, lambda: None)


def _while(
    reading: ScriptReading, node: Any, goes_on: Callable[[], bool | None], after: Callable[[], None]
) -> bool | None:
    body = node.child_by_field_name("body")
    for _ in range(_ROUNDS):
        status = goes_on()
        if status is None:
            reading.note(node, f"the loop `{short(reading.source.of(node))}` can't be followed.")
            _maybe(reading, body)
            return None
        if not status or not _round(reading, body):
            return True
        after()
    reading.forget(node, f"has more than {_ROUNDS} rounds")
    if reading.program in reading.source.of(node):
        raise NotRead(f"more than {_ROUNDS} rounds can't be followed.", reading.source.line(node))
    return None


def _branches(node: Any) -> list[tuple[list[Any] | None, list[Any]]]:
    """Return the conditions of an `if`, each with its body; the condition of `else` is `None`."""
    branches: list[tuple[list[Any] | None, list[Any]]] = []
    condition: list[Any] = []
    body: list[Any] = []
    current = condition
    for child in node.children:
        if child.type == "then":
            current = body
        elif child.type == "elif_clause":
            branches.append((condition, body)) if body or condition else None
            [(condition, body)] = [(c or [], b) for c, b in _branches(child)]
            branches.append((condition, body))
            condition, body = [], []
        elif child.type == "else_clause":
            if condition or body:
                branches.append((condition, body))
            condition, body = [], []
            branches.append((None, [c for c in child.named_children if c.type != "comment"]))
        elif child.is_named and child.type != "comment":
            current.append(child)
    if condition or body:
        branches.append((condition, body))
    return branches


def _body_of(item: Any) -> list[Any]:
    values = {v.id for v in item.children_by_field_name("value")}
    return [c for c in item.named_children if c.id not in values and c.type != "comment"]
