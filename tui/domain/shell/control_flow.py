"""Branches and loops of a script."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from tui.domain.shell import patterns
from tui.domain.shell.expansion import Stop
from tui.domain.shell.parameters import OPEN, OpenValue
from tui.domain.shell.reading import ScriptReading
from tui.domain.shell.script import NotRead, short
from tui.domain.shell.signals import Exit, Loop, Return
from tui.domain.shell.state import State

_ROUNDS = 1000


class ControlFlow(ScriptReading):
    """What an interpreter does with `if`, `case` and loops."""

    def _run_if_statement(self, node: Any) -> bool | None:
        branches, guessed = _branches(node), False
        for i, (condition, body) in enumerate(branches):
            if condition is None:
                return True if guessed and self._ends(body) else self.run_all(body)
            status, assumed = self._condition(condition)
            guessed |= assumed
            if status is None:
                self.note(condition[0], f"`{short(self.source.of(condition[0]))}` can't be decided here.")
                self._either([body for _, body in branches[i:]], with_none=branches[-1][0] is not None)
                return None
            if status and not (assumed and self._ends(body)):
                return self.run_all(body)
        return True

    def _condition(self, nodes: list[Any]) -> tuple[bool | None, bool]:
        self.assumed = False
        status = self.run_all(nodes)
        assumed, self.assumed = self.assumed, False
        return status, assumed

    def _ends(self, nodes: list[Any]) -> bool:
        """Whether a branch ends the script."""
        before, calls, notes = self.state.copy(), len(self.script.calls), len(self.script.notes)
        try:
            self.run_all(nodes)
        except (Exit, Stop):
            return True
        except (Return, Loop):
            return False
        finally:
            self.state.restore(before)
            del self.script.calls[calls:], self.script.notes[notes:]
        return False

    def run_all(self, nodes: list[Any]) -> bool | None:
        status: bool | None = True
        for child in nodes:
            status = self.run(child)
        return status

    def maybe(self, node: Any) -> None:
        """Run what may not be run."""
        self._either([[node]], with_none=True)

    def _either(self, bodies: list[list[Any]], *, with_none: bool) -> None:
        """Run each of several bodies on its own; variables that then differ are open."""
        before, ends, calls = self.state.copy(), [], len(self.script.calls)
        for body in bodies:
            self.state.restore(before.copy())
            try:
                self.run_all(body)
            except (Exit, Stop, Return, Loop):
                continue
            ends.append(self.state.copy())
        ends = [*ends, before] if with_none or not ends else ends
        self._merge(ends, bodies)
        for call in self.script.calls[calls:]:
            self.note_line(call.line, "this command is called only under a condition that can't be decided.")

    def _merge(self, ends: list[State], bodies: list[list[Any]]) -> None:
        self.state.restore(ends[0].copy())
        line = next((self.source.line(node) for body in bodies for node in body), 1)
        for name in sorted({name for end in ends for name in end.variables}):
            found = [end.variables.get(name) for end in ends]
            if all(value == found[0] for value in found):
                continue
            problem = f"{name} depends on a condition near line {line} that can't be decided"
            self.state.assign(name, self._open_choice(name, found, line, problem))
        for name in {name for end in ends for name in end.files}:
            if any(end.files.get(name) != ends[0].files.get(name) for end in ends):
                self.state.files[name] = self.unknown(f"{name} depends on a condition near line {line}")

    def _open_choice(self, name: str, found: list[Any], line: int, problem: str) -> str | list[str]:
        texts = [value for value in found if isinstance(value, str) and not OPEN.search(value)]
        if any(isinstance(value, list) for value in found) or len(texts) < len(found) - 1:
            return [self.unknown(problem)] if isinstance(found[0], list) else self.unknown(problem)
        words = f"{' or '.join(sorted(set(map(repr, texts))))}: set under a condition in line {line}"
        return self.values.add(OpenValue(name, words, line))

    def _run_case_statement(self, node: Any) -> bool | None:
        value = self.expander.text(self.source.of(node.child_by_field_name("value")), self.source.line(node))
        items = [child for child in node.named_children if child.type == "case_item"]
        now = self.values.now(value)
        bodies = []
        for item in items:
            body = _body_of(item)
            if now is None:
                bodies.append(body)
                continue
            if any(self._matches(now, p) for p in item.children_by_field_name("value")):
                if OPEN.search(value):
                    self.note(node, f"`case {short(value)}` is decided as if the script ran here.")
                    if self._ends(body):
                        continue
                return self.run_all(body)
        if now is None:
            self.note(node, "`case` can't be decided here.")
            self._either(bodies, with_none=True)
            return None
        return True

    def _matches(self, value: str, pattern: Any) -> bool:
        made = self.expander.pattern(self.source.of(pattern), self.source.line(pattern))
        try:
            return patterns.matches(value, made)
        except re.error:
            return False

    # Loops

    def _run_for_statement(self, node: Any) -> bool | None:
        name = self.source.of(node.child_by_field_name("variable"))
        values = [
            word
            for start, text in self.source.arguments(node.children_by_field_name("value"))
            for word in self.expander.words(text, self.source.line_at(start))
        ]
        if not any(child.type == "in" for child in node.children):
            values = list(self.state.arguments)
        body = node.child_by_field_name("body")
        for value in values[:_ROUNDS]:
            self.state.assign(name, value)
            if not self._round(body):
                break
        if len(values) > _ROUNDS:
            raise NotRead(f"more than {_ROUNDS} rounds can't be followed.", self.source.line(node))
        return True

    def _round(self, body: Any) -> bool:
        """One round of a loop; whether it goes on."""
        try:
            self.run(body)
        except Loop as signal:
            if signal.levels > 1:
                raise Loop(signal.levels - 1, again=signal.again) from None
            return signal.again
        return True

    def _run_c_style_for_statement(self, node: Any) -> bool | None:
        start, condition, update = (
            node.child_by_field_name(part) for part in ("initializer", "condition", "update")
        )
        if start is not None:
            self.arithmetic(self.source.of(start), node)

        def goes_on() -> bool | None:
            return True if condition is None else self.arithmetic(self.source.of(condition), node)

        def after() -> None:
            if update is not None:
                self.arithmetic(self.source.of(update), node)

        return self._while(node, goes_on, after)

    def _run_while_statement(self, node: Any) -> bool | None:
        body = node.child_by_field_name("body")
        conditions = [n for n in node.named_children if n != body and n.type != "comment"]
        until = node.children[0].type == "until"

        def goes_on() -> bool | None:
            status = self._condition(conditions)[0]
            return None if status is None else status is not until

        return self._while(node, goes_on, lambda: None)

    def _while(self, node: Any, goes_on: Callable[[], bool | None], after: Callable[[], None]) -> bool | None:
        body = node.child_by_field_name("body")
        for _ in range(_ROUNDS):
            status = goes_on()
            if status is None:
                self.note(node, f"the loop `{short(self.source.of(node))}` can't be followed.")
                self.maybe(body)
                return None
            if not status or not self._round(body):
                return True
            after()
        self.forget(node, f"has more than {_ROUNDS} rounds")
        if self.program in self.source.of(node):
            raise NotRead(f"more than {_ROUNDS} rounds can't be followed.", self.source.line(node))
        return None


def _branches(node: Any) -> list[tuple[list[Any] | None, list[Any]]]:
    """The conditions of an `if` with their bodies; None is the condition of `else`."""
    found: list[tuple[list[Any] | None, list[Any]]] = []
    condition: list[Any] = []
    body: list[Any] = []
    current = condition
    for child in node.children:
        if child.type == "then":
            current = body
        elif child.type == "elif_clause":
            found.append((condition, body)) if body or condition else None
            [(condition, body)] = [(c or [], b) for c, b in _branches(child)]
            found.append((condition, body))
            condition, body = [], []
        elif child.type == "else_clause":
            if condition or body:
                found.append((condition, body))
            condition, body = [], []
            found.append((None, [c for c in child.named_children if c.type != "comment"]))
        elif child.is_named and child.type != "comment":
            current.append(child)
    if condition or body:
        found.append((condition, body))
    return found


def _body_of(item: Any) -> list[Any]:
    values = {v.id for v in item.children_by_field_name("value")}
    return [c for c in item.named_children if c.id not in values and c.type != "comment"]
