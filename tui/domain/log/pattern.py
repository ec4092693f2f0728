"""Users' regular expressions, searched in time linear in the text.

Python's own engine backtracks: `(a+)+$` on a line of 45 characters runs for hours, and nothing can interrupt
it. Patterns run on RE2, which Cloud Logging uses too. The simplest patterns, which can't backtrack far, run
on Python's engine, which is ten times as fast if every line matches.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate
from typing import Any

_ALTERNATIVE = r"\^?(?:[^\\\[\](){}|?*+^$]|\\[^\w])+\$?"
_SIMPLE = re.compile(rf"{_ALTERNATIVE}(?:\|{_ALTERNATIVE}){{0,20}}")
"""Alternatives of fixed length: characters, dots and anchors, without repeats, groups or classes."""
_MOST_SIMPLE = 500
_UNKNOWN = (
    (re.compile(r"\(\?<?[=!]"), "looks ahead or behind"),
    (re.compile(r"\(\?P=|(?<!\\)(?:\\\\)*\\[1-9]"), "refers back to a group"),
    (re.compile(r"\(\?>|(?<!\\)(?:\\\\)*[*+?}]\+"), "has an atomic group or a possessive repeat"),
    (re.compile(r"\(\?\("), "has a conditional group"),
    (re.compile(r"\(\?#"), "has a comment"),
    (re.compile(r"(?<!\\)(?:\\\\)*\\Z"), r"has \Z, which is written \z here"),
)
"""Syntax of Python's regular expressions that RE2 lacks."""
_MOST_MEMORY = 16 << 20
"""Memory limit of one pattern in bytes. RE2 refuses a pattern that needs more."""


class PatternError(ValueError):
    """The text is not a regular expression or needs more than linear time; the message gives the reason."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """A compiled pattern; equal patterns match the same texts."""

    text: str
    ignore_case: bool
    _engine: _Python | _Linear = field(repr=False, compare=False)

    def matches(self, text: str) -> bool:
        """Return whether the pattern matches anywhere in a line."""
        return self._engine.matches(text)

    def spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield the start and end of each match in a non-empty line, in order."""
        return self._engine.spans(text)

    def among(self, whole: str, lines: Sequence[str]) -> Iterator[int]:
        """Yield the indexes of the matching lines; `whole` is the lines, joined by their only line breaks."""
        return self._engine.among(whole, lines)


_CONTINUATION = bytes(range(0x80, 0xC0))
"""UTF-8 bytes that continue a character."""


@lru_cache(maxsize=128)
def compile_pattern(text: str, *, ignore_case: bool = False) -> Pattern:
    """Compile a pattern. Raises PatternError."""
    simple = len(text) <= _MOST_SIMPLE and _SIMPLE.fullmatch(text)
    return Pattern(text, ignore_case, (_Python if simple else _Linear)(text, ignore_case))


class _Python:
    """Python's engine, for patterns that can't backtrack far."""

    def __init__(self, text: str, ignore_case: bool) -> None:
        flags = re.IGNORECASE if ignore_case else 0
        self._line, self._block = re.compile(text, flags), re.compile(text, flags | re.MULTILINE)

    def matches(self, text: str) -> bool:
        return self._line.search(text) is not None

    def spans(self, text: str) -> Iterator[tuple[int, int]]:
        return (match.span() for match in self._line.finditer(text) if match.end() > match.start())

    def among(self, whole: str, lines: Sequence[str]) -> Iterator[int]:
        match = self._block.search(whole)
        ends: list[int] = []
        while match:
            ends = ends or list(accumulate(len(line) + 1 for line in lines))
            at = bisect_right(ends, match.start())
            if at >= len(lines):
                return
            yield at
            if at + 1 == len(lines):
                # Stop, because an empty match after the last line would repeat forever.
                return
            match = self._block.search(whole, ends[at])


class _Linear:
    """RE2 over bytes: RE2 accepts only bytes, and encoding a block once is faster than once per match."""

    def __init__(self, text: str, ignore_case: bool) -> None:
        try:
            data = text.encode()
        except UnicodeEncodeError:
            raise PatternError("the pattern must not have half of a surrogate pair") from None
        self._line, self._block = _compiled(data, ignore_case), _compiled(b"(?m)" + data, ignore_case)

    def matches(self, text: str) -> bool:
        return self._line.search(_bytes(text)) is not None

    def spans(self, text: str) -> Iterator[tuple[int, int]]:
        data = _bytes(text)
        plain, at, characters = len(data) == len(text), 0, 0
        for match in self._line.finditer(data):
            start, end = match.span()
            if end == start:
                # The position may be within a character: RE2 advances by one byte after an empty match.
                continue
            if plain:
                yield start, end
                continue
            characters += _characters(data[at:start])
            span = characters, characters + _characters(data[start:end])
            at, characters = end, span[1]
            yield span

    def among(self, whole: str, lines: Sequence[str]) -> Iterator[int]:
        data = _bytes(whole)
        number, counted = 0, 0
        match = self._block.search(data)
        while match:
            start, end = match.span()
            number += data.count(b"\n", counted, start)
            next_line = data.find(b"\n", start) + 1
            # The match may cross the end of a line.
            if not next_line or end < next_line or self.matches(lines[number]):
                yield number
            if not next_line:
                return
            number, counted = number + 1, next_line
            match = self._block.search(data, next_line)


def _characters(data: bytes) -> int:
    r"""Return the number of characters that begin in the UTF-8 bytes; a `\\C` match may end within one."""
    return len(data.translate(None, _CONTINUATION))


def _bytes(text: str) -> bytes:
    # Half of a surrogate pair, as in invalid JSON text, can't be encoded; count it as one character.
    return text.encode(errors="replace")


def compiled_with_groups(text: str) -> Any:
    """Return RE2's own pattern, whose matches have groups. Raises PatternError."""
    return _compiled(text, ignore_case=False, groups=True)


def _compiled(text: bytes | str, ignore_case: bool, *, groups: bool = False) -> Any:
    """Compile with RE2. Raises PatternError."""
    import re2  # noqa: PLC0415 - only where there is a pattern that needs it

    options = re2.Options()
    options.case_sensitive, options.never_capture, options.log_errors = not ignore_case, not groups, False
    options.max_mem = _MOST_MEMORY
    try:
        return re2.compile(text, options)
    except (re2.error, UnicodeEncodeError) as error:
        raise PatternError(_sentence(text, error)) from error


def _sentence(text: bytes | str, error: Exception) -> str:
    written = text.decode() if isinstance(text, bytes) else text
    for sign, feature in _UNKNOWN:
        if sign.search(written):
            return f"the pattern {feature}, which a linear-time search does not support"
    message = error.args[0] if error.args else ""
    return message.decode(errors="replace") if isinstance(message, bytes) else str(error)
