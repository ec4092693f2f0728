"""What the operators mean for a field's value: each type of value compiles a comparison to a test.

- `AnyValue`: Logging's and Monitoring's fields. Text is compared without regard to case, but for regular
  expressions; these are Python's, where the service has RE2, and may match anywhere in the text. `:` finds
  a part of a text, an element of a list and anything inside a structure. On a list every operator asks
  whether one element meets it; `!=` and `!~` ask that none is equal.
- `Ordered`: values with an order of their own, such as times and severities.
- `WildcardText`: Vertex's texts. `=` keeps case; `:` takes a pattern in which `*` stands for any text.
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
from tui.emulator.filters.syntax import Call, Comparison, FilterError, Value, render

Test = Callable[[Any], bool]
"""Whether a value that is there meets a comparison."""

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
        """Operators that a comparison with it may have."""

    def test(self, comparison: Comparison) -> Test:
        """What the comparison asks of a value.

        Raises:
            FilterError: for a value on the right that the type or the operator can't take.
        """


class AnyValue:
    """Texts, numbers, booleans, null, lists and structures, as JSON has them."""

    operators = (*ORDER, ":", "=~", "!~")

    def test(self, comparison: Comparison) -> Test:
        value, sign = comparison.value, comparison.operator
        if isinstance(value, Call):
            return _function_test(comparison, value)
        if sign in {"=~", "!~"}:
            return _regex_test(comparison, value, sign == "=~")
        if sign == "!=":
            equal = _leaf_test("=", value)
            return lambda found: not _some(found, equal)
        test = _leaf_test(sign, value)
        return _anywhere(test, value.text.casefold()) if sign == ":" else lambda found: _some(found, test)


class Ordered:
    """Values with an order. `read` turns the filter's word into a value; it raises ValueError."""

    def __init__(
        self, read: Callable[[str], Any], operators: tuple[str, ...] = (*ORDER, ":"), *, is_time: bool = False
    ) -> None:
        self._read = read
        self.operators = operators
        self.is_time = is_time
        """Values are nanoseconds since the epoch."""

    def test(self, comparison: Comparison) -> Test:
        text = _literal(comparison)
        try:
            wanted = self._read(text)
        except ValueError as error:
            raise FilterError(f"{render(comparison)}: {error}", comparison.position) from error
        compare = _COMPARE[comparison.operator]
        return lambda found: compare(found, wanted)


class WildcardText:
    """A text compared as it is written, or as a whole with a pattern."""

    operators = (*EQUALITY, ":")

    def test(self, comparison: Comparison) -> Test:
        wanted = _literal(comparison)
        if comparison.operator == ":":
            return wildcard(wanted)
        compare = _COMPARE[comparison.operator]
        return lambda found: compare(found, wanted)


class EnumName:
    """A number that the filter calls by its name. `what` says whose names they are."""

    operators = EQUALITY

    def __init__(self, what: str, numbers: Mapping[str, int], example: str) -> None:
        self._what = what
        self._numbers = numbers
        self._example = example

    def test(self, comparison: Comparison) -> Test:
        name = _literal(comparison)
        wanted = self._numbers.get(name)
        if wanted is None:
            near = difflib.get_close_matches(name, self._numbers, 1, 0.5)
            hint = f"did you mean {near[0]}?" if near else f"it is written like {self._example}"
            raise FilterError(f"{name!r} is not a {self._what}; {hint}", comparison.position)
        compare = _COMPARE[comparison.operator]
        return lambda found: compare(found, wanted)


def _literal(comparison: Comparison) -> str:
    value = comparison.value
    if isinstance(value, Call):
        problem = f"{comparison.left} is compared with a value; {value.name}() can't stand here"
        raise FilterError(problem, value.position)
    return value.text


def required_text(comparison: Comparison) -> str | None:
    """Text that an `AnyValue` must contain to meet the comparison, folded; `None` where none is known."""
    value = comparison.value
    if comparison.operator not in {"=", ":"} or comparison.presence or isinstance(value, Call):
        return None
    if as_number(value.text) is not None or value == _NULL:
        return None
    return folded_text(value.text)


def _regex_test(comparison: Comparison, value: Value, wanted: bool) -> Test:
    try:
        search = compile_pattern(value.text).matches
    except PatternError as error:
        problem = f"{value.text!r} is not a regular expression of RE2: {error}"
        raise FilterError(problem, comparison.position) from error

    def matches(found: object) -> bool:
        return isinstance(found, str) and search(found)

    if wanted:
        return lambda found: _some(found, matches)
    return lambda found: isinstance(found, str | list) and not _some(found, matches)


