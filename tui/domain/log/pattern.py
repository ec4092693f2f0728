"""Regular expressions of users, searched in time that is linear in the text.

Python's own engine goes back and tries again: `(a+)+$` on a line of 45 characters takes longer than a night,
and nothing can interrupt it. Patterns run on RE2, which is also what Cloud Logging has. The simplest ones,
which can't go back far, run on Python's: for a match on every line it is ten times as fast.
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
"""Alternatives of fixed length: characters, dots and anchors, without a repeat, a group or a class."""
_MOST_SIMPLE = 500
_UNKNOWN = (
    (re.compile(r"\(\?<?[=!]"), "looks ahead or behind"),
    (re.compile(r"\(\?P=|(?<!\\)(?:\\\\)*\\[1-9]"), "refers back to a group"),
    (re.compile(r"\(\?>|(?<!\\)(?:\\\\)*[*+?}]\+"), "has an atomic group or a possessive repeat"),
    (re.compile(r"\(\?\("), "has a conditional group"),
    (re.compile(r"\(\?#"), "has a comment"),
    (re.compile(r"(?<!\\)(?:\\\\)*\\Z"), r"has \Z, which is written \z here"),
)
"""What Python's regular expressions have and RE2's don't."""
_MOST_MEMORY = 16 << 20
"""Bytes that one pattern may take: RE2 refuses a larger one."""


class PatternError(ValueError):
    """No regular expression, or none that can be searched in linear time; the text says why."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """A compiled pattern; equal patterns match the same texts."""

    text: str
    ignore_case: bool
    _engine: _Python | _Linear = field(repr=False, compare=False)

    def matches(self, text: str) -> bool:
        """Whether it matches anywhere in a line."""
        return self._engine.matches(text)

    def spans(self, text: str) -> Iterator[tuple[int, int]]:
        """Begin and end of each match in a line that is not empty, in order."""
        return self._engine.spans(text)

    def among(self, whole: str, lines: Sequence[str]) -> Iterator[int]:
        """Indexes of the lines that it matches; `whole` is all of them, joined by the only line breaks."""
        return self._engine.among(whole, lines)


_CONTINUATION = bytes(range(0x80, 0xC0))
"""Bytes of UTF-8 that begin no character."""


@lru_cache(maxsize=128)
def compile_pattern(text: str, *, ignore_case: bool = False) -> Pattern:
    """The pattern of a text. Raises PatternError."""
    simple = len(text) <= _MOST_SIMPLE and _SIMPLE.fullmatch(text)
    return Pattern(text, ignore_case, (_Python if simple else _Linear)(text, ignore_case))


class _Python:
    """Python's engine, for patterns that can't make it go back."""

    def __init__(self, text: str, ignore_case: bool) -> None:
        flags = re.IGNORECASE if ignore_case else 0
        self._line, self._block = re.compile(text, flags), re.compile(text, flags | re.MULTILINE)

    def matches(self, text: str) -> bool:
        return self._line.search(text) is not None

    def spans(self, text: str) -> Iterator[tuple[int, int]]:
        return (found.span() for found in self._line.finditer(text) if found.end() > found.start())

    def among(self, whole: str, lines: Sequence[str]) -> Iterator[int]:
        found = self._block.search(whole)
        ends: list[int] = []
        while found:
            ends = ends or list(accumulate(len(line) + 1 for line in lines))
            at = bisect_right(ends, found.start())
            if at >= len(lines):
                return
            yield at
            if at + 1 == len(lines):
                # An empty match after the last line would be found forever.
                return
            found = self._block.search(whole, ends[at])


class _Linear:
    """RE2, over bytes: it takes none but these, and encoding a block once is faster than once a match."""

    def __init__(self, text: str, ignore_case: bool) -> None:
        try:
            data = text.encode()
        except UnicodeEncodeError:
            raise PatternError("it has a character that no text can have") from None
        self._line, self._block = _compiled(data, ignore_case), _compiled(b"(?m)" + data, ignore_case)

    def matches(self, text: str) -> bool:
        return self._line.search(_bytes(text)) is not None

    def spans(self, text: str) -> Iterator[tuple[int, int]]:
        data = _bytes(text)
        plain, at, characters = len(data) == len(text), 0, 0
        for match in self._line.finditer(data):
            start, end = match.span()
            if end == start:
                # It may lie within a character: RE2 goes on by one byte after an empty match.
                continue
            if plain:
                yield start, end
                continue
            characters += _characters(data[at:start])
            found = characters, characters + _characters(data[start:end])
            at, characters = end, found[1]
            yield found

    def among(self, whole: str, lines: Sequence[str]) -> Iterator[int]:
        data = _bytes(whole)
        number, counted = 0, 0
        found = self._block.search(data)
        while found:
            start, end = found.span()
            number += data.count(b"\n", counted, start)
            next_line = data.find(b"\n", start) + 1
            # The match may cross the end of a line.
            if not next_line or end < next_line or self.matches(lines[number]):
                yield number
            if not next_line:
                return
            number, counted = number + 1, next_line
            found = self._block.search(data, next_line)


def _characters(data: bytes) -> int:
    """Characters that begin in UTF-8; a match of a single byte, by `\\C`, may end within one."""
    return len(data.translate(None, _CONTINUATION))


def _bytes(text: str) -> bytes:
    # Half of a surrogate pair, as a broken JSON text may hold, has no bytes; it counts as one character.
    return text.encode(errors="replace")


def compiled_with_groups(text: str) -> Any:
    """RE2's own pattern, whose matches have the groups. Raises PatternError."""
    return _compiled(text, ignore_case=False, groups=True)


def _compiled(text: bytes | str, ignore_case: bool, *, groups: bool = False) -> Any:
    """Raises PatternError."""
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
    for sign, what in _UNKNOWN:
        if sign.search(written):
            return f"it {what}, which a search in linear time can't"
    said = error.args[0] if error.args else ""
    return said.decode(errors="replace") if isinstance(said, bytes) else str(error)
