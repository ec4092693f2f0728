"""Label selectors, parsed token by token so that errors state the position, as in the API server."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from tui.emulator.kubernetes.admission.names import key_problem, value_problem
from tui.emulator.kubernetes.errors import BadRequest
from tui.emulator.kubernetes.resources import Obj

Matches = Callable[[Obj], bool]

_TOKEN = re.compile(r"\s*(==|!=|[=!(),<>]|[^\s=!(),<>]+)")
_OPERATORS = {"=": "in", "==": "in", "!=": "notin", "in": "in", "notin": "notin", ">": "gt", "<": "lt"}
_SYMBOLS = frozenset("=!(),<>") | {"==", "!="}


class _Refused(Exception):
    """A requirement can't be parsed."""


@dataclass(frozen=True, slots=True)
class _Requirement:
    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def holds(self, value: str | None) -> bool:
        if self.operator == "in":
            return value is not None and value in self.values
        if self.operator == "notin":
            return value is None or value not in self.values
        if self.operator in {"gt", "lt"}:
            return self._compares(value)
        return (value is not None) == (self.operator == "exists")

    def _compares(self, value: str | None) -> bool:
        (limit,) = self.values
        if value is None or not value.lstrip("-").isdigit():
            return False
        return int(value) > int(limit) if self.operator == "gt" else int(value) < int(limit)


def parse_labels(text: str) -> Matches | None:
    """Return the filter of a label selector; `None` selects everything. Raises BadRequest if invalid."""
    requirements = _Parser(text).requirements()
    if not requirements:
        return None

    def matches(obj: Obj) -> bool:
        labels = obj["metadata"].get("labels") or {}
        return all(requirement.holds(labels.get(requirement.key)) for requirement in requirements)

    return matches


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens = _TOKEN.findall(text)
        self._at = 0

    def requirements(self) -> list[_Requirement]:
        requirements: list[_Requirement] = []
        while self._next:
            if self._next in _SYMBOLS - {"!"}:
                raise BadRequest(f"found '{self._next}', expected: !, identifier, or 'end of string'")
            try:
                requirements.append(self._requirement())
            except _Refused as refused:
                raise BadRequest(f"unable to parse requirement: {refused}") from None
            separator = self._take()
            if separator not in {"", ","}:
                raise BadRequest(f"found '{separator}', expected: ',' or 'end of string'")
            if separator and (not self._next or self._next in _SYMBOLS - {"!"}):
                raise BadRequest(f"found '{self._next}', expected: identifier after ','")
        return requirements

    @property
    def _next(self) -> str:
        """The next token, or "" at the end."""
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _take(self) -> str:
        token = self._next
        self._at += 1
        return token

    def _requirement(self) -> _Requirement:
        absent = self._next == "!"
        if absent:
            self._take()
        key = self._take()
        if not key or key in _SYMBOLS:
            raise _Refused(f"found '{key}', expected: identifier")
        problem = key_problem(key)
        if problem:
            raise _Refused(f'<nil>: Invalid value: "{key}": {problem}')
        if absent or self._next in {"", ","}:
            return _Requirement(key, "absent" if absent else "exists")
        operator = self._take()
        if operator not in _OPERATORS:
            raise _Refused(f"found '{operator}', expected: in, notin, =, ==, !=, gt, lt")
        values = self._values() if operator in {"in", "notin"} else [self._value()]
        return _Requirement(key, _OPERATORS[operator], frozenset(self._checked(key, operator, values)))

    def _checked(self, key: str, operator: str, values: list[str]) -> list[str]:
        for number, value in enumerate(values):
            if operator in {">", "<"} and not value.lstrip("-").isdigit():
                why = "for 'Gt', 'Lt' operators, the value must be an integer"
                raise _Refused(f'values[{number}]: Invalid value: "{value}": {why}')
            problem = value_problem(value)
            if problem:
                raise _Refused(f'values[{number}][{key}]: Invalid value: "{value}": {problem}')
        return values

    def _value(self) -> str:
        if self._next in {"", ","}:
            return ""
        value = self._take()
        if value in _SYMBOLS:
            raise _Refused(f"found '{value}', expected: identifier")
        return value

    def _values(self) -> list[str]:
        opening = self._take()
        if opening != "(":
            raise _Refused(f"found '{opening}' expected: '('")
        values: list[str] = []
        while True:
            # An empty value may stand between two separators.
            values.append("" if self._next in {",", ")"} else self._take())
            end = self._take()
            if end == ")":
                return values
            if end != ",":
                raise _Refused(f"found '{end}', expected: ',' or ')'")
