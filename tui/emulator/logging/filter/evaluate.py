"""Whether a record meets a filter, also where only a part of the record is known.

What a field is belongs to the caller (`Fields`); what an operator does is here:

- Text is compared without regard to case, but for regular expressions; these are Python's, where the
  service has RE2, and may match anywhere in the text.
- A field that is missing meets no comparison, not even `!=`; `NOT field=x` is how to include it. A field
  that every record has (`Field.defaulted`) counts as empty text instead.
- `:` finds a part of a text, an element of a list and anything inside a structure; `field:*` asks whether
  the field is there.
- On a list every operator asks whether one element meets it; `!=` and `!~` ask that none is equal.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Generic, Protocol, TypeVar

from tui.emulator.logging.filter.syntax import (
    And,
    Call,
    Comparison,
    FilterError,
    Node,
    Not,
    Or,
    Search,
    Value,
    render,
)

T = TypeVar("T")
Test = Callable[[Any], bool]
Verdict = bool | None
"""`None`: what is known of the record does not decide it."""
Condition = Callable[[T], Verdict]

MISSING: Any = object()
_ORDER: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq, ":": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le,
    ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
_TIME = re.compile(r"(\d{4}-\d\d-\d\d)(?:[Tt ](\d\d:\d\d(?::\d\d)?)(?:\.(\d{1,9}))?)?([Zz]|[+-]\d\d:?\d\d)?")


@dataclass(frozen=True, slots=True)
class Field(Generic[T]):
    """How to read a field. `get` gives `MISSING` where it is not there.

    `read_value` turns the filter's word into what `get` gives, for fields with an order of their own
    (times, severities); it raises ValueError with a sentence.
    """

    get: Callable[[T], Any]
    defaulted: bool = False
    read_value: Callable[[str], Any] | None = None
    known: bool = True
    """Whether `get` can be asked at all; comparisons with a field that is not known stay open."""
    screen: Callable[[T, str], bool] | None = None
    """A cheap look before `get`: False when no text in the field can contain this one (case folded)."""


class Fields(Protocol[T]):
    """What a filter may speak of."""

    def field(self, path: tuple[str, ...]) -> Field[T]:
        """Raises KeyError with a sentence for a name that can't exist."""

    def search(self, text: str) -> Condition[T]:
        """Where words without a field are looked for."""

    def call(self, call: Call) -> Condition[T]:
        """A function that stands alone. Raises KeyError with a sentence when there is none of that name."""


def compiled(node: Node, fields: Fields[T]) -> Condition[T]:
    """A function that judges one record.

    Raises:
        FilterError: for a field or function that does not exist, or a value that its field can't have.
    """
    match node:
        case And(parts):
            return _all([compiled(part, fields) for part in parts])
        case Or(parts):
            return _any([compiled(part, fields) for part in parts])
        case Not(part):
            return _inverted(compiled(part, fields))
        case Search(text):
            return fields.search(text)
        case Call(_, _, position):
            try:
                return fields.call(node)
            except KeyError as error:
                raise FilterError(str(error.args[0]), position) from error
        case Comparison(path, _, _, position):
            try:
                found = fields.field(path)
            except KeyError as error:
                raise FilterError(str(error.args[0]), position) from error
            return _comparison(node, found)


def _all(parts: list[Condition[T]]) -> Condition[T]:
    def judge(record: T) -> Verdict:
        verdict: Verdict = True
        for part in parts:
            found = part(record)
            if found is False:
                return False
            if found is None:
                verdict = None
        return verdict

    return judge


def _any(parts: list[Condition[T]]) -> Condition[T]:
    def judge(record: T) -> Verdict:
        verdict: Verdict = False
        for part in parts:
            found = part(record)
            if found:
                return True
            if found is None:
                verdict = None
        return verdict

    return judge


def _inverted(part: Condition[T]) -> Condition[T]:
    def judge(record: T) -> Verdict:
        found = part(record)
        return None if found is None else not found

    return judge


