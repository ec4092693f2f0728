"""Tests whether a record matches a filter, even if only part of the record is known.

A record without a field matches no comparison with it, not even `!=`, unless the field specifies otherwise;
`NOT field=x` includes it. A conjunction or disjunction that the known parts do not decide is undecided:
`None`.
"""

from __future__ import annotations

from collections.abc import Iterator

from tui.emulator.filters.fields import MISSING, Condition, FieldTable, FilterField, T, Truth
from tui.emulator.filters.parser import parse
from tui.emulator.filters.syntax import And, Comparison, FilterCall, Node, Not, Or, Search
from tui.emulator.filters.value_types import Test, required_text


def compile_filter(text: str, table: FieldTable[T]) -> Condition[T]:
    """Return a function that tests whether a record matches the filter.

    Raises FilterError for an invalid filter or a field or function missing in the table.
    """
    return compiled(parse(text, table.max_nesting), table)


def compiled(node: Node, table: FieldTable[T]) -> Condition[T]:
    """Return the test for a syntax tree."""
    if not table.searches:
        # Report an incomplete condition before an unknown field.
        for words in _searches(node):
            table.search(words)
    return _compiled(node, table)


def _searches(node: Node) -> Iterator[Search]:
    match node:
        case And(parts) | Or(parts):
            for part in parts:
                yield from _searches(part)
        case Not(part):
            yield from _searches(part)
        case Search():
            yield node


def _compiled(node: Node, table: FieldTable[T]) -> Condition[T]:
    match node:
        case And(parts):
            return _all([_compiled(part, table) for part in parts])
        case Or(parts):
            return _any([_compiled(part, table) for part in parts])
        case Not(part):
            return _inverted(_compiled(part, table))
        case Search():
            return table.search(node)
        case FilterCall():
            return table.call(node)
        case Comparison():
            return _comparison(node, table.field(node))


def _all(parts: list[Condition[T]]) -> Condition[T]:
    def decide(record: T) -> Truth:
        truth: Truth = True
        for part in parts:
            value = part(record)
            if value is False:
                return False
            if value is None:
                truth = None
        return truth

    return decide


def _any(parts: list[Condition[T]]) -> Condition[T]:
    def decide(record: T) -> Truth:
        truth: Truth = False
        for part in parts:
            value = part(record)
            if value:
                return True
            if value is None:
                truth = None
        return truth

    return decide


def _inverted(part: Condition[T]) -> Condition[T]:
    def decide(record: T) -> Truth:
        value = part(record)
        return None if value is None else not value

    return decide


def _comparison(node: Comparison, field: FilterField[T]) -> Condition[T]:
    test = _presence(field) if node.presence else field.values.test(node)
    get = field.get
    if not field.known:
        return lambda record: None
    missing = field.missing_differs and node.operator == "!="

    def decide(record: T) -> Truth:
        value = get(record)
        return missing if value is MISSING else test(value)

    may_contain, text = field.may_contain, required_text(node)
    if may_contain is None or text is None:
        return decide
    # Rebound because mypy does not carry the narrowing into a closure.
    possible, folded = may_contain, text
    return lambda record: possible(record, folded) and decide(record)


def _presence(field: FilterField[T]) -> Test:
    return bool if field.defaulted else lambda value: True
