"""Requests on resources of Vertex AI: parents, names and pages of lists."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TypeVar

from tui.emulator.filters.evaluate import compile_filter
from tui.emulator.filters.fields import Condition, FieldTable
from tui.emulator.filters.syntax import FilterError
from tui.emulator.interfaces import project_id
from tui.emulator.messages import Pb
from tui.emulator.rpc.methods import invalid, not_found
from tui.emulator.rpc.paging import in_slices, page_size, query_digest, read_token, write_token
from tui.emulator.vertex.resource_table import Key, R, ResourceTable

_PARENT = re.compile(r"projects/([^/\s\x00-\x20\x7f]+)/locations/([^/\s\x00-\x20\x7f]+)")
T = TypeVar("T")
_NAME = re.compile(
    r"projects/(?P<project>[^/]+)/locations/(?P<location>[^/]+)/(?P<collection>[^/]+)/(?P<id>[^/]+)"
)


def creation_parent(parent: str) -> tuple[str, str]:
    """Return the project and location in which to create a resource. Raises WireError: INVALID_ARGUMENT."""
    project, location = _read_parent(parent)
    if location == "-":
        raise invalid(("parent", "must be one location, e.g. projects/P/locations/us-central1"))
    return project, location


def find(table: ResourceTable[R], collection: str, kind: str, name: str) -> R:
    """Return the resource with this full name. `kind` is its type in a NOT_FOUND error.

    `projects/-/locations/-/…` finds the id in any project, an extension that the console uses. Raises
    WireError: INVALID_ARGUMENT for a malformed name, NOT_FOUND.
    """
    match = _NAME.fullmatch(name)
    if match is None or match["collection"] != collection:
        raise invalid(("name", f"{name!r} must have the form projects/P/locations/L/{collection}/NUMBER"))
    resource = table.get(match["id"])
    if resource is None or not resource.record.is_in(match["project"], match["location"]):
        raise not_found(kind, name)
    return resource


async def list_page(table: ResourceTable[R], request: Pb, fields: FieldTable[Pb]) -> tuple[list[R], str]:
    """Return one page of a list request, newest first, and the token of the next page, or "" after the last
    page.

    A page token is bound to its parent and filter. The location `-` means every location of the project.
    Raises WireError: INVALID_ARGUMENT for a bad parent, page size, token or filter.
    """
    _read_parent(request.parent)
    size = page_size(request.page_size)
    digest = query_digest(request.parent, request.filter)
    last = read_token(request.page_token, digest, (int, int))
    condition = request_filter(request.filter, fields)
    resources = _in_parent(table, request.parent, None if last is None else (int(last[0]), int(last[1])))
    page: list[R] = []
    async for resource in in_slices(resources):
        if condition(resource.pb):
            if len(page) == size:
                return page, write_token(page[-1].key, digest)
            page.append(resource)
    return page, ""


async def matching(table: ResourceTable[R], request: Pb, fields: FieldTable[Pb]) -> list[R]:
    """Return all resources that match a list request, without pages. Raises WireError as `list_page` does."""
    resources = _in_parent(table, request.parent)
    condition = request_filter(request.filter, fields)
    return [resource async for resource in in_slices(resources) if condition(resource.pb)]


def _in_parent(table: ResourceTable[R], parent: str, before: Key | None = None) -> Iterator[R]:
    project, location = _read_parent(parent)
    return (resource for resource in table.newest_first(before) if resource.record.is_in(project, location))


def _read_parent(parent: str) -> tuple[str, str]:
    match = _PARENT.fullmatch(parent)
    if match is None:
        raise invalid(("parent", f"{parent!r} must have the form projects/P/locations/L"))
    return project_id(match[1]), match[2]


def request_filter(text: str, fields: FieldTable[T]) -> Condition[T]:
    """Compile the filter of a list request. Raises WireError: INVALID_ARGUMENT with the position."""
    try:
        return compile_filter(text, fields)
    except FilterError as error:
        raise invalid(("filter", str(error))) from error


def find_by_reference(table: ResourceTable[R], reference: str) -> Sequence[R]:
    """Return the resources with this id, full resource name or display name, newest first."""
    exact = table.get(reference.rsplit("/", 1)[-1])
    if exact is not None and reference in (exact.record.id, exact.record.name):
        return [exact]
    return [resource for resource in table.newest_first() if resource.pb.display_name == reference]
