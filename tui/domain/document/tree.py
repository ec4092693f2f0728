"""Parse YAML text into a tree of nodes with exact spans."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import yaml

DEEPEST = 64
"""Maximum depth of nesting in a file; no job needs more than ten levels."""

MOST_NODES = 300_000
"""Maximum number of keys and values in a text."""

KEPT = 64_000
"""Longest text in characters whose tree is cached."""

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TEXT = "tag:yaml.org,2002:str"
_resolver = yaml.resolver.Resolver()

# Text here that gcloud's parser reads as a number or a boolean; both parsers follow YAML 1.1.
_NUMBER = re.compile(r"[-+]?\d[\d_]*(?:\.[\d_]*)?[eE][-+]?\d+")
_TRUTH = re.compile(r"[yYnN]")
_NOT_TEXT = {
    "tag:yaml.org,2002:timestamp": "a date",
    "tag:yaml.org,2002:value": "a mark of YAML",
    "tag:yaml.org,2002:merge": "a mark of YAML",
    "tag:yaml.org,2002:binary": "bytes",
}


class NotYaml(Exception):
    """Text that is not one YAML document; line and column count from 1, 0 without a location."""

    def __init__(self, message: str, line: int = 0, column: int = 0) -> None:
        super().__init__(message)
        self.message, self.line, self.column = message, line, column


@dataclass(slots=True, eq=False)
class YamlNode:
    """A scalar, list, map or alias from `start` to `end` of the text, in characters, with anchor and tag.

    A block's `end` is the end of its last value, without the following comments and empty lines. `line` and
    `column` count from 1. `keys` and `items` of a map are parallel lists; an alias has a `target`.
    """

    kind: str
    start: int
    end: int
    line: int
    column: int
    flow: bool = False
    style: str = ""
    anchor: str | None = None
    tag: str | None = None
    text: str = ""
    implicit: tuple[bool, bool] = (True, False)
    keys: list[YamlNode] = field(default_factory=list)
    items: list[YamlNode] = field(default_factory=list)
    target: YamlNode | None = None

    @property
    def real(self) -> YamlNode:
        """The alias' target, or the node itself."""
        return self.target if self.target is not None else self

    def scalar(self) -> Any:
        """Return the value of a scalar by YAML's own types; a date stays text. Raises NotYaml for a value
        that its tag or its size does not allow."""
        if self.style and not self.tag:
            return self.text
        tag = self.tag or _resolver.resolve(yaml.ScalarNode, self.text, self.implicit)
        if tag == _TEXT:
            return self.text
        # Create a constructor for each value, because a constructor stores every node that it reads.
        constructor = yaml.constructor.SafeConstructor()
        try:
            value = constructor.construct_object(yaml.ScalarNode(tag, self.text), deep=True)
        except (yaml.YAMLError, ValueError, OverflowError, LookupError, TypeError, AttributeError) as error:
            why = getattr(error, "problem", None) or error
            raise NotYaml(f"this value can't be read: {why}.", self.line, self.column) from error
        if isinstance(value, int) and value.bit_length() > 256:
            raise NotYaml("this number is too large.", self.line, self.column)
        return value if value is None or isinstance(value, bool | int | float | str) else self.text

    def other_type(self) -> str:
        """Return the type that gcloud's parser gives to a scalar that is text here, or ""."""
        if self.style and not self.tag:
            return ""
        if not self.tag and _TRUTH.fullmatch(self.text):
            return "true or false"
        if not self.tag and _NUMBER.fullmatch(self.text):
            return "a number"
        return _NOT_TEXT.get(self.tag or _resolver.resolve(yaml.ScalarNode, self.text, self.implicit), "")


def parse(text: str) -> YamlNode | None:
    """Parse the only document in `text` (without a byte order mark); None if there is no document.

    The tree may be shared with other callers for the same text, so it must not be changed.

    Raises:
        NotYaml: with line and column.
    """
    documents = parse_all(text)
    if len(documents) > 1:
        raise NotYaml("a second document begins here; a profile must be one document.", documents[1].line, 1)
    return documents[0].root if documents else None


def parse_all(text: str) -> tuple[YamlDocument, ...]:
    """Parse every document in `text`."""
    return _kept(text) if len(text) <= KEPT else _parsed(text)


@lru_cache(maxsize=4)
def _kept(text: str) -> tuple[YamlDocument, ...]:
    # A change of a profile parses both the old and the new text twice.
    return _parsed(text)


