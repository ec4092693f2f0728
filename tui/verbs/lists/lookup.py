"""Find a resource in the regions' responses, and report the regions that could not be read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from tui.backends.interface import Backend, NotFound
from tui.backends.serving import RegionResults
from tui.domain.core.resource_name import same_resource
from tui.domain.core.text import sentences
from tui.verbs.output import note
from tui.verbs.run import Run, VerbFailure

MOST = 20
"""Number of candidates listed in a message."""


class Listed(Protocol):
    """A resource to find. `name` is its full resource name."""

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
    """The noun for a resource, and the verb that lists all of them."""

    singular: str
    verb: str
    chosen_id: bool = False
    """Whether users choose the id. Two regions may then share an id, and the display name identifies
    nothing."""


def one_of(backend: Backend, results: RegionResults[T], reference: str, noun: Noun) -> T:
    """Return the resource with this id, resource name or display name.

    Raises:
        NotFound: the resource does not exist, and every region could be read.
        BackendError: a region could not be read; it may have the resource, or another resource of this name.
        VerbFailure: several resources have the name; the message lists them.
    """
    sure = [
        item
        for item in results.items
        if same_resource(reference, item.name) or (reference == item.id and not noun.chosen_id)
    ]
    fits = sure or [
        item for item in results.items if reference == (item.id if noun.chosen_id else item.display_name)
    ]
    if len(fits) > 1:
        lines = "\n".join(f"  {item.id}  {item.region}  {item.name}" for item in fits[:MOST])
        fix = "Use the full resource name." if noun.chosen_id else "Use the id, or the full resource name."
        raise VerbFailure(
            f"{len(fits)} {noun.singular}s are named {reference}:\n{lines}", fix=fix, code="AMBIGUOUS"
        )
    if fits and (sure or not results.errors):
        return fits[0]
    for error in results.errors.values():
        raise error
    raise NotFound(
        f"The {noun.singular} {reference} does not exist in the context {backend.info.name}.",
        fix=f"`{noun.verb}` lists all.",
    )


def errors_json(results: RegionResults[Any]) -> list[dict[str, str]]:
    """Return the unreadable regions in the documented format."""
    return [
        {"region": region, "code": error.code, "message": error.message}
        for region, error in results.errors.items()
    ]


def end(run: Run, results: RegionResults[Any]) -> int:
    """Report the unreadable regions. Return the exit code, 0 if any region could be read."""
    errors = list(results.errors.values())
    for error in errors if not run.json else ():
        note(sentences(error.message, error.fix))
    return errors[0].exit_code if errors and not results.items else 0
