"""bash's patterns and the expansions that use them."""

from __future__ import annotations

import re


def regex_of(pattern: str, *, greedy: bool = True) -> str:
    """A regular expression for a pattern with `*`, `?`, `[…]` and backslashes."""
    parts, at, star = [], 0, ".*" if greedy else ".*?"
    while at < len(pattern):
        char = pattern[at]
        end = pattern.find("]", at + 2) if char == "[" else -1
        if char == "*":
            parts.append(star)
        elif char == "?":
            parts.append(".")
        elif end > 0:
            inner = pattern[at + 1 : end].replace("\\", "\\\\").replace("[", "\\[")
            parts.append("[" + ("^" + inner[1:] if inner[0] in "!^" else inner) + "]")
            at = end
        elif char == "\\" and at + 1 < len(pattern):
            at += 1
            parts.append(re.escape(pattern[at]))
        else:
            parts.append(re.escape(char))
        at += 1
    return "".join(parts)


def matches(text: str, pattern: str) -> bool:
    """Whether the whole text matches a pattern."""
    return re.fullmatch(regex_of(pattern), text, re.DOTALL) is not None


def removed(text: str, operator: str, pattern: str) -> str:
    """`${x#p}`, `${x##p}`, `${x%p}`, `${x%%p}`."""
    front = operator[0] == "#"
    lengths = range(len(text) + 1)
    candidates = lengths if len(operator) == 1 else reversed(lengths)
    for length in candidates:
        part = text[:length] if front else text[len(text) - length :]
        if matches(part, pattern):
            return text[length:] if front else text[: len(text) - length]
    return text


def replaced(text: str, operator: str, pattern: str, by: str) -> str:
    """`${x/p/r}`, `${x//p/r}`, `${x/#p/r}`, `${x/%p/r}`."""
    if not pattern:
        return text
    regex = regex_of(pattern)
    regex = rf"\A(?:{regex})" if operator == "/#" else rf"(?:{regex})\Z" if operator == "/%" else regex
    return re.sub(regex, lambda _: by, text, count=0 if operator == "//" else 1, flags=re.DOTALL)


def cased(text: str, operator: str) -> str:
    """`${x^}`, `${x^^}`, `${x,}`, `${x,,}`."""
    change = str.upper if operator[0] == "^" else str.lower
    return change(text) if len(operator) == 2 else change(text[:1]) + text[1:]
