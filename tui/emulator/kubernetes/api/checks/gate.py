"""Middleware that checks authentication, access and faults."""

from __future__ import annotations

import asyncio
import hmac
from dataclasses import replace

from starlette.datastructures import Headers, QueryParams
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tui.emulator.kubernetes.api.checks.access import AccessRules
from tui.emulator.kubernetes.api.checks.faults import ClusterApiFaults
from tui.emulator.kubernetes.api.forms import encode
from tui.emulator.kubernetes.api.request import target_of
from tui.emulator.kubernetes.errors import ApiError, ApiExpired, Forbidden, Unauthorized

_OPEN = ("/healthz", "/livez", "/readyz", "/version")
"""Paths that need no token."""
_LOOPBACK = {"127.0.0.1", "localhost", "[::1]", "kubernetes", "kubernetes.default", "kubernetes.default.svc"}


class Gate:
    """ASGI middleware in front of `inner`."""

    def __init__(self, inner: ASGIApp, token: str, access: AccessRules, faults: ClusterApiFaults) -> None:
        self._inner, self._token = inner, token.encode()
        self._access, self._faults = access, faults

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check one request and pass it on."""
        if scope["type"] not in {"http", "websocket"}:
            return
        # A GET opens a WebSocket.
        method = scope.get("method", "GET")
        # The API server treats `/version/` as `/version`.
        scope["path"] = scope["path"].rstrip("/") or "/"
        target = target_of(method, scope["path"], QueryParams(scope["query_string"]))
        try:
            fault = self._faults.take(target)
            if fault is not None and fault.delay:
                await asyncio.sleep(fault.delay)
            if not target.path.startswith(_OPEN):
                self._authenticate(Headers(scope=scope))
                self._access.check(target)
                if scope["type"] == "websocket":
                    # Running a program needs more than read access, as in Kubernetes since 1.35.
                    self._access.check(replace(target, verb="create"))
            if fault is not None and fault.kind == "error":
                raise fault.error()
            if fault is not None and fault.kind == "expired":
                raise ApiExpired("too old resource version: the history was compacted")
        except ApiError as error:
            await _refuse(error, scope, receive, send)
            return
        scope["fault"] = fault
        if fault is not None and fault.kind == "lost":
            await self._inner(scope, receive, _discard)
            # The reply is incomplete, so the server closes the connection.
            await send({"type": "http.response.start", "status": 500, "headers": [(b"content-length", b"1")]})
            return
        await self._inner(scope, receive, send)

    def _authenticate(self, headers: Headers) -> None:
        """Check the token. Raises Unauthorized, Forbidden."""
        host = headers.get("host", "").rpartition(":")
        name = host[0] if host[1] and host[2].isdigit() else headers.get("host", "")
        origin = headers.get("origin")
        if name not in _LOOPBACK or origin not in (None, f"https://{headers.get('host')}"):
            # Web pages reach loopback addresses too. Kubernetes' Python client names the server itself.
            raise Forbidden("requests from web pages or for another host are refused")
        scheme, _, credentials = headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not hmac.compare_digest(credentials.strip().encode(), self._token):
            raise Unauthorized("Unauthorized")


async def _discard(_message: Message) -> None:
    """Replace `send` and discard the reply."""


async def _refuse(error: ApiError, scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "websocket":
        if "websocket.http.response" in scope.get("extensions", {}):
            body = encode(error.status())
            headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
            start = {"type": "websocket.http.response.start", "status": error.code, "headers": headers}
            await receive()
            await send(start)
            await send({"type": "websocket.http.response.body", "body": body})
            return
        await receive()
        await send({"type": "websocket.close", "code": 1008, "reason": error.reason})
        return
    await error_response(error)(scope, receive, send)


def error_response(error: ApiError) -> Response:
    """Return the reply for an error."""
    headers = dict(error.headers)
    if error.code == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return Response(encode(error.status()), error.code, headers, media_type="application/json")
