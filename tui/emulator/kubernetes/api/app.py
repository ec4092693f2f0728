"""The API's application for clients, and the one for the verbs of this machine."""

from __future__ import annotations

import hmac
from collections.abc import Callable
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from tui.emulator.kubernetes.config import KubernetesConfig
from tui.emulator.kubernetes.errors import ApiError, Unauthorized
from tui.emulator.kubernetes.objects import Objects

VERSION = {
    "major": "1", "minor": "32", "gitVersion": "v1.32.0+vxtui", "gitCommit": "", "gitTreeState": "clean",
    "buildDate": "2024-12-11T00:00:00Z", "goVersion": "", "compiler": "", "platform": "linux/amd64",
}  # fmt: skip


class Api:
    """Serves the objects; clients need `token`."""

    def __init__(self, objects: Objects, config: KubernetesConfig, token: str) -> None:
        self.objects, self.config = objects, config
        self._token = token.encode()

    def app(self) -> Any:
        """The ASGI application for clients."""
        routes = [
            Route("/version", self._version),
            *(Route(path, self._healthy) for path in ("/healthz", "/livez", "/readyz")),
        ]
        return Starlette(routes=routes, exception_handlers={ApiError: _refused})

    def admin(self, info: Callable[[], dict[str, Any]]) -> Any:
        """The ASGI application of the Unix socket."""

        async def status(_request: Request) -> Response:
            return JSONResponse(info())

        return Starlette(routes=[Route("/status", status)])

    def _authenticate(self, request: Request) -> None:
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not hmac.compare_digest(given.strip().encode(), self._token):
            raise Unauthorized("Unauthorized")

    async def _version(self, request: Request) -> Response:
        self._authenticate(request)
        return JSONResponse(VERSION)

    async def _healthy(self, _request: Request) -> Response:
        return PlainTextResponse("ok")


async def _refused(_request: Request, error: Exception) -> Response:
    assert isinstance(error, ApiError)
    return JSONResponse(error.status(), error.code, headers=error.headers)
