"""The subresource `scale` of the jobs of the Training Operator."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from tui.emulator.kubernetes.api.forms import encode
from tui.emulator.kubernetes.api.read import json_response
from tui.emulator.kubernetes.api.request import Target, media_type, parse_json, read_body, read_object
from tui.emulator.kubernetes.api.writing.patches import json_patch, merge_patch
from tui.emulator.kubernetes.api.writing.write import Writer
from tui.emulator.kubernetes.errors import BadRequest, Cause, Invalid, UnsupportedMediaType
from tui.emulator.kubernetes.objects import Objects
from tui.emulator.kubernetes.resources import REPLICA_SPECS, Resource

Obj = dict[str, Any]


class Scales:
    """Answers GET, PUT and PATCH of a scale."""

    def __init__(self, objects: Objects, writer: Writer) -> None:
        self._objects, self._writer = objects, writer

    async def answer(self, request: Request, resource: Resource, target: Target) -> Response:
        obj = self._objects.get(resource, target.namespace, target.name)
        if request.method in {"GET", "HEAD"}:
            return json_response(encode(_scale(resource, obj)))
        wanted = await self._wanted(request, _scale(resource, obj))
        replicas = (wanted.get("spec") or {}).get("replicas", 0)
        if not isinstance(replicas, int) or isinstance(replicas, bool) or replicas < 0:
            why = f'Invalid value: "{replicas}": must be greater than or equal to 0'
            raise Invalid.of(resource, target.name, [Cause("spec.replicas", why)])
        version = (wanted.get("metadata") or {}).get("resourceVersion")

        def edit(new: Obj) -> None:
            if version:
                new["metadata"]["resourceVersion"] = version
            groups = new["spec"].setdefault(REPLICA_SPECS[resource.kind], {})
            if "Worker" not in groups:
                raise BadRequest(f"{resource.kind} {target.name} has no workers to scale")
            groups["Worker"]["replicas"] = replicas

        changed = await self._writer.change(request, resource, target, edit)
        return json_response(encode(_scale(resource, changed)))

    async def _wanted(self, request: Request, scale: Obj) -> Obj:
        if request.method == "PUT":
            return await read_object(request)
        patch, kind = parse_json(await read_body(request)), media_type(request)
        if kind == "application/json-patch+json":
            found = json_patch(scale, patch)
        elif kind in {"application/merge-patch+json", "application/strategic-merge-patch+json"}:
            found = merge_patch(scale, patch)
        else:
            raise UnsupportedMediaType(f"a scale takes a JSON patch or a merge patch, not {kind}")
        if not isinstance(found, dict):
            raise BadRequest("the patch leaves no object")
        return found


def _scale(resource: Resource, obj: Obj) -> Obj:
    meta = obj["metadata"]
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    workers = ((obj.get("spec") or {}).get(REPLICA_SPECS[resource.kind]) or {}).get("Worker") or {}
    state = ((obj.get("status") or {}).get("replicaStatuses") or {}).get("Worker") or {}
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {key: meta[key] for key in kept if key in meta},
        "spec": {"replicas": workers.get("replicas", 1 if workers else 0)},
        "status": {"replicas": state.get("active") or 0, "selector": state.get("selector") or ""},
    }
