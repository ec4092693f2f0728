"""`$((…))`: integer arithmetic as in bash."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping


class NotArithmetic(Exception):
    """The expression can't be computed; `name` is a variable without a value."""

    def __init__(self, name: str = "") -> None:
        super().__init__(name)
        self.name = name


def value_of(text: str, variables: Mapping[str, str | list[str]] | None = None) -> int:
    """Return the value of an expression without assignments. Raises NotArithmetic for other text, and for a
    variable that is not in `variables`."""
    source = re.sub(r"&&", " and ", text.strip()).replace("||", " or ")
    source = re.sub(r"!(?!=)", " not ", source)
    if not source:
        return 0
    if len(source) > 1000 or re.search(r"(?<![\w#])0\d", source):
        raise NotArithmetic
    try:
        return _of(ast.parse(_chosen(source.strip()), mode="eval").body, variables or {}, 0)
    except (SyntaxError, ValueError, ArithmeticError, RecursionError, MemoryError) as error:
        raise NotArithmetic from error


def _chosen(text: str) -> str:
    """Convert `a ? b : c` to Python; the first `?` belongs to the last `:` outside brackets."""
    test, mark, rest = text.partition("?")
    if not mark:
        return text
    depth = 0
    for at in range(len(rest)):
        depth += {"(": 1, ")": -1, "?": 1, ":": -1}.get(rest[at], 0)
        if depth < 0:
            break
    else:
        raise NotArithmetic
    if rest[at] != ":":
        # The entire expression is in brackets.
        raise NotArithmetic
    return f"(({_chosen(rest[:at])}) if ({test}) else ({_chosen(rest[at + 1 :])}))"


def _of(node: ast.expr, known: Mapping[str, str | list[str]], depth: int) -> int:
    match node:
        case ast.Constant(value=int() as value):
            return int(value)
        case ast.Name(id=name):
            value_text = known.get(name)
            if not isinstance(value_text, str) or depth > 20:
                raise NotArithmetic(name)
            if not re.fullmatch(r"\s*[-+]?(0|[1-9]\d{0,17})\s*", value_text):
                raise NotArithmetic(name)
            return int(value_text)
        case ast.UnaryOp(op=op, operand=inner):
            value = _of(inner, known, depth)
            return (
                int(not value) if isinstance(op, ast.Not) else -value if isinstance(op, ast.USub) else value
            )
        case ast.IfExp(test=test, body=first, orelse=second):
            return _of(first if _of(test, known, depth) else second, known, depth)
        case ast.BinOp(left=left, op=op, right=right):
            return _binary(op, _of(left, known, depth), _of(right, known, depth))
        case ast.BoolOp(op=op, values=values):
            found_values = [bool(_of(v, known, depth)) for v in values]
            return int(all(found_values) if isinstance(op, ast.And) else any(found_values))
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            return _compared(op, _of(left, known, depth), _of(right, known, depth))
    raise NotArithmetic


def _binary(op: ast.operator, a: int, b: int) -> int:
    match op:
        case ast.Add():
            result = a + b
        case ast.Sub():
            result = a - b
        case ast.Mult():
            result = a * b
        case ast.Div() | ast.Mod():
            # bash truncates towards zero.
            quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
            result = quotient if isinstance(op, ast.Div) else a - b * quotient
        case ast.Pow() if 0 <= b <= 64 and abs(a) < 2**32:
            result = a**b
        case _:
            raise NotArithmetic
    if abs(result) >= 2**63:
        raise NotArithmetic
    return result


def _compared(op: ast.cmpop, a: int, b: int) -> int:
    results = {ast.Lt: a < b, ast.LtE: a <= b, ast.Gt: a > b, ast.GtE: a >= b, ast.Eq: a == b,
               ast.NotEq: a != b}  # fmt: skip
    if type(op) not in results:
        raise NotArithmetic
    return int(results[type(op)])
