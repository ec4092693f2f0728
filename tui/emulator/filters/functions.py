"""Functions over a field of any record, as in Cloud Logging's query language.

`cast` and `regexp_extract` derive a value from a field, `sample` and `ip_in_net` are conditions. The first
argument is the path of a field or another function that returns a value.
"""

from __future__ import annotations

import hashlib
import ipaddress
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, tzinfo
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from tui.domain.log.pattern import PatternError, compiled_with_groups
from tui.emulator.filters.fields import ANY_VALUE, MISSING, Condition, FieldTable, FilterField, T
from tui.emulator.filters.parser import path_of
from tui.emulator.filters.syntax import FilterCall, FilterError, Value
from tui.emulator.filters.value_types import Ordered, ValueType, as_number, duration_value, time_value

_OFFSET = re.compile(r"[+-]\d\d:\d\d")
_HASHES = 1 << 64


def cast(call: FilterCall, table: FieldTable[T]) -> FilterField[T]:
    """`cast(field, TYPE)`: the field's value as another type; comparisons fail if the value can't be
    converted."""
    if len(call.arguments) not in {2, 3}:
        raise refused(call, "must have a field and a type, e.g. cast(jsonPayload.n, INT64)")
    field = field_of(call, table)
    zone: tzinfo = UTC
    name = _text(call, 1).upper()
    if len(call.arguments) == 3:
        zone = _zone(call)
        if name != "STRING":
            raise refused(call, "accepts a time zone only to convert a time to a STRING")
    timed = isinstance(field.values, Ordered) and field.values.is_time
    kinds: Mapping[str, tuple[Callable[[Any], Any], ValueType]] = {
        "STRING": ((lambda value: _time_text(value, zone)) if timed else _string, ANY_VALUE),
        "INT64": (_integer, ANY_VALUE),
        "FLOAT64": (lambda value: float(str(value)), ANY_VALUE),
        "BOOL": (_boolean, ANY_VALUE),
        "TIMESTAMP": ((lambda value: value) if timed else lambda value: time_value(str(value)), TIME),
        "DURATION": (lambda value: duration_value(str(value)), DURATION),
    }
    if name not in kinds:
        raise refused(call, f"must convert to {', '.join(kinds)}, not to {name!r}")
    convert, values = kinds[name]
    get = field.get

    def read(record: T) -> Any:
        value = get(record)
        try:
            return MISSING if value is MISSING or value is None else convert(value)
        except (ValueError, OverflowError):
            return MISSING

    return FilterField(read, values, known=field.known)


TIME = Ordered(time_value, is_time=True)
DURATION = Ordered(duration_value)


def regexp_extract(call: FilterCall, table: FieldTable[T]) -> FilterField[T]:
    """`regexp_extract(field, "a(b)")`: the text that the only group matches first."""
    if len(call.arguments) != 2:
        raise refused(call, "must have a field and a regular expression with one group in parentheses")
    field, text = field_of(call, table), _text(call, 1)
    try:
        pattern = compiled_with_groups(text)
    except PatternError as error:
        raise refused(call, f"{text!r} must be a regular expression of RE2: {error}") from error
    if pattern.groups != 1:
        raise refused(call, f"{text!r} must have one group in parentheses, not {pattern.groups}")
    get = field.get

    def read(record: T) -> Any:
        value = get(record)
        match = pattern.search(value) if isinstance(value, str) else None
        return MISSING if match is None or match[1] is None else match[1]

    return FilterField(read, known=field.known)


def sample(call: FilterCall, table: FieldTable[T]) -> Condition[T]:
    """`sample(field, 0.25)`: a quarter of the records, by a hash of the field's value."""
    if len(call.arguments) != 2:
        raise refused(call, "must have a field and a fraction, e.g. sample(insertId, 0.25)")
    field, text = field_of(call, table), _text(call, 1)
    fraction = as_number(text)
    if fraction is None or not 0 < fraction <= 1:
        raise refused(call, f"{text!r} must be a fraction above 0 and up to 1")

    def chosen(value: Any) -> bool:
        if not isinstance(value, str | int | float):
            return False
        hashed = hashlib.blake2b(str(value).encode("utf-8", "surrogatepass"), digest_size=8).digest()
        return int.from_bytes(hashed) / (_HASHES - 1) <= fraction

    return _condition(field, chosen)


