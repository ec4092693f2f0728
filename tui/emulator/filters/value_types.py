"""Types of field values: each type compiles a comparison to a test.

- `AnyValue`: fields of Logging and Monitoring. Text is compared ignoring case, except for regular
  expressions, which use Python's syntax (the service uses RE2) and may match anywhere in the text. `:` finds
  a part of a text, an element of a list and anything inside a structure. On a list every operator tests
  whether one element matches; `!=` and `!~` test that no element is equal.
- `Ordered`: values with a natural order, such as times and severities.
- `WildcardText`: texts of Vertex. `=` is case-sensitive; `:` accepts a pattern in which `*` matches any text.
- `EnumName`: the name of an enum's value.
"""

from __future__ import annotations

import difflib
import operator
import re
import unicodedata
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Protocol

from tui.domain.log.pattern import PatternError, compile_pattern
from tui.emulator.filters.syntax import Comparison, FilterCall, FilterError, Value, render

Test = Callable[[Any], bool]
"""A function that tests whether an existing value matches a comparison."""

EQUALITY = ("=", "!=")
ORDER = (*EQUALITY, "<", "<=", ">", ">=")

_COMPARE: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq, ":": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le,
    ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
_FULL_MATCH = "monitoring.regex.full_match"
_BOOLEANS = {"true": True, "false": False}
_NULL = Value("NULL_VALUE", False)
_TIME = re.compile(r"(\d{4}-\d\d-\d\d)(?:[Tt ](\d\d:\d\d(?::\d\d)?)(?:\.(\d{1,9}))?)?([Zz]|[+-]\d\d:?\d\d)?")
_DURATION = re.compile(r"([+-]?(?:\d{1,12}(?:\.\d{0,9})?|\.\d{1,9}))(ns|us|ms|s|m|h)", re.ASCII)
_UNITS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}
_RFC3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:[Zz]|[+-]\d\d:\d\d)", re.ASCII)


class ValueType(Protocol):
    """One type of value."""

    @property
    def operators(self) -> tuple[str, ...]:
        """Operators that comparisons with the type support."""

    def test(self, comparison: Comparison) -> Test:
        """Return the test of a comparison.

        Raises FilterError for a value that the type or the operator does not accept.
        """


class AnyValue:
    """Strings, numbers, booleans, null, lists and structures, as JSON has them."""

    operators = (*ORDER, ":", "=~", "!~")

    def test(self, comparison: Comparison) -> Test:
        value, sign = comparison.value, comparison.operator
        if isinstance(value, FilterCall):
            return _function_test(comparison, value)
        if sign in {"=~", "!~"}:
            return _regex_test(comparison, value, sign == "=~")
        if sign == "!=":
            equal = _leaf_test("=", value)
            return lambda field_value: not _some(field_value, equal)
        test = _leaf_test(sign, value)
        return (
            _anywhere(test, value.text.casefold())
            if sign == ":"
            else lambda field_value: _some(field_value, test)
        )


class Ordered:
    """Values with an order. `read` converts the filter's word to a value; it raises ValueError."""

    def __init__(
        self, read: Callable[[str], Any], operators: tuple[str, ...] = (*ORDER, ":"), *, is_time: bool = False
    ) -> None:
        self._read = read
        self.operators = operators
        self.is_time = is_time
        """Whether values are nanoseconds since the epoch."""

    def test(self, comparison: Comparison) -> Test:
        text = _literal(comparison)
        try:
            operand = self._read(text)
        except ValueError as error:
            raise FilterError(f"{render(comparison)}: {error}", comparison.position) from error
        compare = _COMPARE[comparison.operator]
        return lambda field_value: compare(field_value, operand)


class WildcardText:
    """A string compared exactly, or completely with a pattern."""

    operators = (*EQUALITY, ":")

    def test(self, comparison: Comparison) -> Test:
        operand = _literal(comparison)
        if comparison.operator == ":":
            return wildcard(operand)
        compare = _COMPARE[comparison.operator]
        return lambda field_value: compare(field_value, operand)


class EnumName:
    """A number that the filter names. `description` lists the valid names."""

    operators = EQUALITY

    def __init__(self, description: str, numbers: Mapping[str, int], example: str) -> None:
        self._what = description
        self._numbers = numbers
        self._example = example

    def test(self, comparison: Comparison) -> Test:
        name = _literal(comparison)
        number = self._numbers.get(name)
        if number is None:
            near = difflib.get_close_matches(name, self._numbers, 1, 0.5)
            hint = f"did you mean {near[0]}?" if near else f"write the value like {self._example}"
            raise FilterError(f"{name!r} must be a {self._what}; {hint}", comparison.position)
        compare = _COMPARE[comparison.operator]
        return lambda field_value: compare(field_value, number)


def _literal(comparison: Comparison) -> str:
    value = comparison.value
    if isinstance(value, FilterCall):
        problem = f"{comparison.left} must be compared with a value, not with {value.name}()"
        raise FilterError(problem, value.position)
    return value.text


def required_text(comparison: Comparison) -> str | None:
    """Return the folded text that an `AnyValue` must contain to match the comparison, or `None` if the result
    is unknown."""
    value = comparison.value
    if comparison.operator not in {"=", ":"} or comparison.presence or isinstance(value, FilterCall):
        return None
    if as_number(value.text) is not None or value == _NULL:
        return None
    return folded_text(value.text)


