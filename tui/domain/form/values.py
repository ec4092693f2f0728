"""Values of the form: display on one line, and parsing of typed text."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from tui.domain.document.decoding import decode_json
from tui.domain.masking import mask_text, mask_value
from tui.domain.profile.parameters import convert
from tui.domain.spec.field_table import FieldType
from tui.domain.spec.values import REFERENCE, is_reference
from tui.domain.vertex.field_check import camel

Path = tuple[str | int, ...]
MISSING: Any = object()
_SPAN = re.compile(
    r"(?:(\d+)\s*d)?\s*(?:(\d+)\s*h)?\s*(?:(\d+)\s*m(?:in)?)?\s*(?:(\d+)\s*s?)?", re.IGNORECASE
)
_SECONDS = re.compile(r"(\d+)(\.\d{1,9})?s?")


def actual(root: Any, path: Path) -> Path:
    """Convert `path` (REST names) to the file's spelling; names missing from the file are unchanged."""
    spelled: list[str | int] = []
    here = root
    for part in path:
        name = part
        if isinstance(here, Mapping) and isinstance(part, str) and part not in here:
            name = next((key for key in here if isinstance(key, str) and camel(key) == part), part)
        spelled.append(name)
        here = child(here, name)
    return tuple(spelled)


def child(here: Any, part: str | int) -> Any:
    """Return the value at one step; `MISSING` if it does not exist."""
    try:
        return here[part]
    except (LookupError, TypeError):
        return MISSING


def at(root: Any, path: Path) -> Any:
    """Return the value at a path in the file's spelling; `MISSING` if it does not exist."""
    for part in path:
        root = child(root, part)
        if root is MISSING:
            return MISSING
    return root


def canonical(path: Path) -> Path:
    """Convert a path to REST names, for comparison; names of labels and parameters are unchanged."""
    if path[:1] in {("labels",), ("parameters",)}:
        return path
    return tuple(camel(part) if isinstance(part, str) else part for part in path)


def scalar_text(value: Any) -> str:
    """Return a scalar as the user types it."""
    if value is None or value is MISSING:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def reference(root: Any, value: Any) -> str:
    """Return the name of the parameter if the entire value is a reference, else ""."""
    match = REFERENCE.fullmatch(value) if is_reference(value) else None
    return match[1] if match and at(root, ("parameters", match[1])) is not MISSING else ""


def duration_text(text: str) -> str:
    """Convert `172800s` to `2d`; "" for less than a minute or another text."""
    match = _SECONDS.fullmatch(text)
    if match is None:
        return ""
    seconds = int(match[1])
    parts = [
        f"{amount}{unit}"
        for amount, unit in (
            (seconds // 86400, "d"),
            (seconds % 86400 // 3600, "h"),
            (seconds % 3600 // 60, "m"),
            (seconds % 60, "s"),
        )
        if amount
    ]
    return " ".join(parts) if seconds >= 60 else ""


MOST_JSON = 300
"""Maximum length of a list or mapping that a row shows and edits, in characters."""


def json_line(value: Any) -> str:
    """Return a list or mapping on one line; "" for any other value, or if the line would be too long."""
    if not isinstance(value, Mapping | list):
        return ""
    text = json.dumps(value, ensure_ascii=False)
    return mask_text(text) if len(text) <= MOST_JSON else "…"


def parse(kind: FieldType, text: str) -> Any:
    """Parse a typed text for a field of this kind; a text that contains `${name}` stays text. Raises
    ValueError with a sentence about the expected value."""
    text = text.strip() if kind.name != "string" else text
    if REFERENCE.search(text):
        return text
    match kind.name:
        case "integer":
            if (number := convert(text, "integer")) is None:
                raise ValueError(f"The value must be an integer, not {text!r}.")
            return number
        case "double":
            if (real := convert(text, "number")) is None:
                raise ValueError(f"The value must be a number, not {text!r}.")
            return real
        case "boolean":
            if (truth := convert(text, "boolean")) is None:
                raise ValueError(f"The value must be true or false, not {text!r}.")
            return truth
        case "duration":
            return _duration(text)
        case "value":
            return _json(text)
    return text


def _json(text: str) -> Any:
    try:
        return decode_json(text)
    except ValueError as error:
        raise ValueError(f'The value must be JSON such as [1, 2] or {{"a": 1}}, not {text!r}.') from error


def _duration(text: str) -> str:
    if _SECONDS.fullmatch(text):
        return text if text.endswith("s") else f"{text}s"
    match = _SPAN.fullmatch(text)
    if match is None or not any(match.groups()):
        raise ValueError(f"The value must be a time such as 48h, 2d or 172800s, not {text!r}.")
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return f"{days * 86400 + hours * 3600 + minutes * 60 + seconds}s"


def pair(text: str) -> tuple[str, str]:
    """Split `NAME=VALUE`. Raises ValueError without a name or `=`."""
    name, sign, value = text.partition("=")
    if not sign or not name.strip():
        raise ValueError("The text must be NAME=VALUE.")
    return name.strip(), value


def pair_value(name: Any, value: Any) -> str:
    """Return the value for display; a secret is shown as stars."""
    return pair_text(name, value).partition("=")[2] or '""'


def pair_text(name: Any, value: Any, *, reveal: bool = False) -> str:
    """Format `NAME=VALUE`; a secret is shown as stars unless `reveal`."""
    text = scalar_text(value)
    if not reveal and text:
        text = mask_value(name, text)
    return f"{name}={text}"


def _plain_text(value: Any) -> str:
    """Return a value inside an element of a list, without field names."""
    if isinstance(value, Mapping):
        return " ".join(_plain_text(inner) for inner in value.values())
    return ",".join(map(_plain_text, value)) if isinstance(value, list) else scalar_text(value)


def list_text(value: Any) -> str:
    """Return a list or a mapping on one line."""
    if isinstance(value, Mapping):
        return "  ".join(pair_text(k, v) for k, v in value.items())
    if not isinstance(value, list):
        return scalar_text(value)
    parts = []
    for item in value:
        if isinstance(item, Mapping):
            parts.append(
                pair_text(item.get("name", ""), item.get("value", ""))
                if "name" in item
                else " ".join(_plain_text(v) for v in item.values())
            )
        else:
            parts.append(mask_text(scalar_text(item)))
    return "  ".join(parts)
