"""The source of a conversion, with its used parts and the differences found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tui.domain.document.source import Path, dotted
from tui.domain.kubernetes.workloads import at
from tui.domain.profile.parameters import Value
from tui.domain.spec.values import REFERENCE, is_reference


class CannotConvert(Exception):
    """The job has no counterpart in the other format; the message gives the reason and the remedy."""

    def __init__(self, message: str, fix: str = "") -> None:
        super().__init__(message)
        self.message, self.fix = message, fix


@dataclass(frozen=True, slots=True)
class Difference:
    """A difference between the two jobs. `path` is its location in the source (in `Source.value`), `target`
    is its location in the result; () means no location, and `*` stands for every element of a list."""

    sentence: str
    path: Path = ()
    target: Path = ()
    place: str = ""
    """The path in the file, formatted for the user."""

    def __str__(self) -> str:
        where = self.place or dotted(self.path)
        return f"{where}: {self.sentence}" if where else self.sentence


@dataclass(slots=True)
class ConversionSource:
    """A profile's header and body as plain values, whose parts a conversion uses one by one.

    `defaults` are the parameters' defaults. A value that determines the structure of the result can't stay a
    reference, so `fixed` replaces the reference with the default and reports the replacement.
    """

    value: Mapping[str, Any]
    defaults: Mapping[str, Value] = field(default_factory=dict)
    differences: list[Difference] = field(default_factory=list)
    consumed: set[Path] = field(default_factory=set)

    def get(self, *path: str | int) -> Any:
        """Return the value at a path without marking it as used."""
        return at(self.value, *path)

    def take(self, *path: str | int) -> Any:
        """Return the value at a path and mark the entire value as used."""
        self.consumed.add(path)
        return at(self.value, *path)

    def fixed(self, *path: str | int) -> Any:
        """Return the value at a path; a reference becomes the parameter's default, or None without a
        default."""
        value = self.take(*path)
        if not isinstance(value, str) or not REFERENCE.search(value):
            return value
        if is_reference(value):
            name = value[2:-1]
            text = self.defaults.get(name)
        else:
            name = ", ".join(match[1] for match in REFERENCE.finditer(value))
            text = REFERENCE.sub(lambda match: str(self.defaults.get(match[1], "")), value)
        words = f"is fixed at {text!r}" if text not in (None, "") else "is left out"
        self.say(
            f"the parameter {name} sets this value at a launch; the result can't refer to it, so it {words}.",
            path,
        )
        return text if text != "" else None

    def say(self, sentence: str, path: Path = (), target: Path = ()) -> None:
        """Record a difference."""
        self.differences.append(Difference(sentence, path, target))

    def left(self) -> list[Path]:
        """Return the paths of the unused values, each as high in the tree as possible."""
        return list(_left(self.value, (), self.consumed))


def _left(value: Any, path: Path, consumed: set[Path]) -> Iterator[Path]:
    if path in consumed or value is None or value in ({}, []):
        return
    if not any(inner[: len(path)] == path for inner in consumed):
        yield path
        return
    items = (
        value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    )
    for key, inner in items:
        yield from _left(inner, (*path, key), consumed)
