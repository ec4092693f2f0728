"""The syntax tree of filters, shared by all services, and its rendering."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
"""A field name that needs no quotes. Names never start with a digit or a dash."""
_KEYWORDS = frozenset({"AND", "OR", "NOT"})


class FilterError(ValueError):
    """The filter is invalid; `position` counts characters from 0."""

    def __init__(self, message: str, position: int) -> None:
        super().__init__(f"{message} (at character {position + 1})")
        self.position = position


@dataclass(frozen=True, slots=True)
class Value:
    """A literal on the right of an operator."""

    text: str
    quoted: bool = True


@dataclass(frozen=True, slots=True)
class FilterCall:
    """`name("a", "b")`: a condition (`log_id`), or one side of a comparison (`one_of`, `cast`)."""

    name: str
    arguments: tuple[Value | FilterCall, ...]
    position: int = field(default=0, compare=False)

    @property
    def texts(self) -> tuple[str, ...]:
        """The text arguments, without calls."""
        return tuple(argument.text for argument in self.arguments if isinstance(argument, Value))


@dataclass(frozen=True, slots=True)
class Comparison:
    """`resource.labels.job_id = "1"`. `operator` is one of = != < <= > >= : =~ !~.

    The left side is the path of a field, or a call that returns a value.
    """

    path: tuple[str, ...] | FilterCall
    operator: str
    value: Value | FilterCall
    position: int = field(default=0, compare=False)

    @property
    def left(self) -> str:
        """The left side as written."""
        if isinstance(self.path, FilterCall):
            return _call(self.path)
        return ".".join(_name(name) for name in self.path)

    @property
    def presence(self) -> bool:
        """Whether the comparison is `field:*`, which tests only that the field exists."""
        return self.operator == ":" and self.value == Value("*", False)


@dataclass(frozen=True, slots=True)
class Search:
    """Words without a field, which may occur anywhere in a record. `end` is the position after the words."""

    text: str
    position: int = field(default=0, compare=False)
    end: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class And:
    """True if every part is true, or if there are no parts."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """True if any part is true."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """True if the part is false."""

    part: Node


Node = And | Or | Not | Comparison | Search | FilterCall
EVERYTHING = And(())


def render(node: Node) -> str:
    """Return a text that parses to the same tree."""
    match node:
        case And(parts):
            return " AND ".join(_enclosed(part) for part in parts)
        case Or(parts):
            return " OR ".join(_enclosed(part) for part in parts)
        case Not(part):
            return f"NOT {_enclosed(part)}"
        case Comparison(_, operator, value):
            right = _call(value) if isinstance(value, FilterCall) else _literal(value)
            return f"{node.left}{operator}{right}"
        case Search(text):
            return quote(text)
        case FilterCall():
            return _call(node)


def quote(text: str) -> str:
    """Return `text` as a string literal of the filter language."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    return f'"{escaped}"'


def _enclosed(node: Node) -> str:
    return f"({render(node)})" if isinstance(node, And | Or | Not) else render(node)


def _call(call: FilterCall) -> str:
    arguments = (
        _call(argument) if isinstance(argument, FilterCall) else _literal(argument)
        for argument in call.arguments
    )
    return f"{call.name}({', '.join(arguments)})"


def _literal(value: Value) -> str:
    return quote(value.text) if value.quoted else value.text


def _name(name: str) -> str:
    plain = _PLAIN_NAME.fullmatch(name) and name not in _KEYWORDS
    return name if plain else quote(name)
