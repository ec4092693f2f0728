"""Create, update, patch and delete."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from tui.emulator.kubernetes.api import types
from tui.emulator.kubernetes.api.forms import encode, form_of
from tui.emulator.kubernetes.api.read import json_response, selection
from tui.emulator.kubernetes.api.request import (
    Target,
    is_dry_run,
    media_type,
    parse_json,
    parse_yaml,
    read_body,
    read_object,
)
from tui.emulator.kubernetes.api.writing.apply import apply_configuration, record_update
from tui.emulator.kubernetes.api.writing.patches import json_patch, merge_patch, strategic_merge
from tui.emulator.kubernetes.errors import (
    BadRequest,
    Cause,
    Conflict,
    Invalid,
    NotFound,
    UnsupportedMediaType,
)
from tui.emulator.kubernetes.objects import Objects, Propagation, Stored
from tui.emulator.kubernetes.resources import JOBS, PODS, Resource

Obj = dict[str, Any]
_PATCHES = {
    "application/json-patch+json", "application/merge-patch+json", "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
}  # fmt: skip


class Writer:
    """Answers requests that change objects."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    async def create(self, request: Request, resource: Resource, target: Target) -> Response:
        """POST to a collection."""
        obj = await read_object(request)
        _check_type(resource, obj)
        meta = obj.setdefault("metadata", {})
        _take_namespace(resource, meta, target)
        if meta.get("resourceVersion"):
            raise BadRequest("resourceVersion should not be set on objects to be created")
        warnings = types.drop_unknown_fields(resource, obj, request.query_params)
        types.prepare_create(resource, obj)
        record_update(None, obj, self._manager(request), types.schema(resource), self._objects.now())
        created = self._objects.create(resource, obj, dry_run=is_dry_run(request.query_params))
        return self._reply(request, resource, created, 201, warnings)

    async def update(self, request: Request, resource: Resource, target: Target) -> Response:
        """PUT of an object, or of its status."""
        obj = await read_object(request)
        _check_type(resource, obj)
        meta = obj.setdefault("metadata", {})
        _take_namespace(resource, meta, target)
        if meta.setdefault("name", target.name) != target.name:
            raise BadRequest(
                f"the name of the object ({meta['name']}) does not match the name on the URL ({target.name})"
            )
        warnings = types.drop_unknown_fields(resource, obj, request.query_params)
        status = target.subresource == "status"
        old = self._objects.get(resource, target.namespace, target.name)
        if resource.custom and not meta.get("resourceVersion"):
            why = "Invalid value: 0: must be specified for an update"
            raise Invalid.of(resource, target.name, [Cause("metadata.resourceVersion", why)])
        self._record(old, obj, request, resource, status=status)
        dry_run = is_dry_run(request.query_params)
        updated = self._objects.update(resource, obj, status=status, dry_run=dry_run)
        return self._reply(request, resource, updated, 200, warnings)

    async def patch(self, request: Request, resource: Resource, target: Target) -> Response:
        """PATCH of an object, or of its status; an apply patch may create it."""
        kind, body, query = media_type(request), await read_body(request), request.query_params
        if kind not in _PATCHES or ("strategic" in kind and resource.custom):
            allowed = sorted(one for one in _PATCHES if not (resource.custom and "strategic" in one))
            raise UnsupportedMediaType(
                "the body of the request was in an unknown format - accepted media types include: "
                + ", ".join(allowed)
            )
        patch = parse_yaml(body) if "yaml" in kind else parse_json(body)
        status, dry_run = target.subresource == "status", is_dry_run(query)
        if kind == "application/apply-patch+yaml":
            return self._apply(request, resource, target, patch)
        if not isinstance(patch, list if "json-patch" in kind else dict):
            raise BadRequest("the body of the request is no patch of this type")
        old = self._objects.get(resource, target.namespace, target.name)
        if kind == "application/json-patch+json":
            new = json_patch(old, patch)
        elif kind == "application/merge-patch+json":
            new = merge_patch(old, patch)
        else:
            new = strategic_merge(old, patch, types.merge_key(resource))
        if not isinstance(new, dict) or not isinstance(new.get("metadata"), dict):
            raise BadRequest("the patch leaves no object with metadata")
        if new["metadata"].get("name") != target.name:
            raise BadRequest("the name of an object can't be changed")
        warnings = types.drop_unknown_fields(resource, new, query)
        new = deepcopy(new)
        self._record(old, new, request, resource, status=status)
        updated = self._objects.update(resource, new, status=status, dry_run=dry_run)
        return self._reply(request, resource, updated, 200, warnings)

    async def delete(self, request: Request, resource: Resource, target: Target) -> Response:
        """DELETE of one object."""
        options = await _delete_options(request)
        old = self._objects.stored(resource, target.namespace, target.name)
        deleted = self._delete(resource, old, options, request)
        present = self._present(resource, target.namespace, target.name)
        if present or resource is PODS:
            return self._reply(request, resource, deleted, 200, [])
        details = {"name": target.name, "kind": resource.plural, "uid": deleted["metadata"]["uid"]}
        details |= {"group": resource.group} if resource.group else {}
        return json_response(encode({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details,
        }))  # fmt: skip

    async def delete_all(self, request: Request, resource: Resource, target: Target) -> Response:
        """DELETE of a collection."""
        options, query = await _delete_options(request), request.query_params
        labels, fields = query.get("labelSelector", ""), query.get("fieldSelector", "")
        matches = selection(labels, fields, resource)
        found = self._objects.all_stored(resource, target.namespace)
        chosen = [one for one in found if matches is None or matches(one.obj)]
        items = [self._delete(resource, one, options, request) for one in chosen]
        return json_response(encode({
            "kind": resource.list_kind, "apiVersion": resource.api_version,
            "metadata": {"resourceVersion": str(self._objects.version)}, "items": items,
        }))  # fmt: skip

    async def change(
        self, request: Request, resource: Resource, target: Target, edit: Callable[[Obj], None]
    ) -> Obj:
        """Change an object on behalf of a subresource."""
        old = self._objects.get(resource, target.namespace, target.name)
        new = deepcopy(old)
        edit(new)
        self._record(old, new, request, resource, status=False)
        return self._objects.update(resource, new, dry_run=is_dry_run(request.query_params))

    def _apply(self, request: Request, resource: Resource, target: Target, applied: Any) -> Response:
        query = request.query_params
        manager = query.get("fieldManager", "")
        if not manager:
            raise BadRequest("PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is "
                             "required for apply patch")  # fmt: skip
        if not isinstance(applied, dict):
            raise BadRequest("an apply patch is an object")
        _check_type(resource, applied)
        meta = applied.setdefault("metadata", {})
        _take_namespace(resource, meta, target)
        if meta.setdefault("name", target.name) != target.name:
            raise BadRequest(f"name in object ({meta['name']}) is not that of the URL ({target.name})")
        if meta.get("managedFields"):
            raise BadRequest("metadata.managedFields must be nil")
        warnings = types.drop_unknown_fields(resource, applied, query)
        live = self._live(resource, target)
        status, force = target.subresource == "status", query.get("force") in {"true", "1"}
        merged = apply_configuration(
            resource, live, applied, manager=manager, schema=types.schema(resource),
            now=self._objects.now(), force=force, subresource=target.subresource,
        )  # fmt: skip
        dry_run = is_dry_run(query)
        if live is None:
            if status:
                raise NotFound.of(resource, target.name)
            types.prepare_create(resource, merged)
            created = self._objects.create(resource, merged, dry_run=dry_run)
            return self._reply(request, resource, created, 201, warnings)
        updated = self._objects.update(resource, merged, status=status, dry_run=dry_run)
        return self._reply(request, resource, updated, 200, warnings)

    def _live(self, resource: Resource, target: Target) -> Obj | None:
        try:
            return self._objects.get(resource, target.namespace, target.name)
        except NotFound:
            return None

    def _present(self, resource: Resource, namespace: str, name: str) -> bool:
        return self._live(resource, Target("", "", namespace=namespace, name=name)) is not None

    def _record(self, old: Obj, new: Obj, request: Request, resource: Resource, *, status: bool) -> None:
        schema = types.schema(resource)
        if "status" in resource.subresources:
            # The other half of what was sent does not count.
            half = {**(old if status else new), "metadata": new["metadata"]}
            half.pop("status", None)
            source = new if status else old
            half |= {"status": source["status"]} if "status" in source else {}
            new.clear()
            new.update(half)
        now = self._objects.now()
        subresource = "status" if status else ""
        record_update(old, new, self._manager(request), schema, now, subresource=subresource)

    def _manager(self, request: Request) -> str:
        given = request.query_params.get("fieldManager", "")
        return given or request.headers.get("user-agent", "unknown").partition("/")[0][:128]

    def _delete(self, resource: Resource, stored: Stored, options: Obj, request: Request) -> Obj:
        meta = stored.obj["metadata"]
        conditions = options.get("preconditions") or {}
        wanted = conditions.get("resourceVersion")
        if wanted and wanted != meta["resourceVersion"]:
            why = (
                f"Precondition failed: ResourceVersion in precondition: {wanted}, ResourceVersion in object "
            )
            raise Conflict.of(resource, meta["name"], f"{why}meta: {meta['resourceVersion']}")
        return self._objects.delete(
            resource, str(meta.get("namespace") or ""), meta["name"],
            propagation=_propagation(options, resource), grace=options.get("gracePeriodSeconds"),
            uid=str(conditions.get("uid") or ""),
            dry_run=is_dry_run(request.query_params) or options.get("dryRun") == ["All"],
        )  # fmt: skip

    def _reply(
        self, request: Request, resource: Resource, obj: Obj, code: int, warnings: list[str]
    ) -> Response:
        stored = Stored(obj, encode(obj), self._objects.version)
        reply = json_response(form_of(request.headers.get("accept", "")).one(resource, stored), code)
        for warning in warnings:
            escaped = warning.replace("\\", "\\\\").replace('"', '\\"')
            reply.headers.append("Warning", f'299 - "{escaped}"')
        return reply


