"""The subresource `scale` of the Training Operator's jobs."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from tui.emulator.kubernetes.api.forms import encode
from tui.emulator.kubernetes.api.read import json_response
from tui.emulator.kubernetes.api.request import Target, media_type, read_body, read_object
from tui.emulator.kubernetes.api.writing.patches import json_patch, merge_patch, read_patch
from tui.emulator.kubernetes.api.writing.write import ObjectWriter
from tui.emulator.kubernetes.errors import ApiError, FieldCause, Invalid, UnsupportedMediaType
from tui.emulator.kubernetes.objects import Objects
from tui.emulator.kubernetes.resources import REPLICA_SPECS, ApiResource, Obj


class Scales:
    """Answers GET, PUT and PATCH of `scale`."""

    def __init__(self, objects: Objects, writer: ObjectWriter) -> None:
        self._objects, self._writer = objects, writer

    async def answer(self, request: Request, resource: ApiResource, target: Target) -> Response:
        obj = self._objects.get(resource, target.namespace, target.name)
        path = f".spec.{REPLICA_SPECS[resource.kind]}.Worker.replicas"
        if request.method in {"GET", "HEAD"}:
            if "Worker" not in ((obj.get("spec") or {}).get(REPLICA_SPECS[resource.kind]) or {}):
                why = f'the spec replicas field "{path}" does not exist'
                raise ApiError(f"Internal error occurred: {why}", details={"causes": [{"message": why}]})
            return json_response(encode(_scale(resource, obj)))
        scale = await self._requested(request, _scale(resource, obj))
        replicas = (scale.get("spec") or {}).get("replicas", 0)
        if not isinstance(replicas, int) or isinstance(replicas, bool):
            raise Invalid.of_patch(f"spec.replicas must be of type integer, not {replicas!r}")
        if replicas < 0:
            why = f"Invalid value: {replicas}: should be a non-negative integer"
            raise Invalid.of(resource, target.name, [FieldCause(path, why)])
        version = (scale.get("metadata") or {}).get("resourceVersion")

        def edit(new: Obj) -> None:
            if version:
                new["metadata"]["resourceVersion"] = version
            groups = new["spec"].setdefault(REPLICA_SPECS[resource.kind], {})
            groups.setdefault("Worker", {})["replicas"] = replicas

        changed = await self._writer.change(request, resource, target, edit)
        return json_response(encode(_scale(resource, changed)))

    async def _requested(self, request: Request, scale: Obj) -> Obj:
        if request.method == "PUT":
            return await read_object(request)
        kind = media_type(request)
        if kind not in {"application/json-patch+json", "application/merge-patch+json"}:
            raise UnsupportedMediaType(
                "the body of the request was in an unknown format - accepted media types include: "
                "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"
            )
        patch = read_patch(kind, await read_body(request))
        patched = json_patch(scale, patch) if "json-patch" in kind else merge_patch(scale, patch)
        return patched if isinstance(patched, dict) else {}


def _scale(resource: ApiResource, obj: Obj) -> Obj:
    meta = obj["metadata"]
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    workers = ((obj.get("spec") or {}).get(REPLICA_SPECS[resource.kind]) or {}).get("Worker") or {}
    state = ((obj.get("status") or {}).get("replicaStatuses") or {}).get("Worker") or {}
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {key: meta[key] for key in kept if key in meta},
        "spec": {"replicas": workers.get("replicas", 1 if workers else 0)},
        "status": {
            "replicas": state.get("active") or 0,
            **({"selector": state["selector"]} if state.get("selector") else {}),
        },
    }
