"""Answers create, update, patch and delete requests."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from tui.domain.kubernetes.workloads import fields
from tui.emulator.kubernetes.api import types
from tui.emulator.kubernetes.api.checks.options import check_write, delete_options, propagation
from tui.emulator.kubernetes.api.forms import ReplyForm, encode, form_of
from tui.emulator.kubernetes.api.read import json_response, selection
from tui.emulator.kubernetes.api.request import (
    Target,
    is_dry_run,
    media_type,
    read_body,
    read_object,
)
from tui.emulator.kubernetes.api.writing.apply import apply_configuration, record_update
from tui.emulator.kubernetes.api.writing.decoding import (
    check_applied,
    check_fields,
    check_patched,
    check_type,
    unrecognized,
)
from tui.emulator.kubernetes.api.writing.patches import json_patch, merge_patch, read_patch, strategic_merge
from tui.emulator.kubernetes.errors import (
    ApiConflict,
    ApiError,
    ApiNotFound,
    BadRequest,
    FieldCause,
    Invalid,
    UnsupportedMediaType,
)
from tui.emulator.kubernetes.objects import Objects, Record, Stored
from tui.emulator.kubernetes.resources import JOBS, PODS, ApiResource, Obj, without_nulls

_MOST_WARNINGS, _LONGEST_WARNING = 4096, 256
"""Maximum number of characters of all warnings, above which each is cut, as the API server does."""
_ORPHANS = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove "
    "them or set propagationPolicy=Orphan to suppress this warning"
)
_PATCHES = (
    "application/json-patch+json", "application/merge-patch+json", "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
)  # fmt: skip


class ObjectWriter:
    """Answers requests that change objects."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    async def create(self, request: Request, resource: ApiResource, target: Target) -> Response:
        """Answer a POST to a collection."""
        check_write("CreateOptions", request.query_params)
        obj = await self._read(request, resource)
        meta = obj["metadata"]
        _take_namespace(resource, meta, target)
        if meta.get("resourceVersion") and not is_dry_run(request.query_params):
            # The API server does not report this as BadRequest.
            raise ApiError("resourceVersion should not be set on objects to be created", reason="")
        warnings = types.drop_unknown_fields(resource, obj, request.query_params)
        types.prepare_create(resource, obj)
        dry_run = is_dry_run(request.query_params)
        record = self._record(request, resource)
        created = self._objects.create(resource, obj, dry_run=dry_run, record=record)
        return self._reply(request, resource, created, 201, warnings)

    async def _read(self, request: Request, resource: ApiResource) -> Obj:
        read = await read_object(request, lambda body, error: unrecognized(resource, body, error))
        obj: Obj = without_nulls(read)
        check_type(resource, obj)
        if obj.get("metadata") is None:
            obj["metadata"] = {}
        check_fields(resource, obj)
        return obj

    async def update(self, request: Request, resource: ApiResource, target: Target) -> Response:
        """Answer a PUT of an object or its status."""
        check_write("UpdateOptions", request.query_params)
        obj = await self._read(request, resource)
        meta = obj["metadata"]
        _take_namespace(resource, meta, target)
        if meta.setdefault("name", target.name) != target.name:
            raise BadRequest(
                f"the name of the object ({meta['name']}) does not match the name on the URL ({target.name})"
            )
        _check_version(meta)
        warnings = types.drop_unknown_fields(resource, obj, request.query_params)
        status = target.subresource == "status"
        if resource.custom and not meta.get("resourceVersion"):
            why = "Invalid value: 0: must be specified for an update"
            named = replace(resource, kind=resource.plural)
            raise Invalid.of(named, target.name, [FieldCause("metadata.resourceVersion", why)])
        record = self._record(request, resource, target.subresource)
        dry_run = is_dry_run(request.query_params)
        updated = self._objects.update(resource, obj, status=status, dry_run=dry_run, record=record)
        return self._reply(request, resource, updated, 200, warnings)

    async def patch(self, request: Request, resource: ApiResource, target: Target) -> Response:
        """Answer a PATCH of an object or its status; an apply patch may create the object."""
        kind, body, query = media_type(request), await read_body(request), request.query_params
        if kind not in _PATCHES:
            raise UnsupportedMediaType("415: Unsupported Media Type", details={})
        if "strategic" in kind and resource.custom:
            allowed = ", ".join(media for media in _PATCHES if "strategic" not in media)
            raise UnsupportedMediaType(
                f"the body of the request was in an unknown format - accepted media types include: {allowed}"
            )
        check_write("PatchOptions", query, apply="apply" in kind)
        patch = read_patch(kind, body)
        status, dry_run = target.subresource == "status", is_dry_run(query)
        if kind == "application/apply-patch+yaml":
            return self._apply(request, resource, target, without_nulls(patch))
        old = self._objects.get(resource, target.namespace, target.name)
        if kind == "application/json-patch+json":
            new = json_patch(old, patch)
        elif kind == "application/merge-patch+json":
            new = merge_patch(old, patch)
        else:
            new = strategic_merge(old, patch, types.merge_key(resource))
        new = without_nulls(new)
        if not fields(new, "metadata").get("name"):
            raise BadRequest(
                f"the name of the object ({target.name} based on URL) was undeterminable: name must be "
                "provided"
            )
        check_patched(resource, new)
        meta = new["metadata"]
        if meta["name"] != target.name:
            raise BadRequest(
                f"the name of the object ({meta['name']}) does not match the name on the URL ({target.name})"
            )
        if meta.get("uid") != old["metadata"]["uid"] and meta.get("uid"):
            cause = FieldCause("metadata.uid", f'Invalid value: "{meta["uid"]}": field is immutable')
            raise Invalid.of(resource, target.name, [cause])
        warnings = types.drop_unknown_fields(resource, new, query, patched=not resource.custom)
        record = self._record(request, resource, target.subresource)
        updated = self._objects.update(resource, deepcopy(new), status=status, dry_run=dry_run, record=record)
        return self._reply(request, resource, updated, 200, warnings)

    async def delete(self, request: Request, resource: ApiResource, target: Target) -> Response:
        """Answer a DELETE of one object."""
        options = await delete_options(request)
        old = self._objects.stored(resource, target.namespace, target.name)
        deleted = self._delete(resource, old, options)
        meta = deleted["metadata"]
        if meta.get("finalizers") or meta.get("deletionGracePeriodSeconds") or resource is PODS:
            warnings = [] if "propagationPolicy" in options or resource != JOBS else [_ORPHANS]
            return self._reply(request, resource, deleted, 200, warnings)
        details = {"name": target.name, "kind": resource.plural, "uid": deleted["metadata"]["uid"]}
        details |= {"group": resource.group} if resource.group else {}
        return json_response(
            encode(
                {
                    "kind": "Status",
                    "apiVersion": "v1",
                    "metadata": {},
                    "status": "Success",
                    "details": details,
                }
            )
        )

    async def delete_all(self, request: Request, resource: ApiResource, target: Target) -> Response:
        """Answer a DELETE of a collection."""
        options, query = await delete_options(request), request.query_params
        labels, fields = query.get("labelSelector", ""), query.get("fieldSelector", "")
        matches = selection(labels, fields, resource)
        items = self._objects.all_stored(resource, target.namespace)
        chosen = [item for item in items if matches is None or matches(item.obj)]
        for item in chosen:
            self._delete(resource, item, options)
        # The items show their state before the deletion, without their type as in any list.
        return json_response(ReplyForm().all(resource, chosen, self._objects.version, {}))

    async def change(
        self, request: Request, resource: ApiResource, target: Target, edit: Callable[[Obj], None]
    ) -> Obj:
        """Change an object for a subresource."""
        old = self._objects.get(resource, target.namespace, target.name)
        new = deepcopy(old)
        edit(new)
        record = self._record(request, resource, target.subresource)
        dry_run = is_dry_run(request.query_params)
        return self._objects.update(resource, new, dry_run=dry_run, record=record)

    def _apply(self, request: Request, resource: ApiResource, target: Target, applied: Any) -> Response:
        query = request.query_params
        manager = query.get("fieldManager", "")
        sent_type = {name: str(applied.get(name, "")) for name in ("apiVersion", "kind")}
        if sent_type != {"apiVersion": resource.api_version, "kind": resource.kind}:
            group, _, version = sent_type["apiVersion"].rpartition("/")
            raise BadRequest(f"invalid object type: {group}/{version}, Kind={sent_type['kind']}")
        applied.setdefault("metadata", {})
        check_applied(resource, applied)
        meta = applied["metadata"]
        _take_namespace(resource, meta, target)
        if meta.setdefault("name", target.name) != target.name:
            raise BadRequest(f"name in object ({meta['name']}) must match the URL ({target.name})")
        if meta.get("managedFields"):
            raise BadRequest("metadata.managedFields must be nil")
        warnings = types.drop_unknown_fields(resource, applied, query)
        live = self._objects.find(resource, target.namespace, target.name)
        status, force = target.subresource == "status", query.get("force") in {"true", "1"}
        merged = apply_configuration(
            resource,
            live,
            applied,
            manager=manager,
            schema=types.schema(resource),
            now=self._objects.now(),
            force=force,
            subresource=target.subresource,
        )
        dry_run = is_dry_run(query)
        if live is None:
            if status:
                raise ApiNotFound.of(resource, target.name)
            types.prepare_create(resource, merged)
            created = self._objects.create(resource, merged, dry_run=dry_run)
            return self._reply(request, resource, created, 201, warnings)
        updated = self._objects.update(resource, merged, status=status, dry_run=dry_run)
        return self._reply(request, resource, updated, 200, warnings)

    def _record(self, request: Request, resource: ApiResource, subresource: str = "") -> Record:
        schema, manager, now = types.schema(resource), self._manager(request), self._objects.now()

        def record(new: Obj, old: Obj | None) -> None:
            record_update(old, new, manager, schema, now, subresource=subresource)

        return record

    def _manager(self, request: Request) -> str:
        manager = request.query_params.get("fieldManager", "")
        return manager or request.headers.get("user-agent", "unknown").partition("/")[0][:128]

    def _delete(self, resource: ApiResource, stored: Stored, options: Obj) -> Obj:
        meta = stored.obj["metadata"]
        conditions = options.get("preconditions") or {}
        for field in ("resourceVersion", "uid"):
            expected = conditions.get(field)
            if expected and expected != meta[field]:
                why = f"precondition {field} {expected} does not match the object's {meta[field]}"
                raise ApiConflict.of(resource, meta["name"], why)
        return self._objects.delete(
            resource,
            str(meta.get("namespace") or ""),
            meta["name"],
            propagation=propagation(options, resource),
            grace=options.get("gracePeriodSeconds"),
            dry_run=options.get("dryRun") == ["All"],
        )

    def _reply(
        self, request: Request, resource: ApiResource, obj: Obj, code: int, warnings: list[str]
    ) -> Response:
        stored = Stored(obj, encode(obj), self._objects.version)
        reply = json_response(form_of(request.headers.get("accept", "")).single(resource, stored), code)
        if sum(map(len, warnings)) > _MOST_WARNINGS:
            warnings = [warning[:_LONGEST_WARNING] for warning in warnings][
                : _MOST_WARNINGS // _LONGEST_WARNING
            ]
        for warning in warnings:
            escaped = warning.replace("\\", "\\\\").replace('"', '\\"')
            reply.headers.append("Warning", f'299 - "{escaped}"')
        return reply


def _check_version(meta: Obj) -> None:
    version = str(meta.get("resourceVersion") or "")
    if version and not version.isdigit():
        # The API server does not report this as BadRequest.
        raise ApiError(f'strconv.ParseUint: parsing "{version}": invalid syntax', reason="")


def _take_namespace(resource: ApiResource, meta: Obj, target: Target) -> None:
    if not resource.namespaced:
        meta.pop("namespace", None)
        return
    meta["namespace"] = meta.get("namespace") or target.namespace
    if meta["namespace"] != target.namespace:
        raise BadRequest(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
