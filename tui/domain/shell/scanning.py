"""Where the parts of a word end, and the braces that stand for several words."""

from __future__ import annotations

import re


class Unclosed(Exception):
    """A quote, brace or parenthesis without an end."""


def end_of(text: str, at: int) -> int:
    """The position after the quote, `$(…)`, `${…}`, backquotes or escape that begins at `at`."""
    char = text[at]
    if char == "\\":
        return min(at + 2, len(text))
    if char == "'":
        return _after(text, "'", at + 1)
    if text.startswith("$'", at):
        at += 2
        while at < len(text) and text[at] != "'":
            at += 2 if text[at] == "\\" else 1
        return at + 1
    if char == '"':
        return _until(text, at + 1, '"', quoted=True)
    if char == "`":
        at += 1
        while at < len(text) and text[at] != "`":
            at += 2 if text[at] == "\\" else 1
        return at + 1
    if text.startswith("$((", at):
        end = _until(text, at + 3, ")", quoted=False)
        return end + 1 if text[end : end + 1] == ")" else end
    if text.startswith("$(", at):
        return _until(text, at + 2, ")", quoted=False)
    if text.startswith("${", at):
        return _until(text, at + 2, "}", quoted=True)
    return at + 1


def _after(text: str, mark: str, at: int) -> int:
    end = text.find(mark, at)
    if end < 0:
        raise Unclosed(mark)
    return end + 1


def _until(text: str, at: int, mark: str, *, quoted: bool) -> int:
    while at < len(text):
        char = text[at]
        if char == mark:
            return at + 1
        if char == "(" and mark == ")":
            at = _until(text, at + 1, ")", quoted=False)
        elif char in '\\"`' or text.startswith(("$(", "${"), at) or (char == "'" and not quoted):
            at = end_of(text, at)
        else:
            at += 1
    raise Unclosed(mark)


def braces(word: str) -> list[str]:
    """`a{b,c}` and `{1..3}` as their words; other words as they are."""
    at = 0
    while at < len(word):
        if word[at] == "{":
            parts, end = _parts(word, at)
            if parts:
                return [
                    word[:at] + part + rest for inner in parts for part in braces(inner)
                    for rest in braces(word[end:])
                ]  # fmt: skip
        at = end_of(word, at) if word[at] in "\\'\"`$" else at + 1
    return [word]


def _parts(word: str, start: int) -> tuple[list[str], int]:
    at, depth, begin, parts = start + 1, 0, start + 1, []
    while at < len(word):
        char = word[at]
        if char == "}" and depth == 0:
            parts.append(word[begin:at])
            return (parts if len(parts) > 1 else _numbers(parts[0])), at + 1
        if char == "," and depth == 0:
            parts.append(word[begin:at])
            begin = at + 1
        depth += (char == "{") - (char == "}")
        at = end_of(word, at) if char in "\\'\"`$" else at + 1
    return [], at


def _numbers(text: str) -> list[str]:
    match = re.fullmatch(r"(-?\d{1,4})\.\.(-?\d{1,4})", text)
    if match is None:
        return []
    first, last = int(match[1]), int(match[2])
    width = max(map(len, match.groups())) if re.search(r"(^|\.\.)-?0\d", text) else 0
    step = 1 if last >= first else -1
    return [str(n).zfill(width) for n in range(first, last + step, step)]


_ESCAPES = {
    "n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "e": "\x1b", "f": "\f", "v": "\v",
    "\\": "\\", "'": "'", '"': '"', "?": "?",
}  # fmt: skip


def ansi_c(text: str) -> str:
    """The inside of `$'…'`."""

    def change(match: re.Match[str]) -> str:
        code = match[1]
        if code[0] in "xuU":
            return chr(int(code[1:], 16)) if code[1:] else match[0]
        if code[0] in "01234567":
            return chr(int(code, 8) & 255)
        return _ESCAPES.get(code, match[0])

    return re.sub(r"\\(x[0-9A-Fa-f]{1,2}|u[0-9A-Fa-f]{1,4}|U[0-9A-Fa-f]{1,6}|[0-7]{1,3}|.)", change, text,
                  flags=re.DOTALL)  # fmt: skip
