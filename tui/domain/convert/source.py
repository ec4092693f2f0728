"""What a conversion has taken of its source, so that each rest is named; and the differences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tui.domain.document.source import Path, dotted
from tui.domain.kubernetes.workloads import at
from tui.domain.profile.parameters import Value
from tui.domain.spec.values import REFERENCE, is_reference


class CannotConvert(Exception):
    """The job has no counterpart on the other side; the message says why and what to do."""

    def __init__(self, message: str, fix: str = "") -> None:
        super().__init__(message)
        self.message, self.fix = message, fix


@dataclass(frozen=True, slots=True)
class Difference:
    """What the two jobs don't share.

    `path` is where it stands in the source (as `Source.value` has it), `made` where the result differs for
    it; () where there is no such place, and `*` for each of a list.
    """

    sentence: str
    path: Path = ()
    made: Path = ()
    place: str = ""
    """The path in the file, in words."""

    def __str__(self) -> str:
        where = self.place or dotted(self.path)
        return f"{where}: {self.sentence}" if where else self.sentence


@dataclass(slots=True)
class Source:
    """A profile's header and body as plain values, of which a conversion takes one place after another.

    `defaults` are the parameters' defaults. A value that decides the shape of the result can't stay a
    reference: `fixed` takes the default for it, and names that.
    """

    value: Mapping[str, Any]
    defaults: Mapping[str, Value] = field(default_factory=dict)
    differences: list[Difference] = field(default_factory=list)
    taken: set[Path] = field(default_factory=set)

    def get(self, *path: str | int) -> Any:
        """The value at a path, without taking it."""
        return at(self.value, *path)

    def take(self, *path: str | int) -> Any:
        """The value at a path; all of it has a counterpart."""
        self.taken.add(path)
        return at(self.value, *path)

    def fixed(self, *path: str | int) -> Any:
        """The value at a path, with the parameter's default in place of a reference; None without a
        default."""
        found = self.take(*path)
        if not isinstance(found, str) or not REFERENCE.search(found):
            return found
        if is_reference(found):
            name = found[2:-1]
            made = self.defaults.get(name)
        else:
            name = ", ".join(match[1] for match in REFERENCE.finditer(found))
            made = REFERENCE.sub(lambda match: str(self.defaults.get(match[1], "")), found)
        words = f"is {made!r} for good" if made not in (None, "") else "is left out"
        self.say(
            f"the parameter {name} decides it at a launch, and the result can't have it: it {words}.", path
        )
        return made if made != "" else None

    def say(self, sentence: str, path: Path = (), made: Path = ()) -> None:
        """Name a difference."""
        self.differences.append(Difference(sentence, path, made))

    def left(self) -> list[Path]:
        """The places that nothing has taken, each as high as nothing below it is taken."""
        return list(_left(self.value, (), self.taken))


def _left(value: Any, path: Path, taken: set[Path]) -> Iterator[Path]:
    if path in taken or value is None or value in ({}, []):
        return
    if not any(each[: len(path)] == path for each in taken):
        yield path
        return
    items = (
        value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    )
    for key, inner in items:
        yield from _left(inner, (*path, key), taken)
