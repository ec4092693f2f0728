"""Fields and functions of filters over log entries.

Words without a field are searched in the payload, the labels, the log's name and the resource, but not in
insert ids and times, which would match by accident.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from google.protobuf.descriptor import FieldDescriptor

from tui.domain.core.log_entry import Severity
from tui.emulator.filters.fields import MISSING, Condition, FieldEntry, FieldTable, FilterField, UnknownField
from tui.emulator.filters.functions import (
    DURATION,
    TIME,
    cast,
    ip_in_net,
    only_text,
    refused,
    regexp_extract,
    sample,
)
from tui.emulator.filters.syntax import FilterCall
from tui.emulator.filters.value_types import Ordered, as_number, duration_value, folded_text
from tui.emulator.logging.query.text import search_entry, search_source
from tui.emulator.logging.record import JSON, LogEntryPb, LogSource, StoredEntry

_NAMES = [field.json_name for field in LogEntryPb.DESCRIPTOR.fields]
_SNAKE = {field.name: field.json_name for field in LogEntryPb.DESCRIPTOR.fields if "_" in field.name}
"""REST names of fields by proto name: both `text_payload` and `textPayload` are accepted."""
_HINT = (
    "use one of resource, labels, severity, timestamp, textPayload, jsonPayload, logName or insertId, "
    "or put text to search for in quotes"
)
SOURCE_NAMES = frozenset({"resource", "logName"})
"""Fields that all entries of a source have in common."""
SOURCE_FUNCTIONS = frozenset({"log_id", "source"})
"""Functions that test only these fields."""

_SOURCE = re.compile(r"(?:projects|folders|organizations|billingAccounts)/[^/\s]+")
_NEVER_ESCAPED = re.compile(r"[a-z0-9 _.,:;=@#%()\[\]-]*")
r"""Pattern of text that JSON does not escape, unless all text is written as \u escapes."""


def canonical(path: tuple[str, ...]) -> tuple[str, ...]:
    """Return the path with its first name in REST format."""
    return (_SNAKE.get(path[0], path[0]), *path[1:])


def severity_value(text: str) -> int:
    """Parse a severity's name or number. Raises ValueError."""
    return int(text) if text.isdecimal() else int(Severity.parse(text))


# Fields of a source.


def _resource(rest: tuple[str, ...]) -> FilterField[LogSource]:
    match rest:
        case ():
            return FilterField(
                lambda source: {"type": source.resource_type, "labels": dict(source.resource_labels)}
            )
        case ("type",):
            return FilterField(lambda source: source.resource_type, defaulted=True)
        case ("labels",):
            return FilterField(lambda source: dict(source.resource_labels))
        case ("labels", *names):
            label = ".".join(names)
            return FilterField(lambda source: source.resource_labels.get(label, MISSING))
    raise UnknownField(
        f"a resource has no field {'.'.join(rest)!r}; use resource.type or resource.labels.NAME"
    )


def _log_id(call: FilterCall, _table: FieldTable[LogSource]) -> Condition[LogSource]:
    log_id = only_text(call, 'log_id("app")')
    return lambda source: source.log_id == log_id


def _source(call: FilterCall, _table: FieldTable[LogSource]) -> Condition[LogSource]:
    """Match this project, folder or organization only, not its descendants."""
    name = only_text(call, "source(projects/my-project)")
    if _SOURCE.fullmatch(name) is None:
        raise refused(call, f"{name!r} must be projects/ID, folders/ID or organizations/ID")
    project = name.removeprefix("projects/")
    return lambda source: source.project == project


def _in_source(folded: str) -> Callable[[LogSource], bool]:
    def meets(source: LogSource) -> bool:
        texts = (source.log_name, source.resource_type, *source.resource_labels.values())
        return any(folded in text.casefold() for text in texts)

    return meets


_LOG_NAME: FilterField[LogSource] = FilterField(lambda source: source.log_name, defaulted=True)


# Fields of an entry.


def _of_entry(field: FilterField[LogSource]) -> FilterField[StoredEntry]:
    get = field.get
    return FilterField(lambda record: get(record.source), defaulted=field.defaulted)


def _by_source(
    make: Callable[[FilterCall, FieldTable[LogSource]], Condition[LogSource]],
) -> Callable[[FilterCall, FieldTable[StoredEntry]], Condition[StoredEntry]]:
    def condition(call: FilterCall, _table: FieldTable[StoredEntry]) -> Condition[StoredEntry]:
        condition = make(call, SOURCE_FIELDS)
        return lambda record: condition(record.source)

    return condition


def _search_entry(text: str) -> Condition[StoredEntry]:
    folded = text.casefold()
    in_source = _in_source(folded)
    # A number may be written in many ways.
    is_number = as_number(text) is not None

    def meets(record: StoredEntry) -> bool:
        if folded in record.text.casefold():
            return True
        if (is_number or _may_contain(record, folded)) and _contains(record.json, folded):
            return True
        extra = record.extra
        return bool(extra and _contains(extra.get("labels"), folded)) or in_source(record.source)

    return meets


def _json_payload(rest: tuple[str, ...]) -> FilterField[StoredEntry]:
    def get(record: StoredEntry) -> Any:
        payload = record.json
        return MISSING if payload is None else _walk(payload, rest)

    return FilterField(get, may_contain=_may_contain)


def _labels(rest: tuple[str, ...]) -> FilterField[StoredEntry]:
    label = (".".join(rest),) if rest else ()
    return FilterField(lambda record: _walk(record.extra.get("labels", MISSING), label))