def _comparison(node: Comparison, found: Field[T]) -> Condition[T]:
    test = _presence(found) if node.presence else value_test(node, found.read_value)
    get = found.get
    if not found.known:
        return lambda record: None

    def judge(record: T) -> Verdict:
        value = get(record)
        return False if value is MISSING else test(value)

    text = _needed_text(node)
    screen = found.screen
    if screen is None or text is None:
        return judge
    look = screen
    return lambda record: look(record, text) and judge(record)


def _needed_text(node: Comparison) -> str | None:
    """Text that a field must contain to meet the comparison, folded; `None` where that can't be said."""
    value = node.value
    if node.operator not in {"=", ":"} or node.presence or isinstance(value, Call):
        return None
    if as_number(value.text) is not None or value == Value("NULL_VALUE", False):
        return None
    return value.text.casefold()


def _presence(found: Field[Any]) -> Test:
    return bool if found.defaulted else lambda value: True


def value_test(node: Comparison, read_value: Callable[[str], Any] | None = None) -> Test:
    """What a comparison asks of the field's value.

    Raises:
        FilterError: for a value that the field or the operator can't take.
    """
    value, sign = node.value, node.operator
    if isinstance(value, Call):
        return _function_test(node, value)
    if sign in {"=~", "!~"}:
        return _regex_test(node, value, sign == "=~")
    if read_value is not None:
        try:
            wanted = read_value(value.text)
        except ValueError as error:
            raise FilterError(f"{render(node)}: {error}", node.position) from error
        compare = _ORDER[sign]
        return lambda found: compare(found, wanted)
    if sign == "!=":
        equal = _leaf_test("=", value)
        return lambda found: not _some(found, equal)
    test = _leaf_test(sign, value)
    return _inside(test, value.text.casefold()) if sign == ":" else lambda found: _some(found, test)


def _regex_test(node: Comparison, value: Value, wanted: bool) -> Test:
    try:
        search = re.compile(value.text).search
    except re.error as error:
        raise FilterError(f"{value.text!r} is not a regular expression: {error}", node.position) from error

    def matches(found: object) -> bool:
        return isinstance(found, str) and search(found) is not None

    if wanted:
        return lambda found: _some(found, matches)
    return lambda found: isinstance(found, str | list) and not _some(found, matches)


def _function_test(node: Comparison, call: Call) -> Test:
    """The functions of Monitoring's filters; they keep case."""
    given = call.arguments
    tests: dict[str, Test] = {
        "one_of": lambda found: found in given,
        "starts_with": lambda found: found.startswith(given[0]),
        "ends_with": lambda found: found.endswith(given[0]),
        "has_substring": lambda found: given[0] in found,
    }
    if call.name not in tests or node.operator not in {"=", "!="}:
        raise FilterError(
            f"{call.name}() can't stand here; the functions after = and != are {', '.join(tests)}",
            call.position,
        )
    if not given or (call.name != "one_of" and len(given) > 1):
        raise FilterError(f"{call.name}() takes {'values' if not given else 'one value'}", call.position)
    test, wanted = tests[call.name], node.operator == "="
    return lambda found: isinstance(found, str) and test(found) is wanted


def _some(found: object, test: Test) -> bool:
    if isinstance(found, list):
        return any(_some(element, test) for element in found)
    return test(found)


def _inside(test: Test, folded: str) -> Test:
    """`:` reaches into structures: the name of a member, or anything in one."""

    def judge(found: object) -> bool:
        if isinstance(found, dict):
            return any(name.casefold() == folded or judge(value) for name, value in found.items())
        if isinstance(found, list):
            return any(judge(element) for element in found)
        return test(found)

    return judge


def _leaf_test(sign: str, value: Value) -> Test:
    folded = value.text.casefold()
    number = as_number(value.text)
    null = value == Value("NULL_VALUE", False)
    compare = _ORDER[sign]

    def judge(found: object) -> bool:
        if isinstance(found, str):
            return folded in found.casefold() if sign == ":" else compare(found.casefold(), folded)
        if isinstance(found, bool):
            return sign in "=:" and ("true" if found else "false") == folded
        if isinstance(found, int | float):
            return number is not None and compare(found, number)
        return found is None and null and sign in "=:"

    return judge


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
