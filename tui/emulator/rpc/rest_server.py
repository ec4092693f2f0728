"""The emulator's RPCs over REST, for curl and for clients without gRPC over a Unix socket.

A client of this port can run programs as this user. Therefore the server listens on loopback only, requires
the token of the state directory, accepts only loopback names as host (a web page's name can resolve to
127.0.0.1), and refuses requests from a browser's page.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import logging
import os
import secrets
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Any, TypeVar
from urllib.parse import parse_qsl

from google.longrunning import operations_pb2

from tui.emulator.paths import StateDir, StateDirError
from tui.emulator.rpc.beta import json_as_beta
from tui.emulator.rpc.http_server import serve_http
from tui.emulator.rpc.loopback import host_only, is_loopback
from tui.emulator.rpc.methods import LARGE, HttpReply, Method, RawReply, WireError, internal, not_served
from tui.emulator.rpc.rest_json import plain_error, read_request, write_error, write_response
from tui.emulator.rpc.rest_routes import Route, routes_of

log = logging.getLogger(__name__)

BODY_LIMIT = 32 * 1024 * 1024
"""Maximum size in bytes of a request body, which only RPCs with a raw body use."""
MESSAGE_LIMIT = 4 * 1024 * 1024
"""Maximum size in bytes of a request body that becomes a message, as of a message over gRPC."""

T = TypeVar("T")
Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]


class RequestRefused(Exception):
    """A request that is refused before an RPC is found."""

    def __init__(self, http: HTTPStatus, status: str, message: str) -> None:
        super().__init__(message)
        self.http, self.status = http, status


@dataclass(frozen=True, slots=True)
class RestServer:
    """A listening endpoint, created by `serve_rest`."""

    url: str
    """Base address, e.g. `http://127.0.0.1:8085`."""
    close: Callable[[], Awaitable[None]]
    """A function that stops listening and ends the requests in progress."""


async def serve_rest(
    methods: Sequence[Method], state: StateDir, host: str, port: int, auth: bool = True
) -> RestServer:
    """Serve the unary `methods`. Port 0 selects a free port. Without `auth`, no token is required.

    Raises:
        StateDirError: `host` is not a loopback address, or the token can't be stored.
        OSError: the address is in use, or the server ended before it served.
    """
    listener = _listen(host, port)
    try:
        token = read_token(
            state
        )  # Create the token also without auth, because gcloud and the buckets require it.
        app = RestApp(routes_of(methods), token if auth else None)
        server = await serve_http(app, listener, "rest", ws="none")
    except BaseException:
        listener.close()
        raise
    bound = listener.getsockname()
    shown = f"[{bound[0]}]" if ":" in bound[0] else bound[0]
    return RestServer(f"http://{shown}:{bound[1]}", server.close)


def read_token(state: StateDir) -> str:
    """Return the token that clients send. The first call creates the token, readable only by this user.

    Raises StateDirError when it can't be read or written.
    """
    path = state.token
    try:
        with contextlib.suppress(FileExistsError):
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "w") as file:
                file.write(secrets.token_urlsafe(32) + "\n")
        path.chmod(0o600)
        token = path.read_text().strip()
    except OSError as error:
        raise StateDirError(f"can't store the REST token in {path}: {error.strerror}") from error
    if not token:
        raise StateDirError(f"{path} is empty; delete it and start again to create a new token")
    return token


class RestApp:
    """The ASGI application. Without a `token` it accepts every local client."""

    def __init__(self, routes: Sequence[Route], token: str | None) -> None:
        self._routes = routes
        self._token = token.encode() if token is not None else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request; the reply is always JSON."""
        if scope["type"] != "http":
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        more: dict[str, str] = {}
        try:
            self._authorize(headers)
            body = await _body(headers, receive)
            kind = headers.get("content-type", "")
            status = 200
            answer, more = await self._call(scope["method"], scope["path"], query, body, kind)
        except RequestRefused as refusal:
            status, answer = int(refusal.http), plain_error(refusal.http, refusal.status, str(refusal))
        except WireError as error:
            status, answer = write_error(error)
        except Exception:
            log.exception("%s %s failed", scope["method"], scope["path"])
            status, answer = write_error(internal())
        await _reply(send, status, answer, more, head=scope["method"] == "HEAD")

    def _authorize(self, headers: dict[str, str]) -> None:
        if not is_loopback(host_only(headers.get("host", ""))):
            raise RequestRefused(
                HTTPStatus.FORBIDDEN,
                "PERMISSION_DENIED",
                f"Host {headers.get('host', '')!r} must be a loopback name; use "
                "127.0.0.1, [::1] or localhost.",
            )
        if "origin" in headers:
            raise RequestRefused(
                HTTPStatus.FORBIDDEN,
                "PERMISSION_DENIED",
                "The emulator refuses requests from web pages.",
            )
        if self._token is None:
            return
        scheme, _, token = headers.get("authorization", "").partition(" ")
        known = hmac.compare_digest(token.strip().encode("latin-1"), self._token)
        if scheme.lower() != "bearer" or not known:
            problem = "is missing" if not token else "does not belong to this emulator"
            raise RequestRefused(
                HTTPStatus.UNAUTHORIZED,
                "UNAUTHENTICATED",
                f"The bearer token {problem}. Send `Authorization: Bearer TOKEN` with the token in the file "
                "`token` of the emulator's state directory.",
            )

    async def _call(
        self, verb: str, path: str, query: list[tuple[str, str]], body: bytes, content_type: str
    ) -> tuple[bytes, dict[str, str]]:
        """Return the reply's body and its additional headers."""
        for route in self._routes:
            match = route.path.fullmatch(path) if route.http_method == verb else None
            if match is None:
                continue
            method = route.method
            assert method.unary is not None
            request = method.request()
            if method.raw:
                read_request(request, match.groupdict(), query, "", b"")
                sent = getattr(request, method.raw)
                sent.content_type, sent.data = content_type, body
            else:
                if len(body) > MESSAGE_LIMIT:
                    raise _too_large(MESSAGE_LIMIT)
                await _converted(
                    len(body), partial(read_request, request, match.groupdict(), query, route.body, body)
                )
            response: Any = await method.unary(request)
            if isinstance(response, RawReply):
                return response.data, {}
            if isinstance(response, HttpReply):
                return response.body.data, {"content-type": response.body.content_type, **response.headers}
            integer_enums = any(name == "$alt" and "enum-encoding=int" in value for name, value in query)
            writing = partial(write_response, response, integer_enums=integer_enums)
            answer = await _converted(response.ByteSize(), writing)
            is_beta = path.startswith("/v1beta1/") and isinstance(response, operations_pb2.Operation)
            return (json_as_beta(answer) if is_beta else answer), {}
        allowed = sorted({r.http_method for r in self._routes if r.path.fullmatch(path)})
        if allowed and ":" not in path.rpartition("/")[2]:
            raise RequestRefused(
                HTTPStatus.METHOD_NOT_ALLOWED,
                "UNIMPLEMENTED",
                f"{path} takes {', '.join(allowed)}, not {verb}.",
            )
        # 404 would mean that the resource is missing: the SDK would then try to create, e.g., a metadata
        # store.
        raise not_served(f"{verb} {path}", [route.method for route in self._routes])


