"""bash's patterns and the expansions that use them, in time linear in the text."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from tui.domain.log.pattern import PatternError, compiled_with_groups
from tui.domain.shell.state import MOST_TEXT, TooMuch

_LONGEST = 2000
"""Maximum length of a pattern in characters."""


def _atoms(pattern: str, *, greedy: bool) -> list[str]:
    """Return the regular expressions of a pattern's parts: `*`, `?`, `[…]`, and characters with or without a
    backslash."""
    if len(pattern) > _LONGEST:
        raise PatternError(f"the pattern has more than {_LONGEST:,} characters")
    atoms: list[str] = []
    at, star = 0, ".*" if greedy else ".*?"
    while at < len(pattern):
        char = pattern[at]
        end = pattern.find("]", at + 2) if char == "[" else -1
        if char == "*":
            # A second star matches nothing more.
            if atoms[-1:] != [star]:
                atoms.append(star)
        elif char == "?":
            atoms.append(".")
        elif end > 0:
            inner = pattern[at + 1 : end].replace("\\", "\\\\").replace("[", "\\[")
            atoms.append("[" + ("^" + inner[1:] if inner[0] in "!^" else inner) + "]")
            at = end
        elif char == "\\" and at + 1 < len(pattern):
            at += 1
            atoms.append(re.escape(pattern[at]))
        else:
            atoms.append(re.escape(char))
        at += 1
    return atoms


@lru_cache(maxsize=4)
def _compiled(regex: str) -> Any:
    """Return RE2's pattern, which may take 16 MB; `.` matches a line break too. Raises PatternError."""
    return compiled_with_groups(f"(?s){regex}")


def matches(text: str, pattern: str) -> bool:
    """Return whether the whole text matches a pattern. Raises PatternError."""
    return _compiled("".join(_atoms(pattern, greedy=True))).fullmatch(text) is not None


def removed(text: str, operator: str, pattern: str) -> str:
    """Apply `${x#p}`, `${x##p}`, `${x%p}` or `${x%%p}`. Raises PatternError."""
    front = operator[0] == "#"
    atoms = _atoms(pattern, greedy=len(operator) == 2)
    # The end of a text is the start of the reversed text. Every part but a star matches one character, so
    # stars that are all as short (long) as possible make the shortest (longest) match.
    match = _compiled("".join(atoms if front else reversed(atoms))).match(text if front else text[::-1])
    length = match.end() if match else 0
    return text[length:] if front else text[: len(text) - length]


def replaced(text: str, operator: str, pattern: str, by: str) -> str:
    """Apply `${x/p/r}`, `${x//p/r}`, `${x/#p/r}` or `${x/%p/r}`. Raises PatternError or TooMuch."""
    if not pattern:
        return text
    regex = "".join(_atoms(pattern, greedy=True))
    regex = rf"\A(?:{regex})" if operator == "/#" else rf"(?:{regex})\z" if operator == "/%" else regex
    pieces, at, size = [], 0, len(text)
    for match in _compiled(regex).finditer(text):
        start, end = match.span()
        if start == end and text:
            continue
        pieces += [text[at:start], by]
        at, size = end, size + len(by) - (end - start)
        if size > MOST_TEXT:
            raise TooMuch.text()
        if operator != "//":
            break
    return "".join(pieces) + text[at:]


def cased(text: str, operator: str) -> str:
    """Change the case, as `${x^}`, `${x^^}`, `${x,}`, `${x,,}` do."""
    change = str.upper if operator[0] == "^" else str.lower
    return change(text) if len(operator) == 2 else change(text[:1]) + text[1:]