def _regex_test(comparison: Comparison, value: Value, expected: bool) -> Test:
    try:
        search = compile_pattern(value.text).matches
    except PatternError as error:
        problem = f"{value.text!r} must be a regular expression of RE2: {error}"
        raise FilterError(problem, comparison.position) from error

    def matches(member: object) -> bool:
        return isinstance(member, str) and search(member)

    if expected:
        return lambda field_value: _some(field_value, matches)
    return lambda field_value: isinstance(field_value, str | list) and not _some(field_value, matches)


def _function_test(comparison: Comparison, call: FilterCall) -> Test:
    """Return the test of a Monitoring filter function. These functions are case-sensitive."""
    texts = call.texts
    if call.name == _FULL_MATCH:
        return _full_match(comparison, call)
    tests: dict[str, Test] = {
        "one_of": lambda text: text in texts,
        "starts_with": lambda text: text.startswith(texts[0]),
        "ends_with": lambda text: text.endswith(texts[0]),
        "has_substring": lambda text: texts[0] in text,
    }
    if call.name not in tests or comparison.operator not in EQUALITY:
        known = ", ".join((*tests, _FULL_MATCH))
        problem = f"{call.name}() can't be used here; the functions after = and != are {known}"
        raise FilterError(problem, call.position)
    if not texts or (call.name != "one_of" and len(texts) > 1):
        raise FilterError(f"{call.name}() must have {'values' if not texts else 'one value'}", call.position)
    test, expected = tests[call.name], comparison.operator == "="
    return lambda field_value: isinstance(field_value, str) and test(field_value) is expected


def _full_match(comparison: Comparison, call: FilterCall) -> Test:
    """`monitoring.regex.full_match("a.*")`: a regular expression that matches the entire text."""
    if len(call.texts) != 1 or comparison.operator not in EQUALITY:
        raise FilterError(f"{call.name}() must have one regular expression, after = or !=", call.position)
    matches = _regex_test(comparison, Value(rf"^(?:{call.texts[0]})$"), expected=True)
    expected = comparison.operator == "="
    return lambda field_value: isinstance(field_value, str) and matches(field_value) is expected


def _some(field_value: object, test: Test) -> bool:
    if isinstance(field_value, list):
        return any(_some(element, test) for element in field_value)
    return test(field_value)


def _anywhere(test: Test, folded: str) -> Test:
    """Return the test of `:`, which also searches member names and values of structures."""

    def anywhere(field_value: object) -> bool:
        if isinstance(field_value, dict):
            return any(name.casefold() == folded or anywhere(value) for name, value in field_value.items())
        if isinstance(field_value, list):
            return any(anywhere(element) for element in field_value)
        return test(field_value)

    return anywhere


def folded_text(text: str) -> str:
    """Return the text for comparison, case folded and normalised (NFKC)."""
    return text.casefold() if text.isascii() else unicodedata.normalize("NFKC", text).casefold()


def _leaf_test(sign: str, value: Value) -> Test:
    folded = folded_text(value.text)
    number = as_number(value.text)
    null = value == _NULL
    compare = _COMPARE[sign]

    def test(field_value: object) -> bool:
        if isinstance(field_value, str):
            text = folded_text(field_value)
            return folded in text if sign == ":" else compare(text, folded)
        if isinstance(field_value, bool):
            return folded in _BOOLEANS and compare(field_value, _BOOLEANS[folded])
        if isinstance(field_value, int | float):
            return number is not None and compare(field_value, number)
        return field_value is None and null and sign in "=:"

    return test


def wildcard(pattern: str) -> Test:
    """Return the test of an entire text against a pattern with `*`."""
    first, *middle = pattern.split("*")
    if not middle:
        return lambda text: text == first
    *middle, last = middle

    def fits(text: str) -> bool:
        # The leftmost match of each part suffices, so this never backtracks.
        if len(text) < len(first) + len(last) or not (text.startswith(first) and text.endswith(last)):
            return False
        at, end = len(first), len(text) - len(last)
        for part in middle:
            position = text.find(part, at, end)
            if position < 0:
                return False
            at = position + len(part)
        return True

    return fits


def as_number(text: str) -> float | None:
    """Return the number that a word denotes, or `None` if there is none."""
    try:
        return float(text)
    except ValueError:
        return None


def time_value(text: str) -> int:
    """Return the nanoseconds since the epoch of an RFC 3339 time or the start of a day; UTC without a zone.

    Raises ValueError for anything else, with an example.
    """
    match = _TIME.fullmatch(text.strip())
    try:
        if match is None:
            raise ValueError
        day, clock, fraction, zone = match.groups()
        moment = datetime.fromisoformat(f"{day}T{clock or '00:00:00'}{(zone or 'Z').upper()}")
    except ValueError:
        raise ValueError(f'{text!r} must be a time like "2026-11-21T08:30:00Z", or a day') from None
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 10**9 + int((fraction or "").ljust(9, "0"))


def duration_value(text: str) -> int:
    """Return the nanoseconds of a number with a unit, e.g. `3.2s`.

    Raises ValueError for anything else, with an example.
    """
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise ValueError(f'{text!r} must be a duration like "3.2s" with ns, us, ms, s, m or h')
    return round(Decimal(match[1]) * _UNITS[match[2]])


def rfc3339_value(text: str) -> int:
    """Return the nanoseconds of a full RFC 3339 time with zone, for services that require it."""
    try:
        if _RFC3339.fullmatch(text) is None:
            raise ValueError
        return time_value(text)
    except ValueError:
        raise ValueError(f"{text!r} must be an RFC 3339 time such as 2026-11-01T00:00:00Z") from None
