"""OpenAPI documents: schemas of the types and parameters of their operations, by group version."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from functools import cached_property

from tui.domain.kubernetes.schema.registry import components
from tui.emulator.kubernetes.api import openapi_protobuf
from tui.emulator.kubernetes.resources import ApiResource, Obj

_PREFIX = "#/components/schemas/"
_WRITES = ("dryRun", "fieldManager", "fieldValidation")
_LISTS = (
    "allowWatchBookmarks", "continue", "fieldSelector", "labelSelector", "limit", "resourceVersion",
    "resourceVersionMatch", "sendInitialEvents", "timeoutSeconds", "watch",
)  # fmt: skip
_DELETES = ("dryRun", "gracePeriodSeconds", "orphanDependents", "propagationPolicy")
_PATCHES = ("application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml")
_STRATEGIC = "application/strategic-merge-patch+json"
_INFO = {"title": "Kubernetes", "version": "v1.32.0"}


class OpenApi:
    """Builds each document on first use."""

    def __init__(self, resources: Iterable[ApiResource]) -> None:
        self._groups: dict[str, list[ApiResource]] = {}
        for resource in resources:
            self._groups.setdefault(_place(resource), []).append(resource)
        self._documents: dict[str, bytes] = {}

    def index(self) -> Obj:
        """Return the response to `/openapi/v3`."""
        return {
            "paths": {
                place: {"serverRelativeURL": f"/openapi/v3/{place}?hash={_hash(self.document(place) or b'')}"}
                for place in self._groups
            }
        }

    def document(self, place: str) -> bytes | None:
        """Return the response to `/openapi/v3/PLACE`, where PLACE is `api/v1` or `apis/GROUP/VERSION`."""
        resources = self._groups.get(place)
        if resources is None:
            return None
        if place not in self._documents:
            self._documents[place] = json.dumps(_document(resources), separators=(",", ":")).encode()
        return self._documents[place]

    @cached_property
    def swagger(self) -> Obj:
        """Return `/openapi/v2` with definitions only: kubectl checks the items of a List against them."""
        definitions: Obj = {}
        for resources in self._groups.values():
            prefix = _definition_prefix(resources[0])
            # Two groups may use one name for different types.
            text = json.dumps(_document(resources)["components"]["schemas"])
            schemas = json.loads(text.replace(_PREFIX, f"#/definitions/{prefix}"))
            definitions |= {f"{prefix}{name}": schema for name, schema in schemas.items()}
        return {"swagger": "2.0", "info": _INFO, "paths": {}, "definitions": definitions}

    @cached_property
    def swagger_protobuf(self) -> bytes:
        """Return `/openapi/v2` in protobuf, the only format that kubectl accepts."""
        return openapi_protobuf.encode(self.swagger)


def _document(resources: Sequence[ApiResource]) -> Obj:
    schemas = {name: dict(schema) for name, schema in components(resources[0].api_version).items()}
    paths: Obj = {}
    for resource in resources:
        own = schemas.setdefault(
            resource.kind, {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        )
        own["x-kubernetes-group-version-kind"] = [_kind(resource)]
        schemas[resource.list_kind] = {
            "type": "object",
            "required": ["items"],
            "properties": {
                "apiVersion": {"type": "string"},
                "kind": {"type": "string"},
                "metadata": {"type": "object"},
                "items": {"type": "array", "items": {"$ref": f"{_PREFIX}{resource.kind}"}},
            },
            "x-kubernetes-group-version-kind": [{**_kind(resource), "kind": resource.list_kind}],
        }
        paths |= _paths(resource)
    return {"openapi": "3.0.0", "info": _INFO, "paths": paths, "components": {"schemas": schemas}}


def _paths(resource: ApiResource) -> Obj:
    namespace = "{namespace}" if resource.namespaced else ""
    collection, item = resource.path(namespace), resource.path(namespace, "{name}")
    paths = {
        collection: {
            "get": _operation(resource, "list", resource.list_kind, _LISTS),
            "post": _operation(resource, "post", resource.kind, _WRITES, sends=True),
            "delete": _operation(resource, "deletecollection", "", (*_DELETES, *_LISTS)),
        },
        item: _item_path(resource),
    }
    for name in sorted(resource.subresources):
        paths[f"{item}/{name}"] = {
            key: operation
            for key, operation in _item_path(resource).items()
            if key in {"get", "put", "patch"}
        }
    if resource.namespaced:
        paths[resource.path()] = {"get": _operation(resource, "list", resource.list_kind, _LISTS)}
    return paths


def _item_path(resource: ApiResource) -> Obj:
    return {
        "get": _operation(resource, "get", resource.kind, ()),
        "put": _operation(resource, "put", resource.kind, _WRITES, sends=True),
        "patch": _operation(resource, "patch", resource.kind, (*_WRITES, "force"), sends=True),
        "delete": _operation(resource, "delete", "", _DELETES),
    }


def _operation(
    resource: ApiResource, action: str, kind: str, parameters: Sequence[str], *, sends: bool = False
) -> Obj:
    schema = {"$ref": f"{_PREFIX}{kind}"} if kind else {"type": "object"}
    media: Sequence[str] = ("application/json",)
    if action == "patch":
        media = _PATCHES if resource.custom else (*_PATCHES, _STRATEGIC)
    body = (
        {"requestBody": {"content": {media_type: {"schema": schema} for media_type in media}}}
        if sends
        else {}
    )
    return {
        "parameters": [
            {"name": name, "in": "query", "schema": {"type": "string"}, "uniqueItems": True}
            for name in (*parameters, "pretty")
        ],
        **body,
        "responses": {"200": {"description": "OK", "content": {"application/json": {"schema": schema}}}},
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": _kind(resource),
    }


def _definition_prefix(resource: ApiResource) -> str:
    if not resource.custom:
        return f"io.k8s.api.{(resource.group or 'core').partition('.')[0]}.{resource.version}."
    return f"{'.'.join(reversed(resource.group.split('.')))}.{resource.version}."


def _kind(resource: ApiResource) -> Obj:
    return {"group": resource.group, "version": resource.version, "kind": resource.kind}


def _place(resource: ApiResource) -> str:
    return f"apis/{resource.api_version}" if resource.group else f"api/{resource.version}"


def _hash(document: bytes) -> str:
    return hashlib.sha256(document).hexdigest()[:32].upper()
