"""YAML (or JSON) text to plain values that know their lines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from tui.domain.edit import Edit
from tui.domain.rules.base import Severity

Path = tuple[str | int, ...]

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with a file: where, what, and what to do.

    `line` and `column` count from 1, 0 where there is none. `path` is where it stands in the file and `field`
    the same in words; `edits` (of the file's own paths) mend it, where there is nothing to decide.
    """

    file: str
    line: int
    field: str
    message: str
    fix: str = ""
    id: str = "profile.shape"
    severity: Severity = Severity.ERROR
    source: str = ""
    path: Path = ()
    column: int = 0
    edits: tuple[Edit, ...] = ()

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}" if self.line else self.file
        what = f"{self.field}: {self.message}" if self.field else self.message
        return f"{where}: {what}" + (f" {self.fix}" if self.fix else "")


class ProfileInvalid(Exception):
    """A profile that can't be used, with every problem found."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = problems


@dataclass(frozen=True, slots=True)
class Document:
    """A parsed file: its value, and the line of each path in it."""

    file: str
    value: Any
    lines: Mapping[Path, int] = field(default_factory=dict)

    def line(self, path: Path) -> int:
        """Line of `path`, or of the nearest thing around it."""
        for end in range(len(path), -1, -1):
            if path[:end] in self.lines:
                return self.lines[path[:end]]
        return 0

    def problem(self, path: Path, message: str, fix: str = "") -> Problem:
        return Problem(self.file, self.line(path), dotted(path), message, fix, path=path)


def dotted(path: Path) -> str:
    """`jobSpec.workerPoolSpecs[0].machineSpec`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def read(text: str, file: str) -> Document:
    """Parse one document.

    Raises:
        ProfileInvalid: for text that is not YAML, more than one document, or a key given twice.
    """
    try:
        node = yaml.compose(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 0
        why = error.problem or error.context or "it can't be read"
        raise ProfileInvalid([Problem(file, line, "", f"not valid YAML: {why}.")]) from error
    except (yaml.YAMLError, ValueError) as error:
        raise ProfileInvalid([Problem(file, 0, "", f"not valid YAML: {error}.")]) from error
    if node is None:
        raise ProfileInvalid([Problem(file, 0, "", "the file is empty.")])
    reader = _Reader(file)
    value = reader.build(node, ())
    if reader.problems:
        raise ProfileInvalid(reader.problems)
    return Document(file, value, reader.lines)


class _Reader:
    def __init__(self, file: str) -> None:
        self._file = file
        self._scalars = yaml.constructor.SafeConstructor()
        self.lines: dict[Path, int] = {}
        self.problems: list[Problem] = []
        self._open: set[int] = set()

    def build(self, node: yaml.Node, path: Path) -> Any:
        self.lines.setdefault(path, node.start_mark.line + 1)
        if id(node) in self._open:
            self._refuse(node, path, "an alias must not contain itself.")
            return None
        self._open.add(id(node))
        try:
            if isinstance(node, yaml.MappingNode):
                return self._mapping(node, path)
            if isinstance(node, yaml.SequenceNode):
                return [self.build(child, (*path, i)) for i, child in enumerate(node.value)]
            return self._scalar(node, path)
        finally:
            self._open.discard(id(node))

    def _mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = str(key_node.value)
            if key in found:
                self._refuse(key_node, (*path, key), "this key stands here twice; keep one.")
                continue
            self.lines[(*path, key)] = key_node.start_mark.line + 1
            found[key] = self.build(value_node, (*path, key))
        return found

    def _scalar(self, node: yaml.Node, path: Path) -> Any:
        try:
            value = self._scalars.construct_object(node, deep=True)
        except (yaml.YAMLError, ValueError) as error:
            self._refuse(node, path, f"this value can't be read: {getattr(error, 'problem', error)}.")
            return None
        # A date is not a type of any field here; the text as written is.
        return value if value is None or isinstance(value, bool | int | float | str) else str(node.value)

    def _refuse(self, node: yaml.Node, path: Path, message: str) -> None:
        self.problems.append(Problem(self._file, node.start_mark.line + 1, dotted(path), message))