def _check_type(resource: Resource, obj: Obj) -> None:
    for field, wanted in (("apiVersion", resource.api_version), ("kind", resource.kind)):
        given = obj.setdefault(field, wanted)
        if given != wanted:
            raise BadRequest(
                f"{field} of the object provided ({given}) does not match the expected one ({wanted})"
            )
    if not isinstance(obj.get("metadata", {}), dict):
        raise BadRequest("metadata is no object")


def _take_namespace(resource: Resource, meta: Obj, target: Target) -> None:
    if not resource.namespaced:
        meta.pop("namespace", None)
        return
    meta["namespace"] = meta.get("namespace") or target.namespace
    if meta["namespace"] != target.namespace:
        raise BadRequest(
            "the namespace of the provided object does not match the namespace sent on the request "
            f"({meta['namespace']} is not {target.namespace})"
        )


async def _delete_options(request: Request) -> Obj:
    query = request.query_params
    options = await read_object(request, empty=True)
    found = {**_from_query(query), **{key: value for key, value in options.items() if value is not None}}
    grace = found.get("gracePeriodSeconds")
    if grace is not None and (not isinstance(grace, int) or grace < 0):
        raise BadRequest(f"gracePeriodSeconds: {grace!r} is no number of seconds")
    return found


def _from_query(query: Mapping[str, str]) -> Obj:
    found: Obj = {}
    if query.get("gracePeriodSeconds", "").isdigit():
        found["gracePeriodSeconds"] = int(query["gracePeriodSeconds"])
    if query.get("propagationPolicy"):
        found["propagationPolicy"] = query["propagationPolicy"]
    if query.get("orphanDependents"):
        found["orphanDependents"] = query["orphanDependents"] == "true"
    return found


def _propagation(options: Obj, resource: Resource) -> Propagation:
    given = options.get("propagationPolicy")
    if given is None:
        if "orphanDependents" in options:
            return "Orphan" if options["orphanDependents"] else "Background"
        # For the sake of old clients, the pods of a Job stay unless they are named.
        return "Orphan" if resource == JOBS else "Background"
    known: dict[str, Propagation] = {
        "Background": "Background", "Foreground": "Foreground", "Orphan": "Orphan"
    }  # fmt: skip
    if given not in known:
        raise BadRequest(
            f'DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: Unsupported value: "{given}": '
            'supported values: "Foreground", "Background", "Orphan", "nil"'
        )
    return known[given]