def _other(name: str) -> FieldEntry[StoredEntry]:
    """Return a field that only clients write, read from the entry's REST format.

    A field that the API declares has its default if a client left it out.
    """
    declared = next(field for field in LogEntryPb.DESCRIPTOR.fields if field.json_name == name)
    known = declared.message_type is not None and declared.message_type.full_name.startswith(
        "google.logging."
    )

    def entry(rest: tuple[str, ...]) -> FilterField[StoredEntry]:
        path = (name, *(_camel(part) for part in rest))
        field = _member(declared, path) if known or not rest else None
        if field is not None and field.message_type is None:
            return _declared(field, path)
        if field is not None and field.message_type.full_name == "google.protobuf.Duration":
            return FilterField(
                lambda r: duration_value(_walk_or(r.extra, path, "0s")), DURATION, defaulted=True
            )
        return FilterField(lambda record: _walk(record.extra, path) if record.extra else MISSING)

    return entry


def _member(field: FieldDescriptor, path: tuple[str, ...]) -> FieldDescriptor:
    """Return the declared field of this path. Raises UnknownField."""
    for part in path[1:]:
        members = field.message_type.fields if field.message_type is not None else ()
        member_field = next((member for member in members if member.json_name == part), None)
        if member_field is None:
            names = ", ".join(member.json_name for member in members) or "no parts"
            raise UnknownField(f"unknown field {'.'.join(path)!r}; {path[0]} has {names}")
        field = member_field
    return field


def _declared(field: FieldDescriptor, path: tuple[str, ...]) -> FilterField[StoredEntry]:
    default: Any = "" if field.type == FieldDescriptor.TYPE_STRING else field.default_value
    if field.is_repeated:
        default = []
    # In the REST format 64-bit integers are strings.
    convert = int if isinstance(default, int) and not isinstance(default, bool) else None

    def get(record: StoredEntry) -> Any:
        value = _walk_or(record.extra, path, default)
        return convert(value) if convert is not None and isinstance(value, str) else value

    return FilterField(get, defaulted=True)


def _walk_or(extra: dict[str, Any], path: Sequence[str], default: Any) -> Any:
    value = _walk(extra, path)
    return default if value is MISSING else value


def _walk(value: Any, path: Sequence[str]) -> Any:
    for name in path:
        if not isinstance(value, dict) or name not in value:
            return MISSING
        value = value[name]
    return value


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _may_contain(record: StoredEntry, folded: str) -> bool:
    """Return whether a JSON line can contain this text. Searching the line is far cheaper than parsing it."""
    if record.row[4] != JSON or not _NEVER_ESCAPED.fullmatch(folded):
        return True
    line = folded_text(str(record.row[5]))
    return folded in line or "\\u" in line


def _contains(value: Any, folded: str) -> bool:
    if isinstance(value, str):
        return folded in value.casefold()
    if isinstance(value, dict):
        return any(_contains(element, folded) for element in value.values())
    if isinstance(value, list):
        return any(_contains(element, folded) for element in value)
    if isinstance(value, bool):
        return folded == str(value).casefold()
    return isinstance(value, int | float) and folded == f"{value:g}"


_ENTRY: Mapping[str, FieldEntry[StoredEntry]] = {
    **{name: _other(name) for name in _NAMES},
    "timestamp": FilterField(lambda record: record.row[1], TIME),
    "receiveTimestamp": FilterField(lambda record: record.row[6], TIME),
    "severity": FilterField(lambda record: record.row[3], Ordered(severity_value), defaulted=True),
    "insertId": FilterField(lambda record: record.row[2], defaulted=True),
    "textPayload": FilterField(lambda record: record.text, defaulted=True),
    "trace": FilterField(lambda record: str(record.extra.get("trace", "")), defaulted=True),
    "spanId": FilterField(lambda record: str(record.extra.get("spanId", "")), defaulted=True),
    "jsonPayload": _json_payload,
    "labels": _labels,
    "resource": lambda rest: _of_entry(_resource(rest)),
    "logName": _of_entry(_LOG_NAME),
}

ENTRY_FIELDS: FieldTable[StoredEntry] = FieldTable(
    _ENTRY,
    hint=_HINT,
    aliases=_SNAKE,
    search=_search_entry,
    functions={
        "log_id": _by_source(_log_id),
        "source": _by_source(_source),
        "search": search_entry,
        "sample": sample,
        "ip_in_net": ip_in_net,
    },
    value_functions={"cast": cast, "regexp_extract": regexp_extract},
)


# Conditions on the source are decided here; conditions on the entries stay undecided.


def _undecided(name: str) -> Callable[[tuple[str, ...]], FilterField[LogSource]]:
    def entry(rest: tuple[str, ...]) -> FilterField[LogSource]:
        values = ENTRY_FIELDS.find((name, *rest)).values
        return FilterField(lambda source: MISSING, values, known=False)

    return entry


def _search_source(text: str) -> Condition[LogSource]:
    meets = _in_source(text.casefold())
    return lambda source: meets(source) or None


SOURCE_FIELDS: FieldTable[LogSource] = FieldTable(
    {**{name: _undecided(name) for name in _NAMES}, "resource": _resource, "logName": _LOG_NAME},
    hint=_HINT,
    aliases=_SNAKE,
    search=_search_source,
    functions={
        "log_id": _log_id,
        "source": _source,
        "search": search_source,
        "sample": sample,
        "ip_in_net": ip_in_net,
    },
    value_functions={"cast": cast, "regexp_extract": regexp_extract},
)
