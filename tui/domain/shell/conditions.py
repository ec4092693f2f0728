"""Evaluates the tests `[ … ]`, `[[ … ]]` and `test`."""

from __future__ import annotations

import re
from typing import Any

from tui.domain.shell import patterns
from tui.domain.shell.parameters import OPEN
from tui.domain.shell.reading import ScriptReading
from tui.domain.shell.script import Outside

_NUMBERS = {
    "-eq": int.__eq__, "-ne": int.__ne__, "-lt": int.__lt__, "-le": int.__le__, "-gt": int.__gt__,
    "-ge": int.__ge__,
}  # fmt: skip


def holds(node: Any, reading: ScriptReading) -> tuple[bool | None, bool]:
    """Return whether a test succeeds (`None`: unknown), and whether the result depends on an open value."""
    test = _Test(reading)
    inner = [child for child in node.named_children if child.type != "comment"]
    if not inner:
        return False, False
    status = test.of(inner[0]) if len(inner) == 1 else None
    return status, test.assumed


class _Test:
    def __init__(self, reading: ScriptReading) -> None:
        self._reading, self.assumed = reading, False

    def of(self, node: Any) -> bool | None:
        reading = self._reading
        if node.type == "parenthesized_expression":
            return self.of(node.named_children[0])
        if node.type == "unary_expression":
            return self._unary(node)
        if node.type == "binary_expression":
            return self._binary(node)
        if node.type in {"word", "string", "raw_string", "simple_expansion", "expansion", "concatenation",
                         "number", "command_substitution"}:  # fmt: skip
            text = self._text(reading.source.of(node), node)
            return None if text is None else text != ""
        return None

    def _text(self, source: str, node: Any, *, pattern: bool = False) -> str | None:
        reading = self._reading
        make = reading.expander.pattern if pattern else reading.expander.text
        text = make(source, reading.source.line(node))
        self.assumed |= OPEN.search(text) is not None
        return reading.values.now(text)

    def _unary(self, node: Any) -> bool | None:
        reading, operator = self._reading, node.children[0]
        sign, inner = reading.source.of(operator), node.children[-1]
        if sign == "!":
            status = self.of(inner)
            return None if status is None else not status
        source = reading.source.of(inner)
        if sign == "-v":
            return reading.expander.known(source) is not None
        text = self._text(source, inner)
        if text is None:
            return None
        if sign in {"-z", "-n"}:
            return (text == "") is (sign == "-z")
        if sign in {"-f", "-e", "-s", "-r"}:
            try:
                reading.read_file(text)
            except (OSError, ValueError) as error:
                return False if sign == "-f" and not isinstance(error, Outside) else None
            return True
        return None

    def _binary(self, node: Any) -> bool | None:
        reading = self._reading
        left, sign, right = node.children[0], reading.source.of(node.children[1]), node.children[-1]
        if sign in {"&&", "||", "-a", "-o"}:
            return self._both(self.of(left), self.of(right), sign in {"&&", "-a"})
        first = self._text(reading.source.of(left), left)
        between = reading.source.text(node.children[1].end_byte, node.end_byte).strip()
        double = sign in {"=", "==", "!="} and self._in_double(node)
        second = self._text(between, right, pattern=double)
        if first is None or second is None:
            return None
        if sign in {"=", "==", "!="}:
            same = patterns.matches(first, second) if double else first == second
            return same is (sign != "!=")
        if sign in _NUMBERS:
            if not all(re.fullmatch(r"\s*-?\d+\s*", text) for text in (first, second)):
                return None
            return bool(_NUMBERS[sign](int(first), int(second)))
        if sign in {"<", ">"}:
            return first < second if sign == "<" else first > second
        return None

    def _in_double(self, node: Any) -> bool:
        while node.type != "test_command":
            node = node.parent
        return bool(node.children[0].type == "[[")

    def _both(self, a: bool | None, b: bool | None, both: bool) -> bool | None:
        if (a if both else not a) is False and a is not None:
            return a
        if b is not None and b is not both:
            return b
        return None if a is None or b is None else b