def ip_in_net(call: FilterCall, table: FieldTable[T]) -> Condition[T]:
    """`ip_in_net(field, "10.1.2.0/24")`: whether an address, or a range, lies in the range."""
    if len(call.arguments) != 2:
        raise refused(call, 'must have a field and a range, e.g. ip_in_net(jsonPayload.ip, "10.1.2.0/24")')
    field, text = field_of(call, table), _text(call, 1)
    try:
        net = ipaddress.ip_network(text, strict=False)
    except ValueError:
        raise refused(call, f"{text!r} must be an IP address or range such as 10.1.2.0/24") from None

    def inside(value: Any) -> bool:
        if isinstance(value, list):
            return any(inside(element) for element in value)
        try:
            network = ipaddress.ip_network(value, strict=False) if isinstance(value, str) else None
        except ValueError:
            return False
        return network is not None and network.version == net.version and network.subnet_of(net)  # type: ignore[arg-type]

    return _condition(field, inside)


def field_of(call: FilterCall, table: FieldTable[T]) -> FilterField[T]:
    """Return the field of the first argument. Raises FilterError."""
    first = call.arguments[0]
    if isinstance(first, FilterCall):
        return table.value_call(first)
    return table.named((first.text,) if first.quoted else path_of(first.text), call.position)


def refused(call: FilterCall, problem: str) -> FilterError:
    """Return the error that names the function and its position."""
    return FilterError(f"{call.name}(): {problem}", call.position)


def only_text(call: FilterCall, example: str) -> str:
    """Return the only argument, a string. Raises FilterError."""
    if len(call.arguments) != 1:
        raise refused(call, f"must have one value, e.g. {example}")
    return _text(call, 0)


def _text(call: FilterCall, at: int) -> str:
    argument = call.arguments[at]
    if isinstance(argument, FilterCall):
        raise refused(call, f"must have a string as value {at + 1}, not {argument.name}()")
    return argument.text


def _condition(field: FilterField[T], test: Callable[[Any], bool]) -> Condition[T]:
    get = field.get
    if not field.known:
        return lambda record: None

    def decide(record: T) -> bool:
        value = get(record)
        return value is not MISSING and test(value)

    return decide


def _zone(call: FilterCall) -> tzinfo:
    match call.arguments[2]:
        case FilterCall(name, (Value(text),)) if name.upper() == "TIMEZONE":
            pass
        case _:
            raise refused(call, 'must have a time zone as TIMEZONE("America/New_York")')
    try:
        if _OFFSET.fullmatch(text):
            zone = datetime.fromisoformat(f"2000-01-01T00:00:00{text}").tzinfo
            assert zone is not None
            return zone
        return ZoneInfo(text)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise refused(call, f"{text!r} must be a time zone such as America/New_York or -05:00") from None


def _time_text(nanoseconds: int, zone: tzinfo) -> str:
    seconds, rest = divmod(nanoseconds, 10**9)
    at = datetime.fromtimestamp(seconds, zone)
    # Protobuf formats times without a fraction, or with 3, 6 or 9 digits.
    digits = next((count for count in (0, 3, 6) if rest % 10 ** (9 - count) == 0), 9)
    fraction = f".{rest:09}"[: digits + 1] if digits else ""
    offset = at.strftime("%z")
    return f"{at:%Y-%m-%dT%H:%M:%S}{fraction}" + ("Z" if zone is UTC else f"{offset[:3]}:{offset[3:5]}")


def _integer(value: Any) -> int:
    return round(value) if isinstance(value, int | float) else int(str(value))


def _string(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, dict | list):
        raise ValueError("no scalar")
    return str(value)


def _boolean(value: Any) -> bool:
    known = {"true": True, "false": False}
    try:
        return known[str(value).lower()]
    except KeyError:
        raise ValueError("no boolean") from None
