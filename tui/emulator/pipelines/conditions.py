"""Conditions of tasks, as kfp compiles them: `inputs.parameter_values['x'] == 'heads' && int(…) > 3`.

The conditions are a subset of the Common Expression Language: comparisons, and, or, not, conversions.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lark import Lark, Tree

LONGEST = 10_000
_OPERATORS: Mapping[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq, "!=": operator.ne, ">=": operator.ge, "<=": operator.le,
    ">": operator.gt, "<": operator.lt,
}  # fmt: skip
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_LETTERS = {"n": "\n", "t": "\t", "r": "\r"}


class BadCondition(Exception):
    """A condition that can't be read or evaluated. The message gives the reason."""


def holds(text: str, parameters: Mapping[str, Any]) -> bool:
    """Return whether a condition holds with these parameter values.

    Raises BadCondition for text outside this grammar, or a parameter without a value.
    """
    try:
        value = _value(read_condition(text), parameters)
    except RecursionError as error:
        raise BadCondition("the condition is nested too deeply") from error
    if not isinstance(value, bool):
        raise BadCondition(f"{text} must be true or false, not {value!r}")
    return value


def read_condition(text: str) -> Any:
    """Parse a condition to a syntax tree. Raises BadCondition."""
    from lark import LarkError  # noqa: PLC0415 - few emulators run pipelines

    if len(text) > LONGEST:
        raise BadCondition(f"the condition has {len(text):,} characters; the limit is {LONGEST:,}")
    try:
        return _grammar().parse(text)
    except LarkError as error:
        where = getattr(error, "column", 0)
        raise BadCondition(f"{text!r} can't be read at character {where}") from error


@cache
def _grammar() -> Lark:
    from lark import Lark  # noqa: PLC0415

    return Lark(
        (Path(__file__).parent / "conditions.lark").read_text(), parser="lalr", maybe_placeholders=False
    )


def _value(node: Tree[Any], parameters: Mapping[str, Any]) -> Any:
    parts = node.children
    match node.data:
        case "any_of":
            return any(_truth(part, parameters) for part in parts)
        case "all_of":
            return all(_truth(part, parameters) for part in parts)
        case "negated":
            return not _truth(parts[0], parameters)
        case "comparison":
            return _compare(str(parts[1]), _value(parts[0], parameters), _value(parts[2], parameters))
        case "converted":
            return _convert(str(parts[0]), _value(parts[1], parameters))
        case "parameter":
            name = _text(str(parts[0]))
            if name not in parameters:
                raise BadCondition(f"the parameter {name} has no value")
            return parameters[name]
        case "text":
            return _text(str(parts[0]))
        case "number" | "negative":
            number = float(str(parts[0]))
            return -number if node.data == "negative" else number
    return node.data == "true"


def _truth(node: Tree[Any], parameters: Mapping[str, Any]) -> bool:
    value = _value(node, parameters)
    if not isinstance(value, bool):
        raise BadCondition(f"{value!r} must be true or false")
    return value


def _compare(sign: str, left: Any, right: Any) -> bool:
    if isinstance(left, bool) != isinstance(right, bool) and sign in {"==", "!="}:
        # kfp writes the literal of a bool as a string.
        left, right = str(left).lower(), str(right).lower()
    try:
        return _OPERATORS[sign](left, right)
    except TypeError as error:
        raise BadCondition(f"{left!r} and {right!r} can't be ordered") from error


def _convert(kind: str, value: Any) -> Any:
    try:
        match kind:
            case "int":
                return int(value)
            case "double":
                return float(value)
            case "bool":
                return value if isinstance(value, bool) else str(value).lower() == "true"
    except (TypeError, ValueError) as error:
        raise BadCondition(f"{value!r} can't be converted by {kind}()") from error
    return (
        value if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else f"{value:g}"
    )


def _text(literal: str) -> str:
    return _ESCAPE.sub(lambda match: _LETTERS.get(match[1], match[1]), literal[1:-1])
