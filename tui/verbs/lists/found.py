"""What the regions have: the one that a person means, and which regions could not be read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from tui.backends.interface import Backend, NotFound
from tui.backends.serving import RegionResults
from tui.domain.core.text import sentences
from tui.verbs.output import note
from tui.verbs.run import Failure, Run

MOST = 20
"""Candidates that a message names."""


class Listed(Protocol):
    """What is looked for. `name` is its full resource name."""

    @property
    def name(self) -> str: ...
    @property
    def id(self) -> str: ...
    @property
    def region(self) -> str: ...
    @property
    def display_name(self) -> str: ...


T = TypeVar("T", bound=Listed)


@dataclass(frozen=True, slots=True)
class Noun:
    """What one of a list is called, and the verb that lists all."""

    one: str
    verb: str
    chosen_id: bool = False
    """People choose the id: two regions may have the same, and the display name names none."""


def one_of(backend: Backend, found: RegionResults[T], reference: str, noun: Noun) -> T:
    """The one with this id, resource name or display name.

    Raises:
        NotFound: where there is none, and every region could be read.
        BackendError: why a region could not be read: it may have it, or one more of this name.
        Failure: where several are named so; it lists them.
    """
    sure = [each for each in found.items if reference in {each.name, "" if noun.chosen_id else each.id}]
    fits = sure or [
        each for each in found.items if reference == (each.id if noun.chosen_id else each.display_name)
    ]
    if len(fits) > 1:
        lines = "\n".join(f"  {each.id}  {each.region}  {each.name}" for each in fits[:MOST])
        fix = "Use the full resource name." if noun.chosen_id else "Use the id, or the full resource name."
        raise Failure(f"{len(fits)} {noun.one}s are named {reference}:\n{lines}", fix=fix, code="AMBIGUOUS")
    if fits and (sure or not found.errors):
        return fits[0]
    for error in found.errors.values():
        raise error
    raise NotFound(
        f"There is no {noun.one} {reference} in the context {backend.info.name}.",
        fix=f"`{noun.verb}` lists all.",
    )


def errors_json(found: RegionResults[Any]) -> list[dict[str, str]]:
    """The regions that could not be read, in the documented shape."""
    return [
        {"region": region, "code": error.code, "message": error.message}
        for region, error in found.errors.items()
    ]


def end(run: Run, found: RegionResults[Any]) -> int:
    """Say which regions could not be read; the exit code, 0 where any could."""
    errors = list(found.errors.values())
    for error in errors if not run.json else ():
        note(sentences(error.message, error.fix))
    return errors[0].exit_code if errors and not found.items else 0
