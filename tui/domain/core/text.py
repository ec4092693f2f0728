"""Makes untrusted text safe to show, without control sequences."""

from __future__ import annotations

import json
import re
from typing import Any

# Drop complete escape sequences (CSI, OSC and the other string types, then two-byte sequences), so that
# coloured output stays readable; show other control characters as pictures.
_SEQUENCE = re.compile(
    r"""
    (?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]            # CSI … final byte
    | (?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])      # OSC, DCS, SOS, PM, APC …
      [^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c|$)    # … up to BEL, ST or the end
    | \x1b[ -/]*[0-~]                           # other escapes
    """,
    re.VERBOSE,
)
_LEFT_OVER = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\n]")
# Replace each run in one call, because a file of NULs has millions of them.
_RUN = re.compile(f"{_LEFT_OVER.pattern}+")
_PICTURES = {
    code: 0x2400 + code if code < 0x20 else 0x2421 if code == 0x7F else 0xFFFD
    for code in range(0x206A)
    if _LEFT_OVER.match(chr(code))
}
TAB = 4


def plain(text: str) -> str:
    """Return `text` on one line without control sequences.

    Escape sequences are removed, tabs become spaces, other control characters and direction overrides become
    a visible character, so that a log can't move the cursor, set the title or hide text.
    """
    if text.isascii() and text.isprintable():
        return text
    return _RUN.sub(_pictures, _SEQUENCE.sub("", text).expandtabs(TAB))


def _pictures(match: re.Match[str]) -> str:
    return match[0].translate(_PICTURES)


def json_text(value: Any, *, indent: int | None = None) -> str:
    """Return `value` as JSON that is safe on a terminal: JSON escapes replace control characters. Letters of
    all languages stay readable. A value without a JSON type becomes its text."""
    text = json.dumps(value, indent=indent, ensure_ascii=False, default=str)
    # Outside strings JSON has no control characters except the line breaks of an indented document.
    return _LEFT_OVER.sub(lambda match: match[0] if match[0] == "\n" else f"\\u{ord(match[0]):04x}", text)


def clip(text: str, width: int) -> str:
    """Truncate `text` to `width` characters, with an ellipsis at the end."""
    return text if len(text) <= width else text[: max(0, width - 1)] + "…"


_ENDED = tuple(".!?:;…")


def sentences(*parts: str) -> str:
    """Join the non-empty parts as sentences; add a full stop between parts that lack one. Messages of
    services and libraries end with or without a full stop."""
    texts = [part.strip() for part in parts if part.strip()]
    ended = [part if part.endswith(_ENDED) else f"{part}." for part in texts[:-1]]
    return " ".join([*ended, *texts[-1:]])
