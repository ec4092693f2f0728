"""One log line as parts of text with the name of their style; independent of a terminal."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from enum import Enum
from functools import lru_cache
from typing import Any

from tui.domain.core.formatting import figure
from tui.domain.core.log_entry import SERVICE, LogEntry, LogGap, Severity
from tui.domain.core.replica import replica_order, short_name
from tui.domain.core.text import plain
from tui.domain.log.pattern import Pattern
from tui.domain.log.plain_line import collapsed
from tui.store.log.lines import Line

Part = tuple[str, str]
"""Text and its style: "" for plain text, or one of `STYLES`."""

STYLES = ("time", "dim", "strong", "warning", "error", "gap", "service")
HUES = 8
"""Number of replica colours. With more replicas the colours repeat and the name distinguishes them."""
_FIRST_HUES = {
    "workerpool": 0,
    "master": 0,
    "launcher": 0,
    "leader": 0,
    "chief": 0,
    "worker": 3,
    "workers": 3,
}
"""Colour of a role's first replica; of other roles it follows from the name."""

_ENVELOPE = frozenset({"severity", "message", "msg", "vxtui", "time", "timestamp", "level"}) | {
    "timestampSeconds",
    "timestampNanos",
}


class TimeColumn(Enum):
    """Content of the first column."""

    CLOCK = ("clock", 13)
    OFFSET = ("since the start", 12)
    NONE = ("no time", 0)

    def __init__(self, words: str, width: int) -> None:
        self.words = words
        self.width = width
        """Width in characters, including the space after the time."""


class JsonForm(Enum):
    """The format of a JSON line."""

    TEMPLATE = "message"
    RAW = "raw"
    PRETTY = "field by field"


def time_text(moment: datetime, column: TimeColumn, start: datetime | None) -> str:
    """Return `14:02:11.204`, or `+1:02:11.2` since `start`."""
    if column is TimeColumn.NONE:
        return ""
    if column is TimeColumn.CLOCK or start is None:
        return f"{_clock(moment.replace(microsecond=0))}.{moment.microsecond // 1000:03} "
    return f"{offset_text(moment - start):>11} "


@lru_cache(maxsize=256)
def _clock(moment: datetime) -> str:
    """Return the local time of a second, cached because one second may have thousands of lines."""
    return f"{moment.astimezone():%H:%M:%S}"


def offset_text(span: timedelta) -> str:
    """Return `+0:04.2`, `+1:02:11.2`; earlier times are `-0:04.2`."""
    sign = "-" if span < timedelta(0) else "+"
    seconds = abs(span.total_seconds())
    minutes, rest = divmod(seconds, 60)
    hours, minutes = divmod(int(minutes), 60)
    return f"{sign}{hours}:{minutes:02}:{rest:04.1f}" if hours else f"{sign}{minutes}:{rest:04.1f}"


def short_replica(replica: str) -> str:
    """Return `short_name` for a terminal, cut to 12 characters."""
    return plain(short_name(replica))[:12]


def replica_style(replica: str) -> str:
    """Return the style of a replica's name, the same in the log, the tree and the plots."""
    if replica == SERVICE:
        return "service"
    task, _, own = replica.rpartition("/")
    if task:
        # The replicas of a task have one colour, which distinguishes the tasks.
        number = int(task) if task.isdecimal() else zlib.crc32(task.encode())
        return f"hue{number * 3 % HUES}"
    number, group, index = replica_order(own)
    stem = group.rstrip("-0123456789")
    first = _FIRST_HUES.get(stem, zlib.crc32(stem.encode()))
    return f"hue{(first + number * 3 + index) % HUES}"


def severity_mark(severity: Severity) -> Part:
    """Return one character for the severity, readable without colours."""
    if severity >= Severity.CRITICAL:
        return ("‼", "error")
    if severity >= Severity.ERROR:
        return ("✗", "error")
    if severity >= Severity.WARNING:
        return ("▲", "warning")
    return (" ", "")


def gap_text(gap: LogGap, width: int) -> str:
    """Return `┄┄┄ 38 lines were not delivered: rate limit ┄┄┄` across the full width."""
    until = ""
    if gap.until is not None:
        until = f", {gap.timestamp.astimezone():%H:%M:%S} to {gap.until.astimezone():%H:%M:%S}"
    words = plain(gap.words) + until if gap.filled else f"{gap.missing}{until}: {plain(gap.reason)}"
    return f" {words} ".center(max(0, width), "┄")


def pretty_lines(entry: LogEntry) -> list[str]:
    """Return a JSON line field by field."""
    dumps = json.dumps(entry.json, indent=2, ensure_ascii=False, default=str)
    return [plain(line) for line in dumps.splitlines()]


