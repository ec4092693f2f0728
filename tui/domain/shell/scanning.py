"""Finds the ends of quotes and expansions in a word, and expands braces."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable, Iterator


class Unclosed(Exception):
    """A quote, brace or parenthesis without an end."""


def end_of(text: str, at: int) -> int:
    """Return the position after the quote, `$(…)`, `${…}`, backquotes or escape that begins at `at`."""
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


def braces(word: str, spend: Callable[[int], None] = lambda _: None) -> Iterator[str]:
    """Expand `a{b,c}` and `{1..3}`; other words stay unchanged. Each result's size is spent."""
    at = 0
    while at < len(word):
        if word[at] == "{":
            spend(len(word) - at)
            parts, end = _parts(word, at)
            if parts:
                for inner in parts:
                    for part in braces(inner, spend):
                        for rest in braces(word[end:], spend):
                            spend(at + len(part) + len(rest))
                            yield word[:at] + part + rest
                return
        at = end_of(word, at) if word[at] in "\\'\"`$" else at + 1
    yield word


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
_ANSI_C = re.compile(
    r"\\(x[0-9A-Fa-f]{1,2}|u[0-9A-Fa-f]{1,4}|U[0-9A-Fa-f]{1,8}|[0-7]{1,3}|.)|[^\\]+|\\", re.DOTALL
)
# An octal backslash, for parsers that read `\\'` as an escaped quote.
_NAMES = {"\n": r"\n", "\t": r"\t", "\r": r"\r", "'": r"\'", "\\": r"\134"}


def ansi_c(text: str) -> str:
    r"""Decode the content of `$'…'`, where `\\x` and octal escapes are bytes of UTF-8."""

    def change(match: re.Match[str]) -> bytes:
        code = match[1]
        if code is None:
            return match[0].encode()
        if code[0] == "x":
            return bytes.fromhex(code[1:].zfill(2))
        if code[0] in "01234567":
            return bytes([int(code, 8) & 255])
        if code[0] in "uU" and code[1:]:
            number = int(code[1:], 16)
            return chr(number if number <= sys.maxunicode else 0xFFFD).encode(errors="surrogatepass")
        return _ESCAPES.get(code, match[0]).encode()

    return b"".join(map(change, _ANSI_C.finditer(text))).decode(errors="replace")


def word(value: str) -> str:
    r"""Quote `value` as one bash word, without characters that control a terminal.

    Bytes, unlike `\\u`, have the same meaning in every locale.
    """
    if value.isprintable():
        return shlex.quote(value)
    return f"$'{''.join(map(_escaped, value))}'"


def _escaped(character: str) -> str:
    if character in _NAMES:
        return _NAMES[character]
    if character.isprintable():
        return character
    return "".join(f"\\{byte:03o}" for byte in character.encode())


def split_line(text: str, separators: str, count: int) -> list[str]:
    """Return the words that `read` assigns to `count` names; the last name gets the remaining line. Without
    names the result is the line. Backslashes stay literal, as in `read -r`."""
    if not count:
        return [text]
    blank = "".join(c for c in separators if c in " \t\n")
    rest = text.strip(blank) if blank else text
    other = re.escape("".join(c for c in separators if c not in blank))
    around = f"[{re.escape(blank)}]*" if blank else ""
    between = "|".join([*([f"{around}[{other}]{around}"] if other else []),
                        *([f"[{re.escape(blank)}]+"] if blank else [])])  # fmt: skip
    words = re.split(between, rest, maxsplit=count - 1) if between and count > 1 else [rest]
    rest = words.pop()
    # A single trailing separator ends the last word.
    if other and re.fullmatch(f"[^{other}]*[{other}]{around}", rest):
        rest = rest.rstrip(blank)[:-1].rstrip(blank) if blank else rest[:-1]
    words.append(rest)
    return [*words, *[""] * (count - len(words))]
