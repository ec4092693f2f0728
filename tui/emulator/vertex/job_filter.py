"""The list filter of jobs: text to syntax tree and back.

Grammar, after AIP-160 (OR binds tighter than AND; terms side by side are joined by AND)::

    filter  = [ and ]
    and     = or { [ "AND" ] or }
    or      = term { "OR" term }
    term    = [ "NOT" | "-" ] ( "(" and ")" | field op value )
    field   = name { "." ( name | string ) }
    op      = "=" | "!=" | ":" | "<=" | "<" | ">=" | ">"
    value   = name | string | "*"

Names are bare words; strings stand in double or single quotes with backslash escapes. What the fields
mean is in `tui.emulator.vertex.job_match`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

MAX_DEPTH = 50
"""Deepest nesting of parentheses; more is refused rather than risked."""


class FilterError(Exception):
    """The filter can't be used. `position` counts characters from 1."""

    def __init__(self, position: int, problem: str) -> None:
        super().__init__(f"at character {position}: {problem}")
        self.position = position


@dataclass(frozen=True, slots=True)
class Comparison:
    """`field op value`; `path` is the field split at its dots. `position` is for messages only."""

    path: tuple[str, ...]
    op: str
    value: str
    position: int = 1

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Comparison):
            return NotImplemented
        return (self.path, self.op, self.value) == (other.path, other.op, other.value)

    def __hash__(self) -> int:
        return hash((self.path, self.op, self.value))


@dataclass(frozen=True, slots=True)
class Not:
    """True where its term is not."""

    term: Node


@dataclass(frozen=True, slots=True)
class And:
    """True where all of two or more terms are."""

    terms: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """True where one of two or more terms is."""

    terms: tuple[Node, ...]


Node = Comparison | Not | And | Or


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str  # "word", "string", "op", "(", ")", "-", "end"
    text: str
    position: int


# A word runs to the next space, quote, operator or parenthesis; dots stay inside and are split later.
_TOKEN = re.compile(
    r"""(?P<space>\s+)
      | (?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
      | (?P<op>!=|<=|>=|=|<|>|:)
      | (?P<paren>[()])
      | (?P<minus>-(?=[^\s]))
      | (?P<word>[^\s"'()=<>!:]+)
    """,
    re.VERBOSE | re.DOTALL,
)
_PLAIN_WORD = re.compile(r"[\w*+/@.][^\s\"'()=<>!:\\]*")
_KEYWORDS = frozenset({"AND", "OR", "NOT"})


def parse(text: str) -> Node | None:
    """The syntax tree of a filter; `None` for an empty one.

    Raises:
        FilterError: saying where and what was expected.
    """
    tokens = _tokens(text)
    if tokens[0].kind == "end":
        return None
    parser = _Parser(tokens)
    node = parser.conjunction(0)
    rest = parser.peek()
    if rest.kind != "end":
        raise FilterError(
            rest.position, f"unexpected {rest.text!r}; a term, AND, OR or the end may stand here"
        )
    return node


def render(node: Node) -> str:
    """A filter that parses to `node`."""
    if isinstance(node, Comparison):
        head, *rest = node.path
        path = ".".join([head, *(_quote(part) for part in rest)])
        value = "*" if node.op == ":" and node.value == "*" else _string(node.value)
        return f"{path}{node.op}{value}"
    if isinstance(node, Not):
        return f"NOT {_inside(node.term, (Comparison,))}"
    if isinstance(node, Or):
        return " OR ".join(_inside(term, (Comparison, Not)) for term in node.terms)
    return " AND ".join(_inside(term, (Comparison, Not, Or)) for term in node.terms)


def _inside(node: Node, bare: tuple[type, ...]) -> str:
    return render(node) if isinstance(node, bare) else f"({render(node)})"


