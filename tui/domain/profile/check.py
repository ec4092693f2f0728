"""Values against the field tables: unknown names, wrong types, and camelCase made of snake_case."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Mapping
from typing import Any

from tui.domain.profile.fields import Kind
from tui.domain.profile.source import Document, Path, Problem

_DURATION = re.compile(r"\d+(\.\d{1,9})?s")
_WHOLE = re.compile(r"-?\d+")


def camel(name: str) -> str:
    """`worker_pool_specs` → `workerPoolSpecs`; other names stay."""
    first, *rest = name.split("_")
    return first + "".join(part[:1].upper() + part[1:] for part in rest) if rest and first else name


def suggestion(name: str, known: list[str]) -> str:
    """A sentence with the nearest known name, or all of them when they are few."""
    near = difflib.get_close_matches(name, known, 1, 0.6)
    if near:
        return f"Did you mean {near[0]}?"
    return f"Known are {', '.join(sorted(known))}." if len(known) <= 12 else ""


class Checker:
    """Collects problems of one document while it copies its values into REST form."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self.problems: list[Problem] = []

    def refuse(self, path: Path, message: str, fix: str = "") -> None:
        self.problems.append(self._document.problem(path, message, fix))

    def message(self, value: Any, fields: Mapping[str, Kind], path: Path) -> dict[str, Any]:
        """The mapping `value` with every field checked against `fields`."""
        if not isinstance(value, Mapping):
            self.refuse(path, f"expected fields, found {describe(value)}.")
            return {}
        found: dict[str, Any] = {}
        for name, inner in value.items():
            known = camel(name)
            if known not in fields:
                self.refuse((*path, name), "there is no such field.", suggestion(known, list(fields)))
            elif known in found:
                self.refuse((*path, name), f"{known} is given twice.")
            elif inner is not None:
                found[known] = self.field(inner, fields[known], (*path, name))
        return found

    def field(self, value: Any, kind: Kind, path: Path) -> Any:
        """One field's value in REST form."""
        if not kind.repeated:
            return self._single(value, kind, path)
        if not isinstance(value, list):
            self.refuse(path, f"expected a list, found {describe(value)}.", "Put a dash before each element.")
            return []
        if kind.name == "message":
            return [
                self.message({} if v is None else v, kind.fields, (*path, i)) for i, v in enumerate(value)
            ]
        return [self._single(v, kind, (*path, i)) for i, v in enumerate(value)]

    def _single(self, value: Any, kind: Kind, path: Path) -> Any:
        if kind.name == "message":
            return self.message(value, kind.fields, path)
        if kind.name == "map":
            return self.map(value, path)
        if is_reference(value):
            return value
        return getattr(self, f"_{kind.name}")(value, kind, path)

    def map(self, value: Any, path: Path) -> dict[str, str]:
        """Keys and values as text."""
        if not isinstance(value, Mapping):
            self.refuse(path, f"expected keys and values, found {describe(value)}.")
            return {}
        return {k: self._string(v, Kind("string"), (*path, k)) for k, v in value.items()}

    def _string(self, value: Any, _: Kind, path: Path) -> str:
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, str | int | float):
            return str(value)
        self.refuse(path, f"expected text, found {describe(value)}.")
        return ""

    def _integer(self, value: Any, _: Kind, path: Path) -> int:
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        if isinstance(value, str) and _WHOLE.fullmatch(value):
            return int(value)
        self.refuse(path, f"expected a whole number, found {describe(value)}.")
        return 0

    def _boolean(self, value: Any, _: Kind, path: Path) -> bool:
        if isinstance(value, bool):
            return value
        self.refuse(path, f"expected true or false, found {describe(value)}.")
        return False

    def _duration(self, value: Any, _: Kind, path: Path) -> str:
        if (
            isinstance(value, int | float)
            and not isinstance(value, bool)
            and math.isfinite(value)
            and value >= 0
        ):
            return f"{value}s"
        if isinstance(value, str) and _DURATION.fullmatch(value):
            return value
        self.refuse(path, f"expected seconds such as 86400s, found {describe(value)}.")
        return "0s"

    def _enum(self, value: Any, kind: Kind, path: Path) -> str:
        if isinstance(value, str) and value in kind.choices:
            return value
        self.refuse(
            path, f"{describe(value)} is not one of its values.", suggestion(str(value), list(kind.choices))
        )
        return ""


REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_-]*)\}")


def is_reference(value: Any) -> bool:
    """The whole value is one `${name}`: its type is the parameter's."""
    return isinstance(value, str) and REFERENCE.fullmatch(value) is not None


def describe(value: Any) -> str:
    """A value in a sentence."""
    if isinstance(value, Mapping):
        return "fields"
    if isinstance(value, list):
        return "a list"
    return "nothing" if value is None else repr(value)