def message_parts(entry: LogEntry, form: JsonForm = JsonForm.TEMPLATE) -> list[Part]:
    """Return the message for a reader, or its JSON in another format."""
    if entry.json is None:
        return [(plain(entry.message if form is JsonForm.RAW else collapsed(entry.message)), "")]
    if form is JsonForm.RAW:
        return [(plain(json.dumps(entry.json, ensure_ascii=False, default=str)), "")]
    if form is JsonForm.PRETTY:
        return [(line, "") for line in pretty_lines(entry)]
    fields = entry.json.get("vxtui")
    if isinstance(fields, Mapping) and fields.get("kind") == "step":
        parts = _step_parts(fields)
        if parts:
            return parts
    words = plain(collapsed(str(entry.json.get("message") or entry.json.get("msg") or "")))
    milestone = isinstance(fields, Mapping) and fields.get("kind") != "rank"
    parts = [(words, "strong" if milestone else "")] if words else []
    if not isinstance(fields, Mapping):
        parts += _rest(entry.json, bool(words))
    return parts or [(plain(entry.message), "")]


def line_text(line: Line) -> str:
    """Return a line's message as it is shown and searched."""
    if isinstance(line, LogGap):
        return gap_text(line, 0)
    if line.json is None:
        return plain(collapsed(line.message))
    return "".join(text for text, _ in message_parts(line))


def whole_line(line: Line, form: JsonForm = JsonForm.TEMPLATE) -> str:
    """Return a line with time, replica and severity, for copies and files; a file's line is unchanged."""
    moment = line.timestamp.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    if isinstance(line, LogGap):
        return f"{moment} {gap_text(line, 0).strip()}"
    between = "\n" if form is JsonForm.PRETTY else ""
    text = between.join(text for text, _ in message_parts(line, form))
    if not line.insert_id:
        return f"{line.replica} {text}" if line.replica else text
    return f"{moment} {plain(line.replica)} {line.severity.name} {text}"


def _number(fields: Mapping[str, Any], key: str) -> float | None:
    value = fields.get(key)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _step_parts(fields: Mapping[str, Any]) -> list[Part]:
    step, total, loss = _number(fields, "step"), _number(fields, "total_steps"), _number(fields, "loss")
    if step is None:
        return []
    parts: list[Part] = [("step ", "dim"), (f"{step:,.0f}", "strong")]
    parts.append((f"/{total:,.0f}" if total else "", "dim"))
    if loss is not None:
        parts += [("  loss ", "dim"), (f"{loss:.4f}", "strong")]
    speed = _number(fields, "tokens_per_second")
    if speed is not None:
        parts += [(f"  {figure(speed):>5}", "strong"), (" tok/s", "dim")]
    for key, word in (("grad_norm", "grad"), ("learning_rate", "lr")):
        value = _number(fields, key)
        if value is not None:
            parts += [(f"  {word} ", "dim"), (f"{value:.3g}", "")]
    return parts


def _rest(payload: Mapping[str, Any], spaced: bool) -> Iterator[Part]:
    """Yield the fields that the message does not contain, as key=value."""
    for key, value in payload.items():
        if key in _ENVELOPE:
            continue
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
        yield (("  " if spaced else "") + plain(f"{key}="), "dim")
        yield (plain(text), "")
        spaced = True


def spans_of(text: str, pattern: Pattern | None) -> list[tuple[int, int]]:
    """Return the spans at which a pattern matches. Empty matches are skipped."""
    return [*pattern.spans(text)] if pattern else []


def cut(
    parts: Sequence[Part], spans: Sequence[tuple[int, int]], style: str
) -> Iterator[tuple[str, str, bool]]:
    """Yield (text, style, inside) pieces of the parts, cut at the ordered, non-overlapping spans.

    Text inside a span has the style `style`.
    """
    at, waiting = 0, list(spans)[::-1]
    for text, own in parts:
        end = at + len(text)
        while at < end:
            while waiting and waiting[-1][1] <= at:
                waiting.pop()
            inside = bool(waiting) and waiting[-1][0] <= at
            stop = end
            if waiting:
                stop = min(end, waiting[-1][1] if inside else max(waiting[-1][0], at + 1))
            piece = text[len(text) - (end - at) : len(text) - (end - stop)]
            yield (piece, style if inside else own, inside)
            at = stop


def entry_details(entry: LogEntry) -> str:
    """Return every field of an entry, one a line. A file's line has no time and no id."""
    label = f" (the service's label is {entry.label.name})" if entry.label is not None else ""
    rows = [
        f"time      {entry.timestamp.isoformat()}" if entry.insert_id else "",
        f"replica   {entry.replica}" if entry.replica else "",
        f"severity  {entry.severity.name}{label}",
        f"id        {entry.insert_id}" if entry.insert_id else "",
    ]
    rows = [*filter(None, rows), "", entry.message]
    if entry.json is not None:
        rows += ["", json.dumps(entry.json, indent=2, ensure_ascii=False, default=str)]
    return "\n".join(rows)
