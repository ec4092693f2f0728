"""Media types of replies: plain objects, table rows, or metadata only."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tui.emulator.kubernetes.api.request import ACCEPTED
from tui.emulator.kubernetes.api.tables.columns import cells, columns_of
from tui.emulator.kubernetes.errors import BadRequest, NotAcceptable
from tui.emulator.kubernetes.objects import Stored
from tui.emulator.kubernetes.resources import ApiResource, Obj

_META = {"v1": "meta.k8s.io/v1", "v1beta1": "meta.k8s.io/v1beta1"}


@dataclass(frozen=True, slots=True)
class ReplyForm:
    """The format of a reply. `kind` is "", `Table` or `PartialObjectMetadata`."""

    kind: str = ""
    version: str = "v1"
    include: str = "Metadata"
    """Part of the object in a table row: None, Metadata or Object."""
    listed: bool = False
    """Whether the client requested the list variant."""

    def single(self, resource: ApiResource, stored: Stored) -> bytes:
        """Return one object as JSON."""
        if self.kind == "Table":
            return self._table(resource, [stored.obj], stored.version, {}, stored.obj)
        if self.kind:
            return encode(_metadata(stored.obj, _META[self.version]))
        return stored.raw

    def all(self, resource: ApiResource, items: Sequence[Stored], version: int, more: Obj) -> bytes:
        """Return a list as JSON; `more` extends its metadata."""
        if self.kind == "Table":
            return self._table(resource, [item.obj for item in items], version, more, None)
        if self.kind and not self.listed:
            raise NotAcceptable(
                "you requested PartialObjectMetadata, but the requested object is a list "
                f"(*core.{resource.list_kind})"
            )
        meta = encode({"resourceVersion": str(version), **more})
        if self.kind:
            api_version, kind = _META[self.version], "PartialObjectMetadataList"
            parts: Iterable[bytes] = (encode(_metadata(item.obj, api_version)) for item in items)
        else:
            api_version, kind = resource.api_version, resource.list_kind
            parts = (item.raw if resource.custom else _without_type(resource, item) for item in items)
        head = b'{"kind":"%s","apiVersion":"%s","metadata":%s,"items":[' % (
            kind.encode(),
            api_version.encode(),
            meta,
        )
        return b"".join((head, b",".join(parts), b"]}"))

    def _table(
        self, resource: ApiResource, items: Sequence[Obj], version: int, more: Obj, only: Obj | None
    ) -> bytes:
        columns = columns_of(resource)
        meta = dict(only["metadata"]) if only is not None else {}
        return encode(
            {
                "kind": "Table",
                "apiVersion": _META[self.version],
                "metadata": {"resourceVersion": meta.get("resourceVersion", str(version)), **more},
                "columnDefinitions": [column.definition() for column in columns],
                "rows": [{"cells": cells(columns, obj), **self._row_object(obj)} for obj in items],
            }
        )

    def _row_object(self, obj: Obj) -> Obj:
        if self.include == "None":
            return {}
        return {"object": obj if self.include == "Object" else _metadata(obj, _META[self.version])}


def form_of(accept: str, include: str = "") -> ReplyForm:
    """Return the first served media type of an Accept header. Raises NotAcceptable if none is served."""
    for part in (accept or "*/*").split(","):
        media, *parameters = (word.strip() for word in part.split(";"))
        if media not in {"application/json", "*/*"}:
            continue
        options = dict(word.partition("=")[::2] for word in parameters)
        kind = options.get("as", "").removesuffix("List")
        if not kind:
            return ReplyForm()
        meta = options.get("g") == "meta.k8s.io" and options.get("v") in _META
        if meta and kind == "Table" and include not in {"", "None", "Metadata", "Object"}:
            why = "must be 'Metadata', 'Object', 'None', or empty"
            error = f'includeObject: Invalid value: "{include}": {why}'
            raise BadRequest(f"Unable to convert to Table as requested: {error}")
        if meta and kind in {"Table", "PartialObjectMetadata"}:
            return ReplyForm(kind, options["v"], include or "Metadata", options["as"].endswith("List"))
    if "json" in accept:
        raise NotAcceptable(f"only the following media types are accepted: {ACCEPTED}")
    raise NotAcceptable(f"406: Not Acceptable\n\nAvailable representations: {ACCEPTED}", details={})


def encode(value: Any) -> bytes:
    """Return JSON without spaces."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def _without_type(resource: ApiResource, stored: Stored) -> bytes:
    """Return an item of a list of a built-in type, which lacks kind and apiVersion."""
    head = f'{{"kind":"{resource.kind}","apiVersion":"{resource.api_version}",'.encode()
    if stored.raw.startswith(head):
        return b"{" + stored.raw[len(head) :]
    return encode({key: value for key, value in stored.obj.items() if key not in {"kind", "apiVersion"}})


def _metadata(obj: Obj, api_version: str) -> Obj:
    return {"kind": "PartialObjectMetadata", "apiVersion": api_version, "metadata": obj["metadata"]}
