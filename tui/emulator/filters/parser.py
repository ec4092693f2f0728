"""Parses filters: lark reads `grammar.lark`, and syntax errors become sentences.

The first filter imports lark and compiles the grammar, so that the emulator starts without it.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from tui.emulator.filters.syntax import (
    EVERYTHING,
    And,
    Comparison,
    FilterCall,
    FilterError,
    Node,
    Not,
    Or,
    Search,
    Value,
)

if TYPE_CHECKING:
    from lark import Lark, Token, UnexpectedInput
    from lark.parsers.lalr_interactive_parser import InteractiveParser

MAX_LENGTH = 20_000
"""Maximum number of characters in a filter (docs/facts/vertex.md 5.3)."""
MAX_NESTING = 100
"""Deepest nesting of parentheses and negations, which bounds the recursion of every tree walk."""

_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-7]{3})|(.))", re.DOTALL)
_NEGATIONS = frozenset({"_NOT", "_MINUS"})
_NESTS = _NEGATIONS | {"_OPEN", "CALL"}
_LETTERS = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_QUOTES = "\"'"
_BLANK = re.compile(r"(?:\s+|--[^\n]*)*")
_WORDS_PART = re.compile(r""""(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[^."'][^."]*""", re.DOTALL)


def parse(text: str, max_nesting: int = MAX_NESTING) -> Node:
    """Parse a filter; an empty filter matches everything.

    Raises FilterError with a sentence and the position.
    """
    if len(text) > MAX_LENGTH:
        raise FilterError(f"the filter has {len(text)} characters; the limit is {MAX_LENGTH}", MAX_LENGTH)
    if _BLANK.fullmatch(text):
        return EVERYTHING
    grammar = _grammar()
    from lark import UnexpectedInput

    reader = grammar.parse_interactive(text)
    nesting = _Nesting(max_nesting)
    try:
        for token in reader.iter_parse():
            nesting.check(token)
        # The tree builder replaces lark's trees with our nodes.
        return cast(Node, reader.feed_eof())
    except UnexpectedInput as error:
        raise _explained(error, reader, text) from None


@cache
def _grammar() -> Lark:
    from lark import Lark

    text = Path(__file__).with_name("grammar.lark").read_text("utf-8")
    return Lark(text, parser="lalr", transformer=_TreeBuilder(), maybe_placeholders=False)


class _Nesting:
    """Counts open parentheses and pending negations while the parser reads tokens."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._nested: list[str] = []

    def check(self, token: Token) -> None:
        """Count the token. Raises FilterError at the first token that is nested too deep."""
        nested = self._nested
        if token.type in _NESTS:
            nested.append(token.type)
            if len(nested) > self._limit:
                problem = f"more than {self._limit} nested conditions"
                raise FilterError(problem, token.start_pos or 0)
            return
        if token.type == "_CLOSE" and nested:
            nested.pop()
        # A condition or a closed parenthesis ends the negations before it.
        while nested and nested[-1] in _NEGATIONS:
            nested.pop()


class _TreeBuilder:
    """Builds a node for each grammar rule from the rule's parts."""

    def start(self, parts: list[Node]) -> Node:
        return parts[0]

    def all_of(self, parts: list[Node]) -> Node:
        return And(tuple(parts))

    def any_of(self, parts: list[Node]) -> Node:
        return Or(tuple(parts))

    def not_(self, parts: list[Node]) -> Node:
        return Not(parts[0])

    def search(self, parts: list[Token]) -> Node:
        (token,) = parts
        return Search(".".join(_names(token)), token.start_pos or 0, token.end_pos or 0)

    def comparison(self, parts: list[Any]) -> Node:
        left, operator, value = parts
        if isinstance(left, FilterCall):
            return Comparison(left, str(operator), value, left.position)
        return Comparison(_names(left), str(operator), value, left.start_pos or 0)

    def value_list(self, parts: list[Any]) -> Node:
        """Build one comparison per value of `field=("a" OR "b")`."""
        token, operator, values = parts
        names, position = _names(token), token.start_pos or 0

        def compared(node: Any) -> Node:
            match node:
                case And(several):
                    return And(tuple(compared(part) for part in several))
                case Or(several):
                    return Or(tuple(compared(part) for part in several))
                case Not(part):
                    return Not(compared(part))
            return Comparison(names, str(operator), node, position)

        return compared(values)

    def literal(self, parts: list[Token]) -> Value:
        (token,) = parts
        strings = [part for part in _WORDS_PART.findall(token) if part[0] in _QUOTES]
        if not strings:
            return Value(str(token), False)
        if strings != [token]:
            problem = "a value must be either a string in quotes or a word; put the entire value in quotes"
            raise FilterError(problem, token.start_pos or 0)
        return Value(_unquoted(token))

    def dashed(self, parts: list[Token]) -> Value:
        return Value(str(parts[0]), False)

    def call(self, parts: list[Any]) -> FilterCall:
        name, *values = parts
        return FilterCall(name[:-1], tuple(values), name.start_pos or 0)

    def argument(self, parts: list[Token]) -> Value:
        (token,) = parts
        quoted = token[0] in _QUOTES and _WORDS_PART.fullmatch(token) is not None
        return Value(_unquoted(token)) if quoted else Value(str(token), False)


