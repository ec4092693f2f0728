"""What a filter over log entries may speak of, and how much of it SQLite can decide beforehand.

Words without a field are looked for in the payload, the labels, the log's name and the resource; not in
insert ids and times, where they would match by accident.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from tui.domain.log_entry import Severity
from tui.emulator.logging.filter import (
    MISSING,
    And,
    Call,
    Comparison,
    Condition,
    Field,
    Node,
    Not,
    Or,
    Value,
    as_number,
    compiled,
    time_value,
)
from tui.emulator.logging.record import JSON, LogEntryPb, Record, Source
from tui.emulator.logging.store import FIRST, LAST, Window

_CAMEL = {
    name: field.json_name for field in LogEntryPb.DESCRIPTOR.fields for name in (field.name, field.json_name)
}
_OF_SOURCE = frozenset({"resource", "logName"})
_NEVER_ESCAPED = re.compile(r"[a-z0-9 _.,:;=@#%()\[\]-]*")
"""Text that JSON writes as it is, unless all of it is written as \\u escapes."""
_TIME, _SEVERITY, _RECEIVED = ("timestamp",), ("severity",), ("receiveTimestamp",)


def _canonical(path: tuple[str, ...]) -> tuple[str, ...]:
    """The field in its REST form; both `text_payload` and `textPayload` are understood."""
    first = _CAMEL.get(path[0])
    if first is None:
        raise KeyError(
            f"a log entry has no field {path[0]!r}; use one of resource, labels, severity, timestamp, "
            "textPayload, jsonPayload, logName or insertId, or put text to search for in quotes"
        )
    return (first, *path[1:])


def _severity(text: str) -> int:
    return int(text) if text.isdecimal() else int(Severity.parse(text))


def _walk(value: Any, path: Sequence[str]) -> Any:
    for name in path:
        if not isinstance(value, dict) or name not in value:
            return MISSING
        value = value[name]
    return value


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _source_field(path: tuple[str, ...]) -> Field[Source]:
    if path[0] == "logName":
        return Field(lambda source: source.log_name, defaulted=True)
    part = path[1] if len(path) > 1 else ""
    if part == "type":
        return Field(lambda source: source.resource_type, defaulted=True)
    if part == "labels":
        label = ".".join(path[2:])
        if label:
            return Field(lambda source: source.resource_labels.get(label, MISSING))
        return Field(lambda source: dict(source.resource_labels))
    if part:
        raise KeyError(f"a resource has no field {part!r}; use resource.type or resource.labels.NAME")
    return Field(lambda source: {"type": source.resource_type, "labels": dict(source.resource_labels)})


def _log_id(call: Call) -> Condition[Source]:
    if call.name != "log_id" or len(call.arguments) != 1:
        raise KeyError(f'there is no condition {call.name}() here; log_id("NAME") is the only function')
    wanted = call.arguments[0]
    return lambda source: source.log_id == wanted


def _in_source(folded: str) -> Condition[Source]:
    def judge(source: Source) -> bool:
        texts = (source.log_name, source.resource_type, *source.resource_labels.values())
        return any(folded in text.casefold() for text in texts)

    return judge


class EntryFields:
    """Fields of a whole entry."""

    def field(self, path: tuple[str, ...]) -> Field[Record]:
        path = _canonical(path)
        if path[0] in _OF_SOURCE:
            found = _source_field(path)
            return Field(lambda record: found.get(record.source), found.defaulted)
        simple = _SIMPLE.get(path[0])
        if simple is not None:
            if len(path) > 1:
                raise KeyError(f"{path[0]} has no part {path[1]!r}")
            return simple
        if path[0] == "jsonPayload":
            return Field(lambda record: _json(record, path[1:]), screen=_may_contain)
        if path[0] == "labels":
            label = (".".join(path[1:]),) if len(path) > 1 else ()
            return Field(lambda record: _walk(record.extra.get("labels", MISSING), label))
        rest = (path[0], *(_camel(name) for name in path[1:]))
        return Field(lambda record: _walk(record.extra, rest) if record.extra else MISSING)

    def search(self, text: str) -> Condition[Record]:
        folded = text.casefold()
        in_source = _in_source(folded)
        # A number may be written in many ways.
        screen = _may_contain if as_number(text) is None else _anything

        def judge(record: Record) -> bool:
            if folded in record.text.casefold():
                return True
            if screen(record, folded) and _contains(record.json, folded):
                return True
            extra = record.extra
            return bool(extra and _contains(extra.get("labels"), folded)) or bool(in_source(record.source))

        return judge

    def call(self, call: Call) -> Condition[Record]:
        judge = _log_id(call)
        return lambda record: judge(record.source)


class SourceFields:
    """Fields of a source; everything else about an entry stays open."""

    def field(self, path: tuple[str, ...]) -> Field[Source]:
        path = _canonical(path)
        if path[0] in _OF_SOURCE:
            return _source_field(path)
        read_value = EntryFields().field(path).read_value
        return Field(lambda source: MISSING, read_value=read_value, known=False)

    def search(self, text: str) -> Condition[Source]:
        judge = _in_source(text.casefold())
        return lambda source: judge(source) or None

    def call(self, call: Call) -> Condition[Source]:
        return _log_id(call)


_SIMPLE: dict[str, Field[Record]] = {
    "timestamp": Field(lambda record: record.row[1], read_value=time_value),
    "receiveTimestamp": Field(lambda record: record.row[6], read_value=time_value),
    "severity": Field(lambda record: record.row[3], defaulted=True, read_value=_severity),
    "insertId": Field(lambda record: record.row[2], defaulted=True),
    "textPayload": Field(lambda record: record.text, defaulted=True),
    "trace": Field(lambda record: str(record.extra.get("trace", "")), defaulted=True),
    "spanId": Field(lambda record: str(record.extra.get("spanId", "")), defaulted=True),
}


def _json(record: Record, path: Sequence[str]) -> Any:
    found = record.json
    return MISSING if found is None else _walk(found, path)


def _may_contain(record: Record, folded: str) -> bool:
    """Whether a JSON line can hold this text. Looking at the line is far cheaper than parsing it."""
    if record.row[4] != JSON or not _NEVER_ESCAPED.fullmatch(folded):
        return True
    line = str(record.row[5]).casefold()
    return folded in line or "\\u" in line


def _anything(record: Record, folded: str) -> bool:
    return True


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


@dataclass(frozen=True, slots=True)
class Plan:
    """How a filter is answered: which sources, which of their rows, and what is asked of each row."""

    source: Condition[Source]
    window: Window
    entry: Condition[Record]


def plan(node: Node) -> Plan:
    """Raises FilterError for a filter that means nothing for log entries."""
    compiled(node, EntryFields())
    parts = node.parts if isinstance(node, And) else (node,)
    rest = And(tuple(part for part in parts if not _settled(part)))
    return Plan(compiled(node, SourceFields()), window(node), compiled(rest, EntryFields()))


def window(node: Node) -> Window:
    """The narrowest bounds that no entry which meets the filter lies outside of."""
    match node:
        case And(parts):
            found = [window(part) for part in parts]
            return Window(
                max((w.first for w in found), default=FIRST),
                min((w.last for w in found), default=LAST),
                max((w.severity for w in found), default=0),
                max((w.received for w in found), default=FIRST),
                min((w.received_last for w in found), default=LAST),
            )
        case Or(parts):
            found = [window(part) for part in parts]
            return Window(
                min(w.first for w in found),
                max(w.last for w in found),
                min(w.severity for w in found),
                min(w.received for w in found),
                max(w.received_last for w in found),
            )
        case Comparison(path, operator, Value(text)) if not node.presence:
            return _bounds(_canonical(path), operator, text)
    return Window()


def _bounds(path: tuple[str, ...], operator: str, text: str) -> Window:
    full = Window()
    if path == _SEVERITY and operator in {"=", ":", ">=", ">"}:
        return replace(full, severity=_severity(text) + (operator == ">"))
    if path == _RECEIVED and operator in {">=", ">"}:
        return replace(full, received=time_value(text) + (operator == ">"))
    if path == _RECEIVED and operator in {"<=", "<"}:
        return replace(full, received_last=time_value(text) - (operator == "<"))
    if path != _TIME or operator in {"!=", "=~", "!~"}:
        return full
    at = time_value(text)
    first = {"=": at, ":": at, ">=": at, ">": at + 1}.get(operator, FIRST)
    last = {"=": at, ":": at, "<=": at, "<": at - 1}.get(operator, LAST)
    return Window(max(first, FIRST), min(last, LAST))


def _settled(node: Node) -> bool:
    """Whether the choice of sources and the window decide this part of a conjunction altogether."""
    match node:
        case And(parts) | Or(parts):
            return all(_of_source(part) for part in parts)
        case Comparison(path, operator, Value()) if not node.presence:
            name = _canonical(path)
            ordered = operator in {">=", ">"} or (name == _TIME and operator in {"=", ":", "<", "<="})
            ordered = ordered or (name == _RECEIVED and operator in {"<", "<="})
            return (name in {_TIME, _SEVERITY, _RECEIVED} and ordered) or _of_source(node)
    return _of_source(node)


def _of_source(node: Node) -> bool:
    match node:
        case And(parts) | Or(parts):
            return all(_of_source(part) for part in parts)
        case Not(part):
            return _of_source(part)
        case Comparison(path):
            return _canonical(path)[0] in _OF_SOURCE
    return isinstance(node, Call)