def _parsed(text: str) -> tuple[YamlDocument, ...]:
    try:
        return tuple(_Builder(text).documents())
    except yaml.reader.ReaderError as error:
        line, column = _place(text, error)
        raise NotYaml(f"not valid YAML: {error.reason}.", line, column) from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        why = error.problem or error.context or "the text can't be read"
        at = min(mark.index, len(text.rstrip())) if mark else 0
        raise NotYaml(f"not valid YAML: {why}.", *_counted(text, at)) from error
    except (yaml.YAMLError, ValueError) as error:
        raise NotYaml(f"not valid YAML: {error}.") from error


def _place(text: str, error: yaml.reader.ReaderError) -> tuple[int, int]:
    """Return line and column of an invalid character; the C parser counts UTF-8 bytes."""
    bad = str(error.character) if isinstance(error.character, str) else ""
    if not bad and isinstance(error.character, int):
        bad = chr(error.character) if 0 <= error.character < 0x110000 else ""
    at = text.find(bad) if bad else -1
    if at < 0:
        at = len(text.encode(errors="replace")[: error.position or 0].decode(errors="ignore"))
    return _counted(text, at)


def _counted(text: str, at: int) -> tuple[int, int]:
    return text.count("\n", 0, at) + 1, at - (text.rfind("\n", 0, at) + 1) + 1


@dataclass(frozen=True, slots=True)
class YamlDocument:
    """The root of one document, and the line of its start marker."""

    root: YamlNode
    line: int

    @property
    def empty(self) -> bool:
        """Whether the document is empty."""
        return self.root.kind == "scalar" and not self.root.text and not self.root.style


class _Builder:
    """Builds nodes from events with an explicit stack, so nesting needs no recursion."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._events = yaml.parse(text, Loader=_Loader)
        self._anchors: dict[str, YamlNode] = {}
        self._open: list[tuple[YamlNode, list[YamlNode]]] = []
        self._nodes = 0

    def documents(self) -> list[YamlDocument]:
        """Return every document, including empty ones."""
        documents: list[YamlDocument] = []
        line = 1
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                line = event.start_mark.line + 1 if event.start_mark else 0
                # Anchors of an earlier document are not visible here.
                self._anchors.clear()
            done = self._event(event)
            if done is not None:
                documents.append(YamlDocument(done, line))
        return documents

    def _event(self, event: Any) -> YamlNode | None:
        """Process one event; return the root when it is complete."""
        self._nodes += isinstance(event, yaml.NodeEvent)
        if self._nodes > MOST_NODES:
            raise NotYaml(f"it has more than {MOST_NODES:,} keys and values.", event.start_mark.line + 1, 1)
        if isinstance(event, yaml.AliasEvent):
            node = _node("alias", event)
            node.target = self._anchors.get(event.anchor or "")
            if node.target is None:
                raise NotYaml(f"*{event.anchor} must be the name of an anchor.", node.line, node.column)
            return self._put(node)
        if isinstance(event, yaml.ScalarEvent):
            node = _node("scalar", event)
            node.text, node.style = event.value, event.style or ""
            node.implicit, node.tag = event.implicit, event.tag
            if node.style in {"|", ">"}:
                node.end = node.start + len(self._text[node.start : node.end].rstrip("\r\n "))
            self._name(node)
            return self._put(node)
        if isinstance(event, yaml.CollectionStartEvent):
            node = _node("map" if isinstance(event, yaml.MappingStartEvent) else "list", event)
            node.flow = bool(event.flow_style)
            self._name(node)
            self._open.append((node, []))
            if len(self._open) > DEEPEST:
                raise NotYaml(
                    f"the value must not be nested more than {DEEPEST} levels deep.", node.line, node.column
                )
        elif isinstance(event, yaml.CollectionEndEvent):
            return self._close(event)
        return None

    def _close(self, event: Any) -> YamlNode | None:
        node, children = self._open.pop()
        if node.kind == "map":
            node.keys, node.items = children[::2], children[1::2]
        else:
            node.items = children
        node.end = event.end_mark.index if node.flow else children[-1].end if children else node.end
        return self._put(node)

    def _name(self, node: YamlNode) -> None:
        if node.anchor:
            self._anchors[node.anchor] = node

    def _put(self, node: YamlNode) -> YamlNode | None:
        if not self._open:
            return node
        self._open[-1][1].append(node)
        return None


def _node(kind: str, event: Any) -> YamlNode:
    start, end = event.start_mark, event.end_mark
    return YamlNode(kind, start.index, end.index, start.line + 1, start.column + 1, anchor=event.anchor)