async def _converted(size: int, convert: Callable[[], T]) -> T:
    """Convert a message of this many bytes; a large one in a thread, as it takes seconds."""
    return convert() if size < LARGE else await asyncio.to_thread(convert)


async def _body(headers: dict[str, str], receive: Receive) -> bytes:
    if headers.get("content-length", "0").isdigit() and int(headers.get("content-length", "0")) > BODY_LIMIT:
        raise _too_large(BODY_LIMIT)
    if headers.get("content-encoding", "identity") != "identity":
        raise RequestRefused(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "INVALID_ARGUMENT", "Send the body without Content-Encoding."
        )
    parts, size = [], 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise RequestRefused(HTTPStatus.BAD_REQUEST, "CANCELLED", "The client has disconnected.")
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > BODY_LIMIT:
            raise _too_large(BODY_LIMIT)
        if not message.get("more_body"):
            return b"".join(parts)


def _too_large(limit: int) -> RequestRefused:
    return RequestRefused(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        "INVALID_ARGUMENT",
        f"Request payload size exceeds the limit: {limit} bytes.",
    )


async def _reply(send: Send, status: int, body: bytes, more: Mapping[str, str], *, head: bool) -> None:
    usual = {
        "content-type": "application/json; charset=UTF-8",
        "content-length": str(len(body)),
        "cache-control": "private",
        "x-content-type-options": "nosniff",
    }
    headers = [(name.lower().encode(), value.encode("latin-1")) for name, value in {**usual, **more}.items()]
    if status == HTTPStatus.UNAUTHORIZED:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if head else body})


def _listen(host: str, port: int) -> socket.socket:
    if not is_loopback(host):
        raise StateDirError(
            f"REST is served on a loopback address only (127.0.0.1, ::1, localhost), not on {host}. A client "
            "of the emulator can run any program as you; reach it from elsewhere through `ssh -L`"
        )
    address = "127.0.0.1" if host.lower() == "localhost" else host
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address, port))
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        raise OSError(error.errno, f"can't listen on {host}:{port}: {error.strerror}") from error
    return listener
