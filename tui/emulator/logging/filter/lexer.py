"""A filter cut into tokens, each with its position."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tui.emulator.logging.filter.syntax import FilterError

_BLANK = re.compile(r"(?:\s+|--[^\n]*)+")
_OPERATOR = re.compile(r"<=|>=|!=|!~|=~|=|<|>|:")
_PUNCTUATION = {"(": "open", ")": "close", ",": "comma", ".": "dot"}
_WORD = re.compile(r"[^\s()\"=<>!:~,.]+")
_NUMBER = re.compile(r"-?(?:\d+(?:\.\d+)?|\.\d+)(?:[eE][+-]?\d+)?(?![^\s(),])")
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-7]{3})|(.))", re.DOTALL)
_LETTERS = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_QUOTES = "\"'"
_BEFORE_TERM = frozenset({"operator", "open", "comma", "minus"})


@dataclass(frozen=True, slots=True)
class Token:
    """`kind` is word, number, string, operator, minus, open, close, comma, dot or end.

    `spaced` says that something blank stands before it: `a.b` is one field, `a .b` is not.
    """

    kind: str
    text: str
    position: int
    spaced: bool = True


def tokens(text: str) -> list[Token]:
    """Every token of a filter, the last one of kind "end".

    Raises:
        FilterError: for a string that is not closed, or a character that has no meaning.
    """
    found: list[Token] = []
    at = 0
    while True:
        blank = _BLANK.match(text, at)
        if blank:
            at = blank.end()
        spaced = bool(blank) or not found
        if at == len(text):
            found.append(Token("end", "", at))
            return found
        token, at = _next(text, at, found[-1].kind if found else "", spaced)
        found.append(token)


def _next(text: str, at: int, before: str, spaced: bool) -> tuple[Token, int]:
    character = text[at]
    if character in _QUOTES:
        value, end = _string(text, at)
        return Token("string", value, at, spaced), end
    if match := _OPERATOR.match(text, at):
        return Token("operator", match[0], at, spaced), match.end()
    # `> -.5` is a number, `a.5` a path and `10.0.0.1` a word; before anything else a dash is a negation.
    fresh = spaced or before in _BEFORE_TERM
    if fresh and (match := _NUMBER.match(text, at)):
        return Token("number", match[0], at, spaced), match.end()
    if character in _PUNCTUATION:
        return Token(_PUNCTUATION[character], character, at, spaced), at + 1
    if character == "-" and before != "operator" and fresh:
        return Token("minus", "-", at, spaced), at + 1
    if match := _WORD.match(text, at):
        return Token("word", match[0], at, spaced), match.end()
    raise FilterError(f"{character!r} has no meaning here; put text with such characters in quotes", at)


def _string(text: str, start: int) -> tuple[str, int]:
    closing = text[start]
    at = start + 1
    while at < len(text) and text[at] != closing:
        at += 2 if text[at] == "\\" else 1
    if at >= len(text):
        raise FilterError("a quote is open; add the closing one", start)
    return _ESCAPE.sub(_unescape, text[start + 1 : at]), at + 1


def _unescape(match: re.Match[str]) -> str:
    code = match[1] or match[2] or match[3]
    if code:
        number = int(code, 16)
        return chr(number) if number < 0x110000 and not 0xD800 <= number < 0xE000 else "\ufffd"
    if match[4]:
        return chr(int(match[4], 8))
    # An unknown escape keeps its backslash, so that "\d" reaches a regular expression as it is.
    letter = match[5]
    return _LETTERS.get(letter) or (letter if letter in "\"'\\" else match[0])
