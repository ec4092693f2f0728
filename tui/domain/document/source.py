"""Parse YAML (or JSON) text into plain values with their positions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from tui.domain.document.decoding import decode_json
from tui.domain.document.document_edit import Edit
from tui.domain.document.tree import DEEPEST, NotYaml, YamlNode, parse, parse_all

Path = tuple[str | int, ...]
Place = tuple[int, int]
"""Line and column, both from 1."""

_HALVES = re.compile(r"(?<!\\)((?:\\\\)*)\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})")
_NOT_YAML = re.compile("[\x7f-\x9f\u2028\u2029\ud800-\udfff\ufffe\uffff]")

MOST_VALUES = 100_000
"""Maximum number of values in a file after the expansion of its aliases."""


class ProblemSeverity(StrEnum):
    """Severity of a problem: an error stops a launch, a warning is shown before the launch, and a note only
    informs."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem with a file: location, text and fix.

    `line` and `column` count from 1, 0 without a location. `path` is the location in the file and `field` is
    that location as text; `edits` (of the file's own paths) fix the problem if there is only one fix.
    """

    file: str
    line: int
    field: str
    message: str
    fix: str = ""
    id: str = "profile.shape"
    severity: ProblemSeverity = ProblemSeverity.ERROR
    source: str = ""
    path: Path = ()
    column: int = 0
    edits: tuple[Edit, ...] = ()

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}:{self.column}" if self.column else self.file
        where = f"{self.file}:{self.line}" if self.line and not self.column else where
        text = f"{self.field}: {self.message}" if self.field else self.message
        return f"{where}: {text}" + (f" {self.fix}" if self.fix else "")


class ProfileInvalid(Exception):
    """A profile that can't be used, with all its problems."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = problems


@dataclass(frozen=True, slots=True)
class Document:
    """A parsed file: its value, the position of each path, and the texts of other types.

    `other_types` are the texts to which gcloud's parser gives another type, each with that type. `repeated`
    are the keys that appear again; the first occurrence counts.
    """

    file: str
    value: Any
    places: Mapping[Path, Place] = field(default_factory=dict)
    texts: Mapping[Path, str] = field(default_factory=dict)
    other_types: Mapping[Path, str] = field(default_factory=dict)
    repeated: tuple[Problem, ...] = ()
    several: bool = False
    """Whether `value` is a list of the file's documents."""
    second: int = 0
    """Line where a second document begins, even an empty one; 0 for one document."""

    @property
    def fields(self) -> Mapping[str, Any]:
        """The fields at the file's top level; empty for a list."""
        return self.value if isinstance(self.value, Mapping) else {}

    def place(self, path: Path) -> Place:
        """Return line and column of `path`, or of the nearest enclosing value; zeros if unknown."""
        spelled = self.spelled(path)
        for end in range(len(spelled), -1, -1):
            if spelled[:end] in self.places:
                return self.places[spelled[:end]]
        return 0, 0

    def line(self, path: Path) -> int:
        """Return the line of `path`, or of the nearest enclosing value."""
        return self.place(path)[0]

    def spelled(self, path: Path) -> Path:
        """Return `path` with the file's spelling of the keys, where the keys exist."""
        here, spelling = self.value, []
        for part in path:
            if isinstance(here, Mapping) and part == 0:
                # A mapping may replace a list of one element.
                continue
            if isinstance(here, Mapping) and isinstance(part, str) and part not in here:
                part = next((key for key in here if camel(key) == camel(part)), part)  # noqa: PLW2901
            spelling.append(part)
            try:
                here = here[part]
            except (LookupError, TypeError):
                here = None
        return tuple(spelling)

    def problem(self, path: Path, message: str, fix: str = "", rule: str = "profile.shape") -> Problem:
        line, column = self.place(path)
        return Problem(self.file, line, dotted(path), message, fix, rule, path=path, column=column)


def camel(name: str) -> str:
    """Convert `worker_pool_specs` to `workerPoolSpecs`; other names are unchanged."""
    first, *rest = name.split("_")
    return first + "".join(part[:1].upper() + part[1:] for part in rest) if rest and first else name


def dotted(path: Path) -> str:
    """Format a path as `jobSpec.workerPoolSpecs[0].machineSpec`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def decode(data: bytes, file: str) -> str:
    """Decode a file's bytes, in UTF-8 or in UTF-16 with a byte order mark. Raises ProfileInvalid with the
    line and column of the first invalid byte."""
    encoding = "utf-16" if data[:2] in {b"\xff\xfe", b"\xfe\xff"} else "utf-8"
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        before = data[: error.start].decode(encoding, "replace")
        line, column = before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1
        message = f"byte {error.start} is not valid {encoding.upper()}."
        raise ProfileInvalid([_syntax(file, line, column, message)]) from error


def read(text: str, file: str, *, repeated: bool = False, several: bool = False) -> Document:
    """Parse one document; with `repeated` the caller handles keys that appear twice.

    With `several`, the result is a list of the non-empty documents.

    Raises:
        ProfileInvalid: for text that is not YAML, more than one document, or a key that appears twice.
    """
    text = text.removeprefix("\ufeff")
    if ("\t" in text or "\\u" in text or _NOT_YAML.search(text)) and is_json(text):
        # JSON allows some things that YAML does not: tabs between values, surrogate pairs as escapes, and
        # bare control characters in a text.
        text = _HALVES.sub(_whole, escaped(text.replace("\t", " ")))
    try:
        there = parse_all(text) if several else []
        present = [item for item in there if not item.empty]
        root = present[0].root if len(present) == 1 else None if present else parse(text)
    except NotYaml as error:
        raise ProfileInvalid([_syntax(file, error.line, error.column, error.message)]) from error
    if root is None and not present:
        raise ProfileInvalid([_syntax(file, 0, 0, "the file is empty.")])
    reader = _Reader(file)
    if root is not None:
        value = reader.build(root, ())
    else:
        value = [reader.build(item.root, (i,)) for i, item in enumerate(present)]
    if reader.problems or (reader.repeated and not repeated):
        raise ProfileInvalid([*reader.problems, *reader.repeated])
    return Document(
        file, value, reader.places, reader.texts, reader.other_types, tuple(reader.repeated),
        several=root is None, second=there[1].line if len(there) > 1 else 0,
    )  # fmt: skip


def several_documents(document: Document) -> Problem:
    """Return the problem with a text with more than one document, located at the second."""
    message = "a second document begins here; a profile must be one document."
    return _syntax(document.file, document.second, 1, message)


def escaped(text: str) -> str:
    """Escape the characters of JSON that YAML refuses, or treats as a line end."""
    return _NOT_YAML.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def is_json(text: str) -> bool:
    """Return whether the text is one JSON object."""
    if not text.lstrip("\ufeff \t\r\n").startswith("{"):
        return False
    try:
        decode_json(text.removeprefix("\ufeff"))
    except ValueError:
        return False
    return True


def _whole(halves: re.Match[str]) -> str:
    """Return one YAML escape for a surrogate pair of JSON."""
    number = 0x10000 + (int(halves[2], 16) - 0xD800) * 0x400 + int(halves[3], 16) - 0xDC00
    return f"{halves[1]}\\U{number:08x}"


def _syntax(file: str, line: int, column: int, message: str) -> Problem:
    return Problem(file, line, "", message, id="profile.syntax", column=column)


def plain(node: YamlNode) -> Any:
    """Return the plain value of a parsed node."""
    return _Reader("").build(node, ())


class _TooMuch(Exception):
    """The expanded values exceed `MOST_VALUES`."""


class _Reader:
    def __init__(self, file: str) -> None:
        self._file = file
        self.places: dict[Path, Place] = {}
        self.texts: dict[Path, str] = {}
        self.other_types: dict[Path, str] = {}
        self.problems: list[Problem] = []
        self.repeated: list[Problem] = []
        self._open: set[int] = set()
        self._left = MOST_VALUES

    def build(self, node: YamlNode, path: Path) -> Any:
        """Return the value of a tree and record its problems and positions."""
        try:
            return self._build(node, path)
        except _TooMuch:
            self._refuse(
                node,
                (),
                f"the aliases must not expand to more than {MOST_VALUES:,} values.",
                "profile.syntax",
            )
            return None

    def _build(self, node: YamlNode, path: Path) -> Any:
        self.places.setdefault(path, (node.line, node.column))
        real = node.real
        self._left -= 1
        if self._left < 0 or len(path) > DEEPEST:
            raise _TooMuch
        if id(real) in self._open:
            self._refuse(node, path, "an alias must not contain itself.", "profile.syntax")
            return None
        self._open.add(id(real))
        try:
            if real.kind == "map":
                return self._map(real, path)
            if real.kind == "list":
                return [self._build(child, (*path, i)) for i, child in enumerate(real.items)]
            return self._scalar(real, path)
        finally:
            self._open.discard(id(real))

    def _map(self, node: YamlNode, path: Path) -> dict[str, Any]:
        mapping: dict[str, Any] = {}
        merged: list[YamlNode] = []
        for key_node, value_node in zip(node.keys, node.items, strict=True):
            if is_merge(key_node):
                merged.append(value_node)
                continue
            if key_node.real.kind != "scalar":
                self._refuse(key_node, path, "a key must be a word, not a list or fields.", "profile.syntax")
                continue
            key = key_node.real.text
            if key in mapping:
                message = "this key appears twice; remove one."
                self.repeated.append(self._problem(key_node, (*path, key), message, "profile.syntax"))
                continue
            self.places[*path, key] = (key_node.line, key_node.column)
            mapping[key] = self._build(value_node, (*path, key))
        for value_node in merged:
            self._merge(mapping, value_node, path)
        return mapping

    def _merge(self, values: dict[str, Any], node: YamlNode, path: Path) -> None:
        """Merge the unset keys from `<<`; the first of several sources has precedence."""
        for source in node.real.items if node.real.kind == "list" else [node]:
            inner = self._build(source, (*path, "<<"))
            if isinstance(inner, dict):
                for key, value in inner.items():
                    if key not in values:
                        values[key] = value
                        self._moved((*path, "<<", key), (*path, key))
            else:
                self._refuse(source, path, "<< must have fields, or a list of fields.", "profile.syntax")

    def _moved(self, source: Path, target: Path) -> None:
        """Copy the recorded spellings of a merged value to its new path."""
        for words in (self.texts, self.other_types):
            inside = {p: text for p, text in words.items() if p[: len(source)] == source}
            words |= {(*target, *p[len(source) :]): text for p, text in inside.items()}

    def _scalar(self, node: YamlNode, path: Path) -> Any:
        try:
            value = node.scalar()
            if not isinstance(value, str):
                self.texts[path] = node.text
            elif other := node.other_type():
                self.other_types[path] = other
            return value
        except NotYaml as error:
            self._refuse(node, path, error.message, "profile.syntax")
            return None

    def _refuse(self, node: YamlNode, path: Path, message: str, rule: str) -> None:
        self.problems.append(self._problem(node, path, message, rule))

    def _problem(self, node: YamlNode, path: Path, message: str, rule: str) -> Problem:
        return Problem(self._file, node.line, dotted(path), message, id=rule, path=path, column=node.column)


def is_merge(key: YamlNode) -> bool:
    """Return whether the key is YAML's merge key, `<<` without quotes."""
    return key.kind == "scalar" and key.text == "<<" and not key.style
