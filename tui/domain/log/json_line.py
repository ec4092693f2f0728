"""Parses a line of output: plain text, or a JSON object with an optional severity and time.

The rules are Cloud Logging's for a training job's output (docs/facts/vertex.md 5.1): a line that is one JSON
object becomes jsonPayload; `severity` and `timestampSeconds` with `timestampNanos` move to the entry, the
other fields stay. Text on stderr is ERROR. Text on stdout is INFO here; whether the service uses DEFAULT or
INFO is not verified.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tui.domain.core.log_entry import Severity
from tui.domain.document.decoding import decode_json

DEFAULT_SEVERITY = {"stdout": int(Severity.INFO), "stderr": int(Severity.ERROR)}
MAX_JSON_DEPTH = 20
"""Maximum depth of an object; deeper objects stay text. protobuf clients refuse 100 nested messages, and each
level needs three."""
MAX_ENTRY = 256 * 1024
"""Bytes of one entry's text; a longer line is split (docs/facts/vertex.md 5.1)."""
DAY = 86_400 * 10**9

_LEVEL_KEYS = ("levelname", "level")
_STATED = ("severity", *_LEVEL_KEYS, "log.level", "severity_text", "@level", "lvl")
_NUMBERS = {10: 100, 20: 100, 30: 200, 40: 400, 50: 500, 60: 600}
"""Severities of the level numbers of bunyan and pino."""


@dataclass(frozen=True, slots=True)
class JsonLine:
    """A JSON line: its payload without severity and time, and both (the time in ns), `None` if missing."""

    payload: dict[str, Any]
    severity: int | None = None
    timestamp: int | None = None


class NotAnObject(ValueError):
    """The line is text."""


def parse_json_line(line: str) -> JsonLine:
    """Parse a line that is one JSON object. Raises NotAnObject for any other line, and for an object that is
    nested too deeply."""
    try:
        payload = decode_json(line, most_levels=MAX_JSON_DEPTH)
    except ValueError as error:
        raise NotAnObject(str(error)) from error
    if not isinstance(payload, dict):
        raise NotAnObject("not an object")
    return JsonLine(payload, _pop_severity(payload), _pop_time(payload))


def _pop_severity(payload: dict[str, Any]) -> int | None:
    number = severity_number(payload.get("severity"))
    if number is not None:
        del payload["severity"]
        return number
    return next((n for n in map(severity_number, map(payload.get, _LEVEL_KEYS)) if n is not None), None)


def stated_severity(payload: Mapping[str, Any]) -> Severity | None:
    """Return the severity that the fields of a JSON line state, in the manner of a logging library."""
    inner = payload.get("record", payload.get("log"))
    for fields in (payload, inner if isinstance(inner, Mapping) else {}):
        for key in _STATED:
            value = fields.get(key)
            if isinstance(value, Mapping):
                value = value.get("name")
            number = _NUMBERS.get(value) if isinstance(value, int) else severity_number(value)
            if number is not None:
                return Severity(number)
    return None


_WORDS: dict[str, int] = {}


def severity_number(word: object) -> int | None:
    """Return the LogSeverity of a word in any case; `None` for other words."""
    if not isinstance(word, str):
        return None
    known = _WORDS.get(word)
    if known is None and len(word) < 16:
        try:
            known = int(Severity.parse(word))
        except ValueError:
            return None
        if len(_WORDS) < 1000:
            _WORDS[word] = known
    return known


def _pop_time(payload: dict[str, Any]) -> int | None:
    seconds, nanos = payload.get("timestampSeconds"), payload.get("timestampNanos", 0)
    if type(seconds) is not int or type(nanos) is not int:
        return None
    if not (0 < seconds < 2**33 and 0 <= nanos < 10**9):
        return None
    payload.pop("timestampNanos", None)
    del payload["timestampSeconds"]
    return seconds * 10**9 + nanos


def pieces(line: bytes) -> list[bytes]:
    """Split a line into parts that fit an entry, between characters if the bytes are UTF-8."""
    parts = []
    start = 0
    while len(line) - start > MAX_ENTRY:
        end = start + MAX_ENTRY
        # A continuation byte is 10xxxxxx; a character has at most three of them.
        while end > start + MAX_ENTRY - 3 and line[end] & 0xC0 == 0x80:
            end -= 1
        parts.append(line[start:end])
        start = end
    return [*parts, line[start:]]
