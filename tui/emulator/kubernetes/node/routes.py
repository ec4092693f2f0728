"""Routes of nodes and pods beyond stored objects: log, exec, attach, usage."""

from __future__ import annotations

import asyncio

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket

from tui.emulator.kubernetes.errors import ApiError, ApiNotFound, BadRequest
from tui.emulator.kubernetes.node.build import ClusterNodes
from tui.emulator.kubernetes.node.serving import usage
from tui.emulator.kubernetes.node.serving.exec_socket import place_of, run_attach, run_exec
from tui.emulator.kubernetes.node.serving.logs import LogOptions, read_log
from tui.emulator.kubernetes.resources import NODES, PODS, Obj

METRICS_GROUP, METRICS_VERSION = "metrics.k8s.io", "v1beta1"
_POD = "/api/v1/namespaces/{namespace}/pods/{name}"
_METRICS = f"/apis/{METRICS_GROUP}/{METRICS_VERSION}"
_SPDY = (
    "only WebSockets are supported (v5.channel.k8s.io, v4.channel.k8s.io), not SPDY: use kubectl 1.31 or "
    "newer, without KUBECTL_REMOTE_COMMAND_WEBSOCKETS=false"
)


class NodeRoutes:
    """Handlers; the application in front of them has authenticated the client."""

    def __init__(self, parts: ClusterNodes) -> None:
        self._kubelet, self._objects = parts.kubelet, parts.kubelet.services.objects

    def routes(self) -> list[BaseRoute]:
        return [
            Route(f"{_POD}/log", self.log, methods=["GET"]),
            WebSocketRoute(f"{_POD}/exec", self.exec),
            WebSocketRoute(f"{_POD}/attach", self.attach),
            Route(f"{_POD}/exec", self.no_spdy, methods=["GET", "POST"]),
            Route(f"{_POD}/attach", self.no_spdy, methods=["GET", "POST"]),
            Route(f"{_METRICS}/nodes", self.nodes, methods=["GET"]),
            Route(f"{_METRICS}/nodes/{{name}}", self.node, methods=["GET"]),
            Route(f"{_METRICS}/pods", self.pods, methods=["GET"]),
            Route(f"{_METRICS}/namespaces/{{namespace}}/pods", self.pods, methods=["GET"]),
            Route(f"{_METRICS}/namespaces/{{namespace}}/pods/{{name}}", self.pod, methods=["GET"]),
            Route("/api/v1/nodes/{name}/proxy/metrics/cadvisor", self.cadvisor, methods=["GET"]),
        ]

    def _pod(self, request: Request | WebSocket) -> Obj:
        path = request.path_params
        return self._objects.get(PODS, path["namespace"], path["name"])

    async def log(self, request: Request) -> Response:
        pod = self._pod(request)
        options = LogOptions.of(request.query_params, pod["metadata"]["name"])
        lines = read_log(self._kubelet, pod, options)
        if not pod["spec"].get("nodeName"):
            # The pod has no kubelet yet.
            return Response(status_code=204)
        return StreamingResponse(lines, media_type="text/plain")

    async def exec(self, socket: WebSocket) -> None:
        try:
            await run_exec(socket, self._kubelet, self._pod(socket))
        except ApiError as error:
            await socket.send_denial_response(JSONResponse(error.status(), error.code))

    async def attach(self, socket: WebSocket) -> None:
        try:
            pod = self._pod(socket)
            options = LogOptions(socket.query_params.get("container", ""), follow=True, tail=0)
            await run_attach(socket, self._kubelet, pod, read_log(self._kubelet, pod, options))
        except ApiError as error:
            await socket.send_denial_response(JSONResponse(error.status(), error.code))

    async def no_spdy(self, request: Request) -> Response:
        # kubectl falls back to SPDY after a refused WebSocket: repeat the refusal.
        container = request.query_params.get("container", "")
        await asyncio.to_thread(place_of, self._kubelet, self._pod(request), container)
        raise BadRequest(_SPDY)

    async def nodes(self, _request: Request) -> Response:
        items = [usage.node_metrics(self._kubelet, node) for node in self._objects.list(NODES)]
        return JSONResponse(_list("NodeMetricsList", items))

    async def node(self, request: Request) -> Response:
        return JSONResponse(usage.node_metrics(self._kubelet, self._node(request)))

    async def pods(self, request: Request) -> Response:
        labels = _labels(request.query_params.get("labelSelector", ""))
        namespace = request.path_params.get("namespace", "")
        pods = self._objects.list(PODS, namespace, labels)
        items = [metrics for pod in pods if (metrics := usage.pod_metrics(self._kubelet, pod)) is not None]
        return JSONResponse(_list("PodMetricsList", items))

    async def pod(self, request: Request) -> Response:
        pod = self._pod(request)
        metrics = usage.pod_metrics(self._kubelet, pod)
        if metrics is None:
            where = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
            raise ApiNotFound(f'podmetrics.metrics.k8s.io "{where}" not found')
        return JSONResponse(metrics)

    async def cadvisor(self, request: Request) -> Response:
        name = self._node(request)["metadata"]["name"]
        return PlainTextResponse(
            usage.prometheus(self._kubelet, name), media_type="text/plain; version=0.0.4"
        )

    def _node(self, request: Request) -> Obj:
        return self._objects.get(NODES, "", request.path_params["name"])


def _list(kind: str, items: list[Obj]) -> Obj:
    return {"kind": kind, "apiVersion": f"{METRICS_GROUP}/{METRICS_VERSION}", "metadata": {}, "items": items}


def _labels(selector: str) -> dict[str, str] | None:
    """Parse a selector of equalities. Raises BadRequest for other selectors."""
    labels = {}
    for part in filter(None, selector.split(",")):
        key, equals, value = part.replace("==", "=").partition("=")
        if not equals or key.endswith("!"):
            raise BadRequest(f"unable to parse requirement: {part!r}: only KEY=VALUE is served for metrics")
        labels[key.strip()] = value.strip()
    return labels or None
