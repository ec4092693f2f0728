"""Create, get, list, update, delete and purge for every kind of resource of an experiment.

Chosen here, not documented for Vertex: an update without a mask changes every field that the request fills;
an etag that does not match is ABORTED; a list is in the order of creation unless it says otherwise.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator, Sequence
from typing import Any

from google.longrunning import operations_pb2
from google.protobuf import empty_pb2
from google.rpc import code_pb2

from tui.emulator.database import created_us
from tui.emulator.experiments.filter_fields import fields_of
from tui.emulator.experiments.kinds import BOARD, STORE, ResourceKind, location_of
from tui.emulator.experiments.store import ResourceStore
from tui.emulator.filters import Condition, FilterError, compile_filter
from tui.emulator.messages import Pb, copied, current_time
from tui.emulator.rpc.methods import Method, WireError, invalid, not_found
from tui.emulator.rpc.paging import keep_only, mask_fields, page_size, query_digest, read_token, write_token
from tui.emulator.vertex.operations import Operations

_FIXED = frozenset({"name", "create_time", "update_time", "etag", "parent_contexts"})
_ORDERS = {"create_time": created_us, "update_time": lambda pb: pb.update_time.ToNanoseconds()}
SAMPLE = 100
"""Names in the reply of a purge."""


class ResourceServer:
    """The handlers of one kind."""

    def __init__(self, kind: ResourceKind, store: ResourceStore, operations: Operations) -> None:
        self.kind, self._store, self._operations = kind, store, operations
        self._fields = fields_of(kind, store)
        self._type = f"aiplatform.googleapis.com/{kind.noun}"

    def methods(self) -> list[Method]:
        """The RPCs of this kind that Vertex has."""
        kind, operation = self.kind, operations_pb2.Operation
        table: list[tuple[str, Any, Any]] = [
            (f"Create{kind.noun}", operation if kind in {STORE, BOARD} else kind.message, self.create),
            (f"Get{kind.noun}", kind.message, self.get),
            (f"List{kind.plural}", kind.reply("List"), self.list),
            (f"Update{kind.noun}", operation if kind is BOARD else kind.message, self.update),
            (f"Delete{kind.noun}", operation, self.delete),
            (f"Purge{kind.plural}", operation, self.purge),
        ]
        return [
            Method(kind.service, name, getattr(kind.requests, f"{name}Request").pb(), reply, handler)
            for name, reply, handler in table
            if hasattr(kind.requests, f"{name}Request")
        ]

    def find(self, name: str) -> Pb:
        """The resource of that name. Raises WireError INVALID_ARGUMENT for a malformed one, NOT_FOUND."""
        if not self.kind.names.fullmatch(name):
            form = "/".join(f"{each}/ID" for each in self.kind.path.split("/"))
            raise invalid(("name", f"{name!r} is not of the form projects/P/locations/L/{form}"))
        found = self._store.get(name)
        if found is None:
            raise not_found(self._type, name)
        return found

    def new(self, parent: str, requested: Pb, wanted: str) -> Pb:
        """A resource to be stored, with its name and times.

        Raises:
            WireError: INVALID_ARGUMENT, NOT_FOUND for the parent, ALREADY_EXISTS.
        """
        kind = self.kind
        if not kind.parents.fullmatch(parent):
            raise invalid(("parent", f"{parent!r} is not the name of what a {kind.noun} is created in"))
        if "/" in kind.path:
            self._must_exist(parent)
        if wanted and not re.fullmatch(kind.id_pattern, wanted):
            raise invalid((f"{kind.field}_id", f"{wanted!r} does not match {kind.id_pattern}"))
        chosen = wanted or str(secrets.randbelow(9 * 10**18) + 10**18)
        found = copied(requested)
        found.name = f"{parent}/{kind.collection}/{chosen}"
        if self._store.get(found.name) is not None:
            raise WireError(code_pb2.ALREADY_EXISTS, f"The {kind.noun} {found.name} exists already.")
        found.create_time.CopyFrom(current_time())
        return touched(found)

    async def create(self, request: Pb) -> Pb:
        kind = self.kind
        requested = getattr(request, kind.field)
        found = self.new(request.parent, requested, getattr(request, f"{kind.field}_id", ""))
        await self._store.put(found)
        return await self._done(found) if kind in {STORE, BOARD} else found

    async def get(self, request: Pb) -> Pb:
        return self.find(request.name)

    async def list(self, request: Pb) -> Pb:
        """One page. The key of a page token is the position, as the order is the client's."""
        kind = self.kind
        if not kind.parents.fullmatch(request.parent):
            raise invalid(("parent", f"{request.parent!r} is not the name of what has {kind.plural}"))
        return self.page(self.rows(request.parent), request, request.parent, kind.reply("List")())

    def rows(self, parent: str) -> Sequence[Pb]:
        """What a list of `parent` shows, in the default order."""
        return self._store.below(parent, self.kind)

    def page(self, rows: Sequence[Pb], request: Pb, scope: str, reply: Pb) -> Pb:
        """`reply` with the page of `rows` that a list request of `scope` asks for."""
        text, order = getattr(request, "filter", ""), getattr(request, "order_by", "")
        mask = getattr(request, "read_mask", None)
        fields = mask_fields(mask.paths if mask is not None else (), self.kind.message.DESCRIPTOR)
        size, digest = page_size(request.page_size), query_digest(scope, text, order)
        last = read_token(request.page_token, digest, (int,))
        at = int(last[0]) if last else 0
        wanted = self._compile(text)
        found = self.ordered([pb for pb in rows if wanted(pb)], order)
        reply.next_page_token = write_token((at + size,), digest) if len(found) > at + size else ""
        repeated = next(each for each in reply.DESCRIPTOR.fields if each.name != "next_page_token").name
        getattr(reply, repeated).extend(found[at : at + size])
        keep_only(getattr(reply, repeated), fields)
        return reply

    def ordered(self, found: Sequence[Pb], order: str) -> Sequence[Pb]:
        """Rows in the order that a list request names. Raises WireError for one that there is not."""
        return _ordered(found, order)

    async def update(self, request: Pb) -> Pb:
        kind = self.kind
        requested = getattr(request, kind.field)
        if getattr(request, "allow_missing", False) and self._store.get(requested.name) is None:
            parent, _, wanted = requested.name.rsplit("/", 2)
            found = self.new(parent, requested, wanted)
        else:
            found = copied(self.find(requested.name))
            if requested.etag and requested.etag != found.etag:
                raise WireError(code_pb2.ABORTED, f"{found.name} has changed: read it again, then update it.")
            for field in named_fields(request.update_mask.paths, requested):
                copy_field(requested, found, field)
            touched(found)
        await self._store.put(found)
        return await self._done(found) if kind is BOARD else found

    async def delete(self, request: Pb) -> operations_pb2.Operation:
        found = self.find(request.name)
        if getattr(request, "etag", "") and request.etag != found.etag:
            raise WireError(code_pb2.ABORTED, f"{found.name} has changed: read it again, then delete it.")
        await self._store.delete([found.name])
        return await self._done(empty_pb2.Empty(), found.name)

    async def purge(self, request: Pb) -> operations_pb2.Operation:
        """Delete what a filter finds; without `force` only say what it would be."""
        wanted = self._compile(request.filter)
        if not request.filter:
            raise invalid(("filter", "is required"))
        self._must_exist(request.parent)
        names = [pb.name for pb in self._store.below(request.parent, self.kind) if wanted(pb)]
        reply = self.kind.reply("Purge")(purge_count=len(names))
        if request.force:
            await self._store.delete(names)
        else:
            reply.purge_sample.extend(names[:SAMPLE])
        return await self._done(reply, request.parent)

    def _must_exist(self, parent: str) -> None:
        """Raises WireError NOT_FOUND. A service with resources of the configuration overrides it."""
        if self._store.get(parent) is None:
            raise not_found(f"aiplatform.googleapis.com/{parent.rsplit('/', 2)[-2]}", parent)

    def _compile(self, text: str) -> Condition[Pb]:
        try:
            return compile_filter(text, self._fields)
        except FilterError as error:
            raise invalid(("filter", str(error))) from error

    async def _done(self, reply: Pb, name: str = "") -> operations_pb2.Operation:
        return await self._operations.done(*location_of(name or reply.name), reply)


