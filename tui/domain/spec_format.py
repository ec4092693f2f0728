"""The bodies that a profile's header may hold, each with its format.

A header holds exactly one body. The kinds of work register theirs; a format is loaded when a file is read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from tui.domain.profile.source import Path
    from tui.domain.vertex.field_table import FieldType
    from tui.domain.vertex.rules.base import Case, Finding


class SpecFormat(Protocol):
    """What is known of one body. A body describes the work of one custom job, in whatever it wraps it.

    Rules, form, price, quota and packaging look at that custom job in REST form (`job`); `resource` is what
    is sent to the service.
    """

    body: str
    """Its key in a profile's header."""
    fields: FieldType
    """The fields of the body."""
    spec_path: Path
    """Where in a file with a header the CustomJobSpec stands."""
    collection: str
    """What is created, as in the service's paths: `customJobs`."""
    resource_key: str
    """Its name in a request, e.g. `customJob`."""
    resource_fields: Mapping[str, FieldType]
    """The fields of what is sent."""
    python_client: str
    """The class of Google's Python library that creates it."""
    sign: str
    """The field that a resource of this format has and no other's."""
    fix: str
    """What a body that is missing should hold."""

    def stands_alone(self, names: Collection[str]) -> bool:
        """Whether a file with these fields (camelCase) at its top level is this body itself."""

    def spec(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """The CustomJobSpec in a body."""

    def beside(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """What a body has beside the spec. It stands under the body's name in the custom job's REST form."""

    def rules(self, case: Case) -> list[Finding]:
        """Every finding of every rule, with paths in the custom job's REST form."""

    def resource(self, job: Mapping[str, Any]) -> dict[str, Any]:
        """What a create sends for the custom job `job`, in REST form."""

    def header(self, resource: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
        """A profile's header, body included, of a resource as the service reports it; notes on what it lacks.

        Raises:
            ProfileInvalid: for a resource whose work no profile can describe.
        """


_LOADERS: dict[str, Callable[[], SpecFormat]] = {}


def register(body: str, load: Callable[[], SpecFormat]) -> None:
    """Add a body. Raises ValueError for one that is there already."""
    if body in _LOADERS:
        raise ValueError(f"two formats have the body {body}")
    _LOADERS[body] = cache(load)


def unregister(body: str) -> None:
    """Remove a body. Raises KeyError."""
    del _LOADERS[body]


def bodies() -> tuple[str, ...]:
    """The registered bodies."""
    return tuple(_LOADERS)


def format_of(body: str) -> SpecFormat:
    """The format of a body. Raises KeyError."""
    return _LOADERS[body]()


def first_format() -> SpecFormat:
    """The format of a file that has no body yet."""
    return format_of(bodies()[0])


def request_of(body: str, job: Mapping[str, Any]) -> dict[str, Any]:
    """What a create sends for the custom job `job` of a profile with this body, under its name there."""
    found = format_of(body)
    return {found.resource_key: found.resource(job)}


def reported_as(names: Collection[str]) -> SpecFormat | None:
    """The format of a resource with these fields (camelCase), as the service reports it."""
    return next((found for body in _LOADERS if (found := format_of(body)).sign in names), None)


def standing_alone(names: Collection[str]) -> SpecFormat | None:
    """The format of a file with these fields (camelCase) at its top level, where it is a body itself."""
    if any(body in names for body in _LOADERS):
        return None
    return next((found for body in _LOADERS if (found := format_of(body)).stands_alone(names)), None)
