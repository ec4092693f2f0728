"""The API's ASGI application."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from tui.emulator.kubernetes.api import openapi_protobuf
from tui.emulator.kubernetes.api.checks.access import REVIEWS, AccessRules
from tui.emulator.kubernetes.api.checks.faults import ClusterApiFaults
from tui.emulator.kubernetes.api.checks.gate import Gate, error_response
from tui.emulator.kubernetes.api.discovery import Discovery
from tui.emulator.kubernetes.api.forms import encode
from tui.emulator.kubernetes.api.older_kueue import OlderKueue
from tui.emulator.kubernetes.api.openapi import OpenApi
from tui.emulator.kubernetes.api.read import ObjectReader, json_response
from tui.emulator.kubernetes.api.request import ACCEPTED, Target, is_dry_run, read_object, target_of
from tui.emulator.kubernetes.api.subresources import evict, pending_workloads
from tui.emulator.kubernetes.api.writing.scale import Scales
from tui.emulator.kubernetes.api.writing.write import ObjectWriter
from tui.emulator.kubernetes.config import KubernetesConfig
from tui.emulator.kubernetes.errors import ApiError, ApiNotFound, MethodNotAllowed, NotAcceptable
from tui.emulator.kubernetes.objects import Objects
from tui.emulator.kubernetes.resources import ApiResource, Obj

VERSION = {
    "major": "1", "minor": "32", "gitVersion": "v1.32.0+vxtui", "gitCommit": "", "gitTreeState": "clean",
    "buildDate": "2024-12-11T00:00:00Z", "goVersion": "", "compiler": "", "platform": "linux/amd64",
}  # fmt: skip
_HEALTH = ("/healthz", "/livez", "/readyz")
_METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]


class Api:
    """Serves the objects to clients with `token`. `routes` take precedence and pass the same checks."""

    def __init__(
        self,
        objects: Objects,
        config: KubernetesConfig,
        token: str,
        *,
        faults: ClusterApiFaults,
        routes: Sequence[BaseRoute] = (),
    ) -> None:
        self._objects, self._faults = objects, faults
        self._access = AccessRules(lambda: [*config.denied, *faults.denied()], objects.resources)
        self._reader = ObjectReader(objects, config.bookmark_seconds)
        self._writer = ObjectWriter(objects)
        self._scales = Scales(objects, self._writer)
        self._discovery, self._openapi = Discovery(objects.resources), OpenApi(objects.resources)
        self._by_path = {
            (resource.group, resource.version, resource.plural): resource for resource in objects.resources
        }
        self._token, self._routes = token, routes

    def app(self) -> Any:
        """Return the ASGI application."""
        routes = [
            *(Route(path, _healthy) for path in (*_HEALTH, *(f"{prefix}/{{check}}" for prefix in _HEALTH))),
            # kr8s requests the path with a slash.
            *(Route(path, _version) for path in ("/version", "/version/")),
            *self._routes,
            Route("/{path:path}", self._answer, methods=_METHODS),
        ]
        inner = Starlette(routes=routes, exception_handlers={ApiError: _refused, Exception: _failed})
        return Gate(OlderKueue(inner), self._token, self._access, self._faults)

    def end_watches(self) -> None:
        """End every watch before the server stops."""
        self._reader.end_watches()

    async def _answer(self, request: Request) -> Response:
        target = target_of(request.method, request.url.path, request.query_params)
        if not target.plural:
            return self._answer_discovery(request)
        if (target.group, target.plural) in REVIEWS:
            if request.method != "POST":
                raise MethodNotAllowed
            review = await read_object(request)
            answer = self._access.review(target.plural, review)
            return json_response(encode(answer), 201)
        if target.group == "visibility.kueue.x-k8s.io" and target.subresource == "pendingworkloads":
            return json_response(encode(pending_workloads(self._objects, target, request.query_params)))
        resource = self._by_path.get((target.group, target.version, target.plural))
        if resource is None:
            return _unknown_path(target.group)
        if target.subresource:
            return await self._answer_subresource(request, resource, target)
        if target.verb not in resource.verbs:
            raise MethodNotAllowed
        if target.verb == "watch":
            fault = request.scope.get("fault")
            cut = fault.after if fault is not None and fault.kind == "cut" else 0.0
            return self._reader.watch(request, resource, target, cut)
        reads = {"get": self._reader.get, "list": self._reader.list}
        if target.verb in reads:
            return reads[target.verb](request, resource, target)
        writes: dict[str, Callable[[Request, ApiResource, Target], Awaitable[Response]]] = {
            "create": self._writer.create,
            "update": self._writer.update,
            "patch": self._writer.patch,
            "delete": self._writer.delete,
            "deletecollection": self._writer.delete_all,
        }
        names_object = bool(target.name)
        if names_object == (target.verb in {"create", "deletecollection"}):
            raise MethodNotAllowed
        return await writes[target.verb](request, resource, target)

    async def _answer_subresource(self, request: Request, resource: ApiResource, target: Target) -> Response:
        if resource.plural == "pods" and target.subresource == "eviction" and target.verb == "create":
            eviction, dry_run = await read_object(request), is_dry_run(request.query_params)
            return json_response(encode(evict(self._objects, target, eviction, dry_run=dry_run)), 201)
        if target.subresource == "finalize" and resource.plural == "namespaces" and target.verb == "update":
            return await self._writer.update(request, resource, target)
        if target.subresource not in resource.subresources:
            if resource.custom and target.name:
                raise ApiNotFound.of(resource, target.name)
            raise ApiNotFound.unserved()
        if target.subresource == "scale":
            return await self._scales.answer(request, resource, target)
        if target.verb == "get":
            return self._reader.get(request, resource, target)
        if target.verb not in {"update", "patch"}:
            raise MethodNotAllowed
        return await (self._writer.update if target.verb == "update" else self._writer.patch)(
            request, resource, target
        )

    def _answer_openapi(self, parts: list[str], accept: str) -> Response:
        if parts == ["v3"]:
            # The body is JSON, but the API server declares it as text.
            return Response(encode(self._openapi.index()), media_type="text/plain")
        if parts == ["v2"] and any(media in accept for media in openapi_protobuf.ACCEPTED):
            return Response(self._openapi.swagger_protobuf, media_type=openapi_protobuf.MEDIA_TYPE)
        if parts == ["v2"]:
            return json_response(encode(self._openapi.swagger))
        document = self._openapi.document("/".join(parts[1:])) if parts[:1] == ["v3"] else None
        return Response(status_code=404) if document is None else json_response(document)

    def _answer_discovery(self, request: Request) -> Response:
        parts = [part for part in request.url.path.split("/") if part]
        if request.method not in {"GET", "HEAD"}:
            raise MethodNotAllowed
        answer: Obj | None = None
        discovery = self._discovery
        if parts in (["api"], ["apis"]):
            version = _aggregated(request.headers.get("accept", ""))
            if version:
                media = f"application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"
                body = encode(discovery.aggregated(version, core=parts == ["api"]))
                return Response(body, media_type=media)
            answer = discovery.versions() if parts == ["api"] else discovery.groups()
        elif parts[:1] == ["api"] and len(parts) == 2:
            answer = discovery.resources("", parts[1])
        elif parts[:1] == ["apis"] and len(parts) == 2:
            answer = discovery.group(parts[1])
        elif parts[:1] == ["apis"] and len(parts) == 3:
            answer = discovery.resources(parts[1], parts[2])
        elif parts[:1] == ["openapi"]:
            return self._answer_openapi(parts[1:], request.headers.get("accept", ""))
        elif not parts:
            answer = {"paths": ["/api", "/apis", "/healthz", "/openapi/v2", "/openapi/v3", "/version"]}
        if answer is None:
            return _unknown_path(
                parts[1] if parts[:1] == ["apis"] and len(parts) > 1 else "" if "api" in parts[:1] else None
            )
        return json_response(encode(answer))


def _aggregated(accept: str) -> str:
    """Return the version of aggregated discovery that the client prefers, or "" if there is none."""
    for part in accept.split(","):
        media, *parameters = (word.strip() for word in part.split(";"))
        options = dict(word.partition("=")[::2] for word in parameters)
        is_aggregated = (
            options.get("g") == "apidiscovery.k8s.io" and options.get("as") == "APIGroupDiscoveryList"
        )
        if media == "application/json" and is_aggregated and options.get("v") in {"v2", "v2beta1"}:
            return options["v"]
    if accept and "json" not in accept and "*" not in accept:
        raise NotAcceptable(f"only the following media types are accepted: {ACCEPTED}")
    return ""


def _unknown_path(group: str | None) -> Response:
    """Return the reply for an unknown path: a `Status` for built-in groups, otherwise plain text."""
    built_in = group in {"", "apps", "autoscaling", "batch", "policy"}
    if group is not None and (built_in or (group.endswith(".k8s.io") and not group.endswith(".x-k8s.io"))):
        raise ApiNotFound.unserved()
    return PlainTextResponse("404 page not found\n", 404)


async def _version(_request: Request) -> Response:
    return json_response(json.dumps(VERSION).encode())


async def _healthy(_request: Request) -> Response:
    return PlainTextResponse("ok")


async def _failed(_request: Request, error: Exception) -> Response:
    """Reply to an internal error of the emulator, which the HTTP server logs."""
    return error_response(ApiError(f"Internal error occurred: {type(error).__name__}: {error}"))


async def _refused(_request: Request, error: Exception) -> Response:
    assert isinstance(error, ApiError)
    return error_response(error)