def _string(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _quote(part: str) -> str:
    plain = _PLAIN_WORD.fullmatch(part) and "." not in part and part not in _KEYWORDS
    return part if plain else _string(part)


def _tokens(text: str) -> list[_Token]:
    tokens: list[_Token] = []
    at = 0
    while at < len(text):
        # After an operator a minus belongs to the value (create_time zones, labels such as "-1").
        match = _TOKEN.match(text, at)
        if match is not None and match.lastgroup == "minus" and not _starts_term(tokens):
            match = re.compile(r"(?P<word>[^\s\"'()=<>!:]+)").match(text, at)
        if match is None:
            raise FilterError(at + 1, _stray(text[at]))
        kind = match.lastgroup or ""
        if kind != "space":
            kind = {"paren": match[0], "minus": "-"}.get(kind, kind)
            tokens.append(_Token(kind, match[0], at + 1))
        at = match.end()
    tokens.append(_Token("end", "", len(text) + 1))
    return tokens


def _starts_term(tokens: list[_Token]) -> bool:
    return not tokens or tokens[-1].kind != "op"


def _stray(char: str) -> str:
    if char in "\"'":
        return "this quote is never closed"
    if char == "!":
        return "'!' stands only in '!='; to negate a term write NOT or '-'"
    return f"unexpected {char!r}"


class _Parser:
    """Recursive descent over the tokens of one filter."""

    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens = tokens
        self._at = 0

    def peek(self) -> _Token:
        return self._tokens[self._at]

    def conjunction(self, depth: int) -> Node:
        terms = [self._disjunction(depth)]
        while not (self.peek().kind in {"end", ")"} or self._keyword("OR")):
            if self._keyword("AND"):
                self._next()
            terms.append(self._disjunction(depth))
        return terms[0] if len(terms) == 1 else And(tuple(terms))

    def _disjunction(self, depth: int) -> Node:
        terms = [self._term(depth)]
        while self._keyword("OR"):
            self._next()
            terms.append(self._term(depth))
        return terms[0] if len(terms) == 1 else Or(tuple(terms))

    def _term(self, depth: int) -> Node:
        if self._keyword("NOT") or self.peek().kind == "-":
            self._next()
            return Not(self._simple(depth))
        return self._simple(depth)

    def _simple(self, depth: int) -> Node:
        if self.peek().kind != "(":
            return self._comparison()
        opening = self._next()
        if depth >= MAX_DEPTH:
            raise FilterError(opening.position, f"nested deeper than {MAX_DEPTH} parentheses")
        node = self.conjunction(depth + 1)
        closing = self._next()
        if closing.kind != ")":
            raise FilterError(opening.position, "this parenthesis is never closed")
        return node

    def _comparison(self) -> Comparison:
        start = self.peek()
        path = self._path()
        op = self._next()
        if op.kind != "op":
            raise FilterError(
                op.position, f"an operator (= != : < <= > >=) must follow {'.'.join(path)!r}, not {_say(op)}"
            )
        value = self._next()
        if value.kind == "string":
            return Comparison(path, op.text, _unquote(value.text), start.position)
        if value.kind != "word" or value.text in _KEYWORDS:
            raise FilterError(value.position, f"a value must follow {op.text!r}, not {_say(value)}")
        # An unquoted time has colons in it, which are tokens of their own.
        text = value.text
        while self.peek().text == ":" and self.peek().position == value.position + len(text):
            text += self._next().text
            follow = self.peek()
            if follow.kind == "word" and follow.position == value.position + len(text):
                text += self._next().text
        return Comparison(path, op.text, text, start.position)

    def _path(self) -> tuple[str, ...]:
        first = self._next()
        if first.kind != "word" or first.text in _KEYWORDS:
            raise FilterError(first.position, f"a field name is expected here, not {_say(first)}")
        text, end = first.text, first.position + len(first.text)
        parts = text.split(".")
        if parts[-1] == "" and self.peek().kind == "string" and self.peek().position == end:
            parts[-1] = _unquote(self._next().text)
        elif not all(parts):
            raise FilterError(first.position, f"{text!r} is not a field name: a part between dots is empty")
        return tuple(parts)

    def _keyword(self, word: str) -> bool:
        token = self.peek()
        return token.kind == "word" and token.text == word

    def _next(self) -> _Token:
        token = self._tokens[self._at]
        if token.kind != "end":
            self._at += 1
        return token


def _unquote(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text[1:-1], flags=re.DOTALL)


def _say(token: _Token) -> str:
    return "the end of the filter" if token.kind == "end" else repr(token.text)