def _names(token: Token) -> tuple[str, ...]:
    return (str(token),) if token.type in {"NUMBER", "TIME"} else path_of(token)


def path_of(text: str) -> tuple[str, ...]:
    """Return the names of a field's path: words and quoted strings, joined by dots."""
    return tuple(_unquoted(part) if part[0] in _QUOTES else part for part in _WORDS_PART.findall(text))


def _unquoted(text: str) -> str:
    return _ESCAPE.sub(_unescape, text[1:-1])


def _unescape(match: re.Match[str]) -> str:
    code = match[1] or match[2] or match[3]
    if code:
        number = int(code, 16)
        return chr(number) if number < 0x110000 and not 0xD800 <= number < 0xE000 else "\ufffd"
    if match[4]:
        return chr(int(match[4], 8))
    # An unknown escape retains its backslash, so that "\d" reaches a regular expression unchanged.
    letter = match[5]
    return _LETTERS.get(letter) or (letter if letter in "\"'\\" else match[0])


def _explained(error: UnexpectedInput, reader: InteractiveParser, text: str) -> FilterError:
    """Return the error with sentence and position for an unparseable text."""
    token: Token | None = getattr(error, "token", None)
    # Only tokens on the stack have an end, nodes have none.
    tokens = [value for value in reader.parser_state.value_stack if hasattr(value, "end_pos")]
    ended = token is not None and token.type == "$END"
    at = len(text) if ended else error.pos_in_stream or 0
    if not ended and text[at] == "." and tokens and tokens[-1].end_pos == at:
        after = repr(text[at + 1]) if at + 1 < len(text) else "the end of the filter"
        return FilterError(f"expected a name after the dot, found {after}", at + 1)
    if token is None:
        return FilterError(_stray_character(text[at]), at)
    here = "the end of the filter" if ended else repr(str(token))
    expected = reader.choices()
    incomplete = "WORDS" in expected and "_CLOSE" not in expected and "$END" not in expected
    operator = next((token for token in reversed(tokens) if token.type == "OPERATOR"), None)
    opening = _innermost_open(tokens)
    if opening is not None and opening.type == "CALL":
        problem = f"expected ) after the values of {opening[:-1]}, found {here}"
    elif incomplete and operator is not None:
        problem = f"expected a value after {operator}, found {here}; put special characters in quotes"
    elif incomplete:
        problem = f"expected a condition, found {here}"
    elif ended and opening is not None:
        problem = f"the parenthesis at character {(opening.start_pos or 0) + 1} is never closed"
    else:
        problem = f"unexpected {here}"
    return FilterError(problem, at)


def _innermost_open(tokens: list[Token]) -> Token | None:
    closed = 0
    for token in reversed(tokens):
        if token.type == "_CLOSE":
            closed += 1
        elif token.type in _NESTS:
            if not closed:
                return token
            closed -= 1
    return None


def _stray_character(character: str) -> str:
    """Return the message for a character that starts no token."""
    if character in _QUOTES:
        return "a quote is never closed; add the closing quote"
    return f"{character!r} has no meaning here; put text with such characters in quotes"
