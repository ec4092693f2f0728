"""Whether a record meets a filter, also where only a part of the record is known.

A record that lacks a field meets no comparison with it, not even `!=`, unless the field says otherwise;
`NOT field=x` is how to include it. A conjunction or disjunction that the known parts do not decide is
undecided: `None`.
"""

from __future__ import annotations

from collections.abc import Iterator

from tui.emulator.filters.fields import MISSING, Condition, Field, FieldTable, T, Truth
from tui.emulator.filters.parser import parse
from tui.emulator.filters.syntax import And, Call, Comparison, Node, Not, Or, Search
from tui.emulator.filters.value_types import Test, required_text


def compile_filter(text: str, table: FieldTable[T]) -> Condition[T]:
    """A function that decides for one record whether it meets the filter.

    Raises:
        FilterError: for a text that is no filter, or one that speaks of what the table does not know.
    """
    return compiled(parse(text, table.max_nesting), table)


def compiled(node: Node, table: FieldTable[T]) -> Condition[T]:
    """The same for a syntax tree."""
    if not table.searches:
        # A condition that is not complete is told before a field that does not exist.
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
        case Call():
            return table.call(node)
        case Comparison():
            return _comparison(node, table.field(node))


def _all(parts: list[Condition[T]]) -> Condition[T]:
    def decide(record: T) -> Truth:
        truth: Truth = True
        for part in parts:
            found = part(record)
            if found is False:
                return False
            if found is None:
                truth = None
        return truth

    return decide


def _any(parts: list[Condition[T]]) -> Condition[T]:
    def decide(record: T) -> Truth:
        truth: Truth = False
        for part in parts:
            found = part(record)
            if found:
                return True
            if found is None:
                truth = None
        return truth

    return decide


def _inverted(part: Condition[T]) -> Condition[T]:
    def decide(record: T) -> Truth:
        found = part(record)
        return None if found is None else not found

    return decide


def _comparison(node: Comparison, field: Field[T]) -> Condition[T]:
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
    # Bound once more: mypy does not carry the narrowing into a closure.
    possible, wanted = may_contain, text
    return lambda record: possible(record, wanted) and decide(record)


def _presence(field: Field[T]) -> Test:
    return bool if field.defaulted else lambda value: True