def _function_test(comparison: Comparison, call: Call) -> Test:
    """The functions of Monitoring's filters; they keep case."""
    given = call.texts
    if call.name == _FULL_MATCH:
        return _full_match(comparison, call)
    tests: dict[str, Test] = {
        "one_of": lambda found: found in given,
        "starts_with": lambda found: found.startswith(given[0]),
        "ends_with": lambda found: found.endswith(given[0]),
        "has_substring": lambda found: given[0] in found,
    }
    if call.name not in tests or comparison.operator not in EQUALITY:
        known = ", ".join((*tests, _FULL_MATCH))
        problem = f"{call.name}() can't stand here; the functions after = and != are {known}"
        raise FilterError(problem, call.position)
    if not given or (call.name != "one_of" and len(given) > 1):
        raise FilterError(f"{call.name}() takes {'values' if not given else 'one value'}", call.position)
    test, wanted = tests[call.name], comparison.operator == "="
    return lambda found: isinstance(found, str) and test(found) is wanted


def _full_match(comparison: Comparison, call: Call) -> Test:
    """`monitoring.regex.full_match("a.*")`: a regular expression that takes the whole of a text."""
    if len(call.texts) != 1 or comparison.operator not in EQUALITY:
        raise FilterError(f"{call.name}() takes one regular expression, after = or !=", call.position)
    matches = _regex_test(comparison, Value(rf"^(?:{call.texts[0]})$"), wanted=True)
    wanted = comparison.operator == "="
    return lambda found: isinstance(found, str) and matches(found) is wanted


def _some(found: object, test: Test) -> bool:
    if isinstance(found, list):
        return any(_some(element, test) for element in found)
    return test(found)


def _anywhere(test: Test, folded: str) -> Test:
    """`:` reaches into structures: the name of a member, or anything in one."""

    def anywhere(found: object) -> bool:
        if isinstance(found, dict):
            return any(name.casefold() == folded or anywhere(value) for name, value in found.items())
        if isinstance(found, list):
            return any(anywhere(element) for element in found)
        return test(found)

    return anywhere


def folded_text(text: str) -> str:
    """The text as comparisons take it: without regard to case and to forms of one character (NFKC)."""
    return text.casefold() if text.isascii() else unicodedata.normalize("NFKC", text).casefold()


def _leaf_test(sign: str, value: Value) -> Test:
    folded = folded_text(value.text)
    number = as_number(value.text)
    null = value == _NULL
    compare = _COMPARE[sign]

    def test(found: object) -> bool:
        if isinstance(found, str):
            text = folded_text(found)
            return folded in text if sign == ":" else compare(text, folded)
        if isinstance(found, bool):
            return folded in _BOOLEANS and compare(found, _BOOLEANS[folded])
        if isinstance(found, int | float):
            return number is not None and compare(found, number)
        return found is None and null and sign in "=:"

    return test


def wildcard(pattern: str) -> Test:
    """Whether the whole of a text fits a pattern with `*`."""
    first, *middle = pattern.split("*")
    if not middle:
        return lambda text: text == first
    *middle, last = middle

    def fits(text: str) -> bool:
        # The leftmost place for each part is always good enough, so this never tries twice.
        if len(text) < len(first) + len(last) or not (text.startswith(first) and text.endswith(last)):
            return False
        at, end = len(first), len(text) - len(last)
        for part in middle:
            found = text.find(part, at, end)
            if found < 0:
                return False
            at = found + len(part)
        return True

    return fits


def as_number(text: str) -> float | None:
    """The number that a word stands for, or `None`."""
    try:
        return float(text)
    except ValueError:
        return None


def time_value(text: str) -> int:
    """Nanoseconds since the epoch of an RFC 3339 time, or of a day's start; without a zone it is UTC.

    Raises:
        ValueError: for anything else, with an example.
    """
    match = _TIME.fullmatch(text.strip())
    try:
        if match is None:
            raise ValueError
        day, clock, fraction, zone = match.groups()
        moment = datetime.fromisoformat(f"{day}T{clock or '00:00:00'}{(zone or 'Z').upper()}")
    except ValueError:
        raise ValueError(f'{text!r} is not a time; write one like "2026-11-21T08:30:00Z", or a day') from None
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 10**9 + int((fraction or "").ljust(9, "0"))


def duration_value(text: str) -> int:
    """Nanoseconds of a number with a unit, as `3.2s`.

    Raises:
        ValueError: for anything else, with an example.
    """
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise ValueError(f'{text!r} is not a duration; write one like "3.2s" with ns, us, ms, s, m or h')
    return round(Decimal(match[1]) * _UNITS[match[2]])


def rfc3339_value(text: str) -> int:
    """The same for services that want the whole RFC 3339 form, with its zone."""
    try:
        if _RFC3339.fullmatch(text) is None:
            raise ValueError
        return time_value(text)
    except ValueError:
        raise ValueError(f"{text!r} is not an RFC 3339 time such as 2026-11-01T00:00:00Z") from None
