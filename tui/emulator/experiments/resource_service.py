"""Create, get, list, update, delete and purge for every kind of stored resource.

Vertex does not document the following behaviour, so the emulator chooses it: an update without a mask changes
every field that the request sets; an etag that does not match is ABORTED; a list is in order of creation
unless the request orders it.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from google.longrunning import operations_pb2
from google.protobuf import empty_pb2
from google.rpc import code_pb2

from tui.emulator.database import created_us
from tui.emulator.experiments.filter_fields import fields_of
from tui.emulator.experiments.kinds import ResourceKind, location_of
from tui.emulator.experiments.store import ResourceStore
from tui.emulator.messages import Pb, copied, current_time
from tui.emulator.rpc.methods import Method, WireError, invalid, methods_of, not_found
from tui.emulator.rpc.paging import (
    in_slices,
    keep_only,
    mask_fields,
    page_at,
    page_size,
    query_digest,
)
from tui.emulator.vertex.operations import Operations
from tui.emulator.vertex.resource_requests import request_filter

_FIXED = frozenset({"name", "create_time", "update_time", "etag", "parent_contexts"})
SAMPLE = 100
"""Maximum number of names in the reply of a purge."""


class ResourceServer:
    """RPC handlers of one kind of resource."""

    ORDERS: ClassVar[Mapping[str, Callable[[Pb], Any]]] = {
        "display_name": lambda pb: str(pb.display_name),
        "create_time": created_us,
        "update_time": lambda pb: pb.update_time.ToNanoseconds(),
    }
    """Fields that a list can be ordered by."""

    def __init__(self, kind: ResourceKind, store: ResourceStore, operations: Operations) -> None:
        self.kind, self._store, self._operations = kind, store, operations
        self._fields = fields_of(kind, store)
        self._type = f"aiplatform.googleapis.com/{kind.noun}"

    def methods(self) -> list[Method]:
        """Return the RPCs of this kind that Vertex has."""
        kind, operation = self.kind, operations_pb2.Operation
        rows = (
            (f"Create{kind.noun}", self.create, operation if "Create" in kind.operations else kind.message),
            (f"Get{kind.noun}", self.get, kind.message),
            (f"List{kind.plural}", self.list, kind.reply("List")),
            (f"Update{kind.noun}", self.update, operation if "Update" in kind.operations else kind.message),
            (f"Delete{kind.noun}", self.delete, operation),
            (f"Purge{kind.plural}", self.purge, operation),
        )
        served = [row for row in rows if hasattr(kind.requests, f"{row[0]}Request")]
        return methods_of(kind.service, kind.requests, *served)

    def find(self, name: str) -> Pb:
        """Return the resource of this name. Raises WireError: INVALID_ARGUMENT for a malformed name,
        NOT_FOUND."""
        resource = self._find(name)
        if resource is None:
            raise not_found(self._type, name)
        return resource

    def _find(self, name: str) -> Pb | None:
        if not self.kind.names.fullmatch(name):
            form = "/".join(f"{collection}/ID" for collection in self.kind.path.split("/"))
            raise invalid(("name", f"{name!r} must have the form projects/P/locations/L/{form}"))
        return self._store.get(name)

    def new(self, parent: str, requested: Pb, requested_id: str) -> Pb:
        """Make a resource to be stored, with its name and times.

        Raises WireError: INVALID_ARGUMENT, NOT_FOUND for the parent, ALREADY_EXISTS.
        """
        kind = self.kind
        if not kind.parents.fullmatch(parent):
            raise invalid(("parent", f"{parent!r} must be the name of a parent of a {kind.noun}"))
        if "/" in kind.path:
            self._must_exist(parent)
        if requested_id and not re.fullmatch(kind.id_pattern, requested_id):
            raise invalid((f"{kind.field}_id", f"{requested_id!r} must match {kind.id_pattern}"))
        chosen = requested_id or str(secrets.randbelow(9 * 10**18) + 10**18)
        resource = copied(requested)
        resource.name = f"{parent}/{kind.collection}/{chosen}"
        if self._store.get(resource.name) is not None:
            raise WireError(code_pb2.ALREADY_EXISTS, f"The {kind.noun} {resource.name} already exists.")
        resource.create_time.CopyFrom(current_time())
        return touched(resource)

    async def create(self, request: Pb) -> Pb:
        kind = self.kind
        requested = getattr(request, kind.field)
        resource = self.new(request.parent, requested, getattr(request, f"{kind.field}_id", ""))
        await self._store.put(resource)
        return await self._done(resource) if "Create" in kind.operations else resource

    async def get(self, request: Pb) -> Pb:
        return self.find(request.name)

    async def list(self, request: Pb) -> Pb:
        """Return one page. A page token holds a position, because the client chooses the order."""
        kind = self.kind
        if not kind.parents.fullmatch(request.parent):
            raise invalid(("parent", f"{request.parent!r} must be the name of a parent of {kind.plural}"))
        return await self.page(self.rows(request.parent), request, request.parent, kind.reply("List")())

    def rows(self, parent: str) -> Sequence[Pb]:
        """Return the resources that a list of `parent` shows, in the default order."""
        return self._store.below(parent, self.kind)

    async def page(self, rows: Sequence[Pb], request: Pb, scope: str, reply: Pb) -> Pb:
        """Fill `reply` with the page of `rows` that a list request of `scope` selects."""
        text, order = getattr(request, "filter", ""), getattr(request, "order_by", "")
        mask = getattr(request, "read_mask", None)
        fields = mask_fields(mask.paths if mask is not None else (), self.kind.message.DESCRIPTOR)
        condition = request_filter(text, self._fields)
        matches = ordered([pb async for pb in in_slices(rows) if condition(pb)], order, self.ORDERS)
        digest = query_digest(scope, text, order)
        page, token = page_at(matches, request.page_token, page_size(request.page_size), digest)
        reply.next_page_token = token
        repeated = next(field for field in reply.DESCRIPTOR.fields if field.name != "next_page_token").name
        getattr(reply, repeated).extend(page)
        keep_only(getattr(reply, repeated), fields)
        return reply

    async def update(self, request: Pb) -> Pb:
        kind = self.kind
        requested = getattr(request, kind.field)
        if getattr(request, "allow_missing", False) and self._find(requested.name) is None:
            parent, _, id = requested.name.rsplit("/", 2)
            resource = self.new(parent, requested, id)
        else:
            resource = copied(self.find(requested.name))
            check_etag(requested.etag, resource, "update")
            for field in named_fields(request.update_mask.paths, requested):
                copy_field(requested, resource, field)
            touched(resource)
        await self._store.put(resource)
        return await self._done(resource) if "Update" in kind.operations else resource

    async def delete(self, request: Pb) -> operations_pb2.Operation:
        resource = self.find(request.name)
        check_etag(getattr(request, "etag", ""), resource, "delete")
        await self._store.delete([resource.name])
        return await self._done(empty_pb2.Empty(), resource.name)

    async def purge(self, request: Pb) -> operations_pb2.Operation:
        """Delete the resources that match a filter; without `force` only report them."""
        condition = request_filter(request.filter, self._fields)
        if not request.filter:
            raise invalid(("filter", "is required"))
        self._must_exist(request.parent)
        names = [pb.name for pb in self._store.below(request.parent, self.kind) if condition(pb)]
        reply = self.kind.reply("Purge")(purge_count=len(names))
        if request.force:
            await self._store.delete(names)
        else:
            reply.purge_sample.extend(names[:SAMPLE])
        return await self._done(reply, request.parent)

    def _must_exist(self, parent: str) -> None:
        """Raise WireError NOT_FOUND. A service with resources from the configuration overrides it."""
        if self._store.get(parent) is None:
            raise not_found(f"aiplatform.googleapis.com/{parent.rsplit('/', 2)[-2]}", parent)

    async def _done(self, reply: Pb, name: str = "") -> operations_pb2.Operation:
        return await self._operations.done(*location_of(name or reply.name), reply)


def check_etag(etag: str, stored: Pb, verb: str) -> None:
    """Raise WireError ABORTED for the etag of an earlier version."""
    if etag and etag != stored.etag:
        raise WireError(code_pb2.ABORTED, f"{stored.name} has changed: read it again, then {verb} it.")


def check_mask(paths: Sequence[str], changeable: Sequence[str]) -> None:
    """Refuse an update mask that is empty or names other fields than `changeable`. Raises WireError."""
    wrong = [path for path in paths if path not in changeable]
    if wrong or not paths:
        problem = f"{', '.join(wrong)} can't be changed" if wrong else "is required"
        raise invalid(("update_mask", f"{problem}; {', '.join(changeable)} can"))


def touched(pb: Pb) -> Pb:
    """Set the update time to now and the etag to match; return the resource."""
    pb.update_time.CopyFrom(current_time())
    if "etag" in pb.DESCRIPTOR.fields_by_name:
        pb.etag = str(pb.update_time.ToNanoseconds())
    return pb


def named_fields(paths: Sequence[str], requested: Pb) -> Iterator[str]:
    """Yield the top-level fields that an update changes. Raises WireError for a read-only field."""
    known = requested.DESCRIPTOR.fields_by_name
    if not paths or list(paths) == ["*"]:
        yield from (field.name for field, _ in requested.ListFields() if field.name not in _FIXED)
        return
    for path in paths:
        field = path.partition(".")[0]
        if field not in known or field in _FIXED:
            raise invalid(("update_mask", f"{path!r} must be a field that can be changed"))
        yield field


def copy_field(source: Pb, target: Pb, field: str) -> None:
    """Replace one field of `target` with that of `source`."""
    target.ClearField(field)
    part = copied(source)
    for other in part.DESCRIPTOR.fields:
        if other.name != field:
            part.ClearField(other.name)
    target.MergeFrom(part)


def ordered(resources: Sequence[Pb], order: str, orders: Mapping[str, Callable[[Pb], Any]]) -> Sequence[Pb]:
    """Sort by `field [asc|desc], …` over the fields of `orders`. Raises WireError for any other order."""
    for field, *direction in reversed([part.split() for part in order.split(",") if part.strip()]):
        if field not in orders or direction not in ([], ["asc"], ["desc"]):
            known = ", ".join(orders)
            raise invalid(("order_by", f"{order!r} must be a list of {known}, each with asc or desc"))
        resources = sorted(resources, key=orders[field], reverse=direction == ["desc"])
    return resources