def touched(pb: Pb) -> Pb:
    """Set the update time to now, and the etag to match; returns the resource."""
    pb.update_time.CopyFrom(current_time())
    if "etag" in pb.DESCRIPTOR.fields_by_name:
        pb.etag = str(pb.update_time.ToNanoseconds())
    return pb


def named_fields(paths: Sequence[str], requested: Pb) -> Iterator[str]:
    """Top-level fields that an update changes. Raises WireError for one that it can't."""
    known = requested.DESCRIPTOR.fields_by_name
    if not paths or list(paths) == ["*"]:
        yield from (field.name for field, _ in requested.ListFields() if field.name not in _FIXED)
        return
    for path in paths:
        field = path.partition(".")[0]
        if field not in known or field in _FIXED:
            raise invalid(("update_mask", f"{path!r} is not a field that can be changed"))
        yield field


def copy_field(source: Pb, target: Pb, field: str) -> None:
    """Replace one field of `target` by that of `source`."""
    target.ClearField(field)
    one = copied(source)
    for other in one.DESCRIPTOR.fields:
        if other.name != field:
            one.ClearField(other.name)
    target.MergeFrom(one)


def _ordered(found: Sequence[Pb], order: str) -> Sequence[Pb]:
    """By `field [asc|desc], …` over display_name, create_time and update_time. Raises WireError."""
    for part in reversed([each.split() for each in order.split(",") if each.strip()]):
        key = _ORDERS.get(part[0])
        if part[0] == "display_name":
            key = _display_name
        if key is None or len(part) > 2 or part[1:] not in ([], ["asc"], ["desc"]):
            known = ", ".join(["display_name", *_ORDERS])
            raise invalid(("order_by", f"{order!r} is not a list of {known}, each with asc or desc"))
        found = sorted(found, key=key, reverse=part[1:] == ["desc"])
    return found


def _display_name(pb: Pb) -> str:
    return str(pb.display_name)
