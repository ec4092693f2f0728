"""The table of fields that a service's filters can use."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from tui.emulator.filters.parser import MAX_NESTING
from tui.emulator.filters.syntax import Comparison, FilterCall, FilterError, Search
from tui.emulator.filters.value_types import AnyValue, ValueType

T = TypeVar("T")
Truth = bool | None
"""Result of a test; `None` if the known part of the record does not decide."""
Condition = Callable[[T], Truth]

MISSING: Any = object()
"""Return value of `FilterField.get` for a record that lacks the field."""
ANY_VALUE = AnyValue()


class UnknownField(LookupError):
    """The field does not exist; the message is for the user."""


@dataclass(frozen=True, slots=True)
class FilterField(Generic[T]):
    """A field: how to read it, and which values it can be compared with."""

    get: Callable[[T], Any]
    """A function that returns the value, or `MISSING`."""
    values: ValueType = ANY_VALUE
    defaulted: bool = False
    """Whether every record has the field. `field:*` then tests that the field is not empty."""
    missing_differs: bool = False
    """Whether a record without the field matches `!=`. Otherwise it matches no comparison."""
    known: bool = True
    """Whether `get` can be called. Comparisons with an unknown field are undecided."""
    may_contain: Callable[[T, str], bool] | None = None
    """A cheap pre-check: False if no text in the field can contain the given text (case folded)."""


FieldEntry = FilterField[T] | Callable[[tuple[str, ...]], FilterField[T]]
"""A field, or a function that returns a field for the rest of a path (`labels.KEY`) and raises
`UnknownField`."""


class FieldTable(Generic[T]):
    """The fields of one kind of record.

    `hint` ends the message about an unknown field. `aliases` maps other spellings of the first name in a
    path. `search` compiles words without a field, `functions` stand-alone calls, and `value_functions` calls
    left of an operator; a service without these tables refuses the calls. Function names are listed in lower
    case and matched in any case. `max_nesting` limits parentheses and negations.
    """

    def __init__(
        self,
        fields: Mapping[str, FieldEntry[T]],
        *,
        hint: str,
        aliases: Mapping[str, str] | None = None,
        search: Callable[[str], Condition[T]] | None = None,
        functions: Mapping[str, Callable[[FilterCall, FieldTable[T]], Condition[T]]] | None = None,
        value_functions: Mapping[str, Callable[[FilterCall, FieldTable[T]], FilterField[T]]] | None = None,
        max_nesting: int = MAX_NESTING,
    ) -> None:
        self._fields = fields
        self._hint = hint
        self._aliases = aliases or {}
        self._search = search
        self._functions = functions or {}
        self._value_functions = value_functions or {}
        self.max_nesting = max_nesting

    def find(self, path: tuple[str, ...]) -> FilterField[T]:
        """Return the field at a path. Raises UnknownField."""
        first = self._aliases.get(path[0], path[0])
        entry = self._fields.get(first)
        name = ".".join(path)
        if entry is None:
            near = difflib.get_close_matches(first, [*self._fields, *self._aliases], 1)
            hint = f"did you mean {near[0]}?" if near else self._hint
            raise UnknownField(f"unknown field {name!r}; {hint}")
        if not isinstance(entry, FilterField):
            return entry(path[1:])
        if len(path) > 1:
            raise UnknownField(f"{name!r}: {first} has no part {path[1]!r}; write {first}")
        return entry

    def field(self, comparison: Comparison) -> FilterField[T]:
        """Return the field that a comparison names. Raises FilterError."""
        path = comparison.path
        if isinstance(path, FilterCall):
            name, field = comparison.left, self.value_call(path)
        else:
            name, field = ".".join(path), self.named(path, comparison.position)
        if comparison.operator not in field.values.operators:
            allowed = " ".join(field.values.operators)
            problem = f"{name} can't be compared with {comparison.operator!r}; use {allowed}"
            raise FilterError(problem, comparison.position)
        return field

    def named(self, path: tuple[str, ...], position: int) -> FilterField[T]:
        """Return the field at a path, which is at this position of the filter. Raises FilterError."""
        try:
            return self.find(path)
        except UnknownField as error:
            raise FilterError(str(error), position) from error

    def search(self, words: Search) -> Condition[T]:
        """Return the condition for words without a field. Raises FilterError."""
        if self._search is None:
            problem = f"{words.text!r} stands alone; an operator (= != : < <= > >=) must follow"
            raise FilterError(problem, words.end)
        return self._search(words.text)

    @property
    def searches(self) -> bool:
        """Whether words may stand without a field."""
        return self._search is not None

    def call(self, call: FilterCall) -> Condition[T]:
        """Return the condition of a stand-alone function. Raises FilterError."""
        function = self._functions.get(call.name.lower())
        if function is not None:
            return function(call, self)
        if call.name.lower() in self._value_functions:
            raise FilterError(
                f"{call.name}() makes a value; an operator and a value must follow", call.position
            )
        known = ", ".join(f"{name}(…)" for name in self._functions)
        hint = f"; {known} may stand alone" if known else "; write field = value"
        raise FilterError(f"{call.name}() can't stand alone{hint}", call.position)

    def value_call(self, call: FilterCall) -> FilterField[T]:
        """Return the field of a function left of an operator or inside another function. Raises
        FilterError."""
        function = self._value_functions.get(call.name.lower())
        if function is not None:
            return function(call, self)
        known = ", ".join(f"{name}(…)" for name in self._value_functions)
        hint = f"; {known} may" if known else "; write field = value"
        raise FilterError(f"{call.name}() can't stand before an operator{hint}", call.position)
