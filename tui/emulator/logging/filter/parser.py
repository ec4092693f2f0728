"""From text to tree: the Logging query language, which Monitoring's filters are a relative of.

NOT binds closest, then OR, then AND, as Logging documents it: `a OR b AND c` is `(a OR b) AND c`. Two
conditions side by side are joined by AND. Operators are written in capitals. A list of values,
`field=("a" OR "b")`, becomes one comparison for each.
"""

from __future__ import annotations

from collections.abc import Callable

from tui.emulator.logging.filter.lexer import Token, tokens
from tui.emulator.logging.filter.syntax import (
    EVERYTHING,
    PLAIN_NAME,
    And,
    Call,
    Comparison,
    FilterError,
    Node,
    Not,
    Or,
    Search,
    Value,
)

MAX_LENGTH = 20_000
"""Characters in a filter (vertex facts 5.3)."""
MAX_DEPTH = 100

_STARTS = frozenset({"word", "number", "string", "minus", "open"})


def parse(text: str) -> Node:
    """The tree of a filter; an empty one lets everything through.

    Raises:
        FilterError: with a sentence and the position.
    """
    if len(text) > MAX_LENGTH:
        raise FilterError(f"the filter has {len(text)} characters; {MAX_LENGTH} is the most", MAX_LENGTH)
    parser = _Parser(tokens(text))
    if parser.kind == "end":
        return EVERYTHING
    node = parser.conjunction(parser.condition)
    if parser.kind != "end":
        raise FilterError(f"unexpected {parser.here()}", parser.token.position)
    return node


class _Parser:
    def __init__(self, found: list[Token]) -> None:
        self._tokens = found
        self._index = 0
        self._depth = 0

    @property
    def token(self) -> Token:
        return self._tokens[self._index]

    @property
    def kind(self) -> str:
        return self.token.kind

    def here(self) -> str:
        return "end of the filter" if self.kind == "end" else repr(self.token.text)

    def next(self) -> Token:
        token = self.token
        self._index += 1
        return token

    def word(self, text: str) -> bool:
        return self.kind == "word" and self.token.text == text

    def conjunction(self, operand: Callable[[], Node]) -> Node:
        """`a AND b c`; `operand` reads one condition, or one value of a list."""
        parts = [self._disjunction(operand)]
        while self.word("AND") or (self.kind in _STARTS and not self.word("OR")):
            if self.word("AND"):
                self.next()
            parts.append(self._disjunction(operand))
        return parts[0] if len(parts) == 1 else And(tuple(parts))

    def _disjunction(self, operand: Callable[[], Node]) -> Node:
        parts = [self._negation(operand)]
        while self.word("OR"):
            self.next()
            parts.append(self._negation(operand))
        return parts[0] if len(parts) == 1 else Or(tuple(parts))

    def _negation(self, operand: Callable[[], Node]) -> Node:
        start = self.token
        if self.word("NOT") or self.kind == "minus":
            self.next()
            return Not(self._nested(start, lambda: self._negation(operand)))
        if self.kind == "open":
            self.next()
            return self._nested(start, lambda: self._enclosed(start, operand))
        return operand()

    def _enclosed(self, start: Token, operand: Callable[[], Node]) -> Node:
        node = self.conjunction(operand)
        if self.kind != "close":
            raise FilterError(
                f"a parenthesis is open at character {start.position + 1}; found {self.here()} instead of )",
                self.token.position,
            )
        self.next()
        return node

    def _nested(self, start: Token, read: Callable[[], Node]) -> Node:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise FilterError(f"more than {MAX_DEPTH} conditions inside each other", start.position)
        node = read()
        self._depth -= 1
        return node

    def condition(self) -> Node:
        """`field op value`, a function, or words to search for."""
        start = self.token
        if self.kind not in {"word", "number", "string"} or self.word("AND") or self.word("OR"):
            raise FilterError(f"expected a condition, found {self.here()}", start.position)
        if self._calls():
            return self._call()
        path = self._path()
        if self.kind != "operator":
            return Search(".".join(path), start.position)
        return self._right_side(path, self.next(), start.position)

    def _path(self) -> tuple[str, ...]:
        names = [self.next().text]
        while self.kind == "dot" and not self.token.spaced:
            self.next()
            if self.kind not in {"word", "string"} or self.token.spaced:
                raise FilterError(f"expected a name after the dot, found {self.here()}", self.token.position)
            names.append(self.next().text)
        return tuple(names)

    def _right_side(self, path: tuple[str, ...], operator: Token, position: int) -> Node:
        def one() -> Node:
            return Comparison(path, operator.text, self._value(operator), position)

        if self.kind != "open":
            return one()
        start = self.next()
        return self._nested(start, lambda: self._enclosed(start, one))

    def _value(self, operator: Token) -> Value | Call:
        token = self.token
        if token.kind == "string":
            self.next()
            return Value(token.text)
        if self._calls():
            return self._call()
        if token.kind in {"word", "number"} and token.text not in {"AND", "OR", "NOT"}:
            return Value(self._unquoted(), False)
        raise FilterError(
            f"expected a value after {operator.text}, found {self.here()}; put special characters in quotes",
            token.position,
        )

    def _unquoted(self) -> str:
        """A bare value, dots and all: `1.5.2`, `compute.googleapis.com`."""
        text = self.next().text
        while self.kind in {"dot", "word", "number"} and not self.token.spaced:
            text += self.next().text
        return text

    def _calls(self) -> bool:
        token, after = self.token, self._tokens[min(self._index + 1, len(self._tokens) - 1)]
        named = token.kind == "word" and PLAIN_NAME.fullmatch(token.text) is not None
        return named and after.kind == "open" and not after.spaced and token.text not in {"AND", "OR", "NOT"}

    def _call(self) -> Call:
        name = self.next()
        self.next()
        arguments = []
        while self.kind in {"string", "word", "number"}:
            arguments.append(self.next().text if self.kind == "string" else self._unquoted())
            if self.kind != "comma":
                break
            self.next()
        if self.kind != "close":
            raise FilterError(f"expected ) after the values of {name.text}", self.token.position)
        self.next()
        return Call(name.text, tuple(arguments), name.position)
