"""The connection to one API server, for every call, stream and websocket to a cluster.

The connection handles credentials, timeouts, retries and error messages. A call is repeated if the server
reports that it did not act (429, 503 with Retry-After), and a read is also repeated after a lost reply.
The import is slow: import this module late, in a thread.
"""

from __future__ import annotations

import asyncio
import json
import random
import socket
import time
import urllib.request
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit

import httpx
import httpx_ws

from tui.backends.errors import (
    BackendError,
    InvalidRequest,
    ReplyTooLarge,
    Unauthenticated,
    Unavailable,
    unexpected_reply,
)
from tui.backends.kubernetes.errors import from_exception, from_reply
from tui.backends.kubernetes.fields import mapping
from tui.backends.kubernetes.login.cluster import Cluster, Login
from tui.backends.reply_limit import MOST_BYTES, MOST_TEXT, MOST_VALUES, body_of, decompressed
from tui.domain.document.decoding import decode_json

READ = 10.0
"""Timeout in seconds for one object, or for one page of a list."""
CHANGE = 15.0
CREATE = 30.0
"""Timeout in seconds of a create request. Admission webhooks may take up to 30 s, and the request is not sent
twice."""
CONNECT = 5.0
FIRST_DELAY, MOST_DELAY = 0.25, 8.0
LONGEST_WAIT = 20.0
"""Maximum wait in seconds that the server may request."""
PATIENCE = {False: 30.0, True: 3.0}
"""Seconds for which a failing read is repeated, by whether the cluster runs on this machine.

The client obeys waits that the server requests for up to `LONGEST_WAIT` seconds in total.
"""
_REFUSED = frozenset({429, 503})
"""Status codes that guarantee that the server has not acted."""
_READ_AGAIN = frozenset({500, 502, 504})
_KEEP_ALIVE = [
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 15),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
]
"""Socket options that find a lost server within 30 s, because a watch may be silent for minutes."""

PAGE = 1000
"""Page size of a list."""
MERGE_PATCH = "application/merge-patch+json"


def backoff(attempt: int, least: float | None = None, most: float = MOST_DELAY) -> float:
    """Return the seconds before attempt 1, 2, …: exponential backoff with full jitter, never less than
    `least`."""
    return (least or 0.0) + random.uniform(0, min(most, FIRST_DELAY * 2 ** min(attempt, 16)))


class ClusterConnection:
    """Calls to one cluster. Paths begin with `/api` or `/apis`; `action` completes "Can't …" in an error."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.closed = False
        self._session: _Session | None = None
        self._replaced: list[httpx.AsyncClient] = []
        """Clients of earlier logins, whose streams are still open."""
        self._logging_in = asyncio.Lock()

    @property
    def login(self) -> Login:
        """The login in use. Raises Unavailable until `open` is called."""
        if self._session is None:
            raise Unavailable("Not connected to the cluster.", fix="Connect first.")
        return self._session.login

    @property
    def local(self) -> bool:
        """Whether the cluster is this machine's own."""
        return self.cluster.local

    async def open(self) -> None:
        """Log in. Idempotent; a later call reads the credentials again. Raises BackendError."""
        self.closed = False
        await self._log_in(self._session)

    async def aclose(self) -> None:
        """Close the connection. Its calls and streams end with Unavailable."""
        self.closed = True
        clients, self._replaced = self._replaced, []
        if self._session is not None:
            clients.append(self._session.client)
        for client in clients:
            await client.aclose()

    # Calls

    async def request(
        self,
        method: str,
        path: str,
        *,
        action: str,
        params: Mapping[str, Any] | None = None,
        body: Any = None,
        content_type: str = "application/json",
        accept: str = "",
        within: float = READ,
        repeat: bool | None = None,
        patience: float | None = None,
    ) -> dict[str, Any]:
        """Return the reply's JSON object in the media type that `accept` names.

        `repeat` allows sending again after a lost reply; by default only reads (GET) are sent again.
        `patience` limits the repeats, in seconds.
        """
        request = _Request(method, path, params, body, content_type, within, accept)
        content = await self._content(
            request, action, method == "GET" if repeat is None else repeat, patience
        )
        try:
            reply = decode_json(content, most_values=MOST_VALUES) if content or method == "GET" else {}
        except ValueError:
            reply = None
        if not isinstance(reply, dict):
            # The traceback refers to this frame: it must not hold a large reply.
            first, content = content[:240], b""
            raise unexpected_reply(action, "a JSON object", first)
        return reply

    async def items(
        self,
        path: str,
        *,
        action: str,
        params: Mapping[str, Any] | None = None,
        accept: str = "",
        patience: float | None = None,
    ) -> list[dict[str, Any]]:
        """Return the objects of a list, read page by page. See `request`."""
        objects: list[dict[str, Any]] = []
        query = {"limit": PAGE, **(params or {})}
        while True:
            page = await self.request(
                "GET", path, action=action, params=query, accept=accept, patience=patience
            )
            objects += objects_of(page, action)
            query["continue"] = next_page(page, query.get("continue"), action)
            if not query["continue"]:
                return objects
            # Parsing a page takes long: let the event loop handle key presses in between.
            await asyncio.sleep(0)

    async def patch(
        self,
        path: str,
        body: Mapping[str, Any],
        *,
        action: str,
        content_type: str = MERGE_PATCH,
        params: Mapping[str, Any] | None = None,
        within: float = CHANGE,
    ) -> None:
        """Change an object. The patch contains the desired state of the object, so it may be sent again."""
        await self.request(
            "PATCH",
            path,
            action=action,
            params=params,
            body=dict(body),
            content_type=content_type,
            within=within,
            repeat=True,
        )

    async def read(
        self,
        path: str,
        *,
        action: str,
        params: Mapping[str, Any] | None = None,
        within: float = READ,
        patience: float | None = None,
    ) -> bytes:
        """Return the bytes of a GET's reply, e.g. of a log. See `request`."""
        request = _Request("GET", path, params, within=within)
        return await self._content(request, action, again=True, patience=patience)

    async def _content(
        self, request: _Request, action: str, again: bool, patience: float | None = None
    ) -> bytes:
        """Return the reply's bytes. `again` and `patience` are `repeat` and `patience` of `request`."""
        began, most = time.monotonic(), PATIENCE[self.local] if patience is None else patience
        attempt = 0
        while True:
            cause: Exception | None = None
            end = began + most
            try:
                reply, content = await self._send(request, action)
            except Exception as error:  # noqa: BLE001 - it is translated
                failure, cause = from_exception(error, action, self._server()), error
                wait = backoff(attempt) if again or _not_sent(error) else None
                if isinstance(error, ReplyTooLarge):
                    smaller = request.with_small_page()
                    request, wait = smaller, None if smaller is request else 0.0
            else:
                if reply.is_success:
                    return content
                failure = from_reply(reply.status_code, reply.headers, content, action)
                wait = _wait_after(reply, again, attempt)
                if patience is None and _requested_wait(reply) is not None:
                    end = began + max(most, LONGEST_WAIT)
            # A refused login is not repeated: a locked account would stay locked.
            hopeless = self.closed or isinstance(failure, Unauthenticated)
            if wait is None or hopeless or wait > LONGEST_WAIT or time.monotonic() + wait >= end:
                raise self._lost(failure, action) from cause
            attempt += 1
            await asyncio.sleep(wait)

    async def _send(self, request: _Request, action: str) -> tuple[httpx.Response, bytes]:
        """Send the request once, and return the reply with its body. If the server refuses the login, read
        the login again once.

        The successful reply to a request with `stream` is returned open, without its body.
        """
        for renewed in (False, True):
            session = await self._ready(action)
            built = session.client.build_request(
                request.method,
                request.path,
                params=_params(request.params),
                content=request.content,
                headers=session.headers | request.headers,
                timeout=_timeout(request.within, request.silence),
                extensions=session.extensions,
            )
            async with asyncio.timeout(request.within + 1):
                reply = await session.client.send(built, stream=True)
                if request.stream and reply.is_success:
                    return reply, b""
                try:
                    content = await body_of(reply, action)
                finally:
                    await reply.aclose()
            if reply.status_code != 401 or renewed:
                break
            await self._log_in(session)
        return reply, content

    # Streams

    @asynccontextmanager
    async def stream(
        self,
        path: str,
        *,
        action: str,
        params: Mapping[str, Any] | None = None,
        within: float = READ,
        silence: float | None = None,
    ) -> AsyncGenerator[AsyncIterator[bytes], None]:
        """Yield the chunks of a reply as they arrive, of a watch or a followed log.

        `within` limits the time to the response headers. After `silence` seconds without a byte the stream
        fails (`None`: only TCP detects a lost server). The stream is opened once; a broken connection raises
        Unavailable in the reader.
        """
        try:
            request = _Request("GET", path, params, within=within, stream=True, silence=silence)
            reply, content = await self._send(request, action)
        except Exception as error:
            raise self._lost(from_exception(error, action, self._server()), action) from error
        try:
            if not reply.is_success:
                raise self._lost(from_reply(reply.status_code, reply.headers, content, action), action)
            yield decompressed(reply)
        except (httpx.HTTPError, httpx.StreamError) as error:
            raise self._lost(from_exception(error, action, self._server()), action) from error
        finally:
            await reply.aclose()

    @asynccontextmanager
    async def websocket(
        self, path: str, *, action: str, params: Any = None, subprotocols: list[str] | None = None
    ) -> AsyncGenerator[httpx_ws.AsyncWebSocketSession, None]:
        """Open a websocket, e.g. of `exec`. `params` may be pairs, e.g. to repeat `command`."""
        try:
            session = await self._ready(action)
            opening: Any = httpx_ws.aconnect_ws(
                path,
                session.client,
                params=params,
                subprotocols=subprotocols,
                headers=session.headers,
                extensions=session.extensions,
                keepalive_ping_interval_seconds=None,
            )
            async with opening as websocket:
                yield websocket
        except httpx_ws.WebSocketUpgradeError as error:
            refused = from_reply(error.response.status_code, error.response.headers, b"", action)
            raise self._lost(refused, action) from error
        except (httpx.HTTPError, httpx_ws.WebSocketNetworkError) as error:
            raise self._lost(from_exception(error, action, self._server()), action) from error

    # Login

    async def _ready(self, action: str) -> _Session:
        if self.closed:
            raise Unavailable(f"Can't {action}: the connection is closed.")
        return self._session or await self._log_in(None)

    async def _log_in(self, refused: _Session | None) -> _Session:
        """Log in, unless another call has logged in since `refused` was in use."""
        async with self._logging_in:
            session = self._session
            if session is not None and session.client.is_closed:
                session = None
            if session is not None and session is not refused:
                return session
            login = await self.cluster.log_in()
            if session is not None and session.login.line == login.line:
                client = session.client
            else:
                try:
                    client = _client(login)
                except (httpx.InvalidURL, ValueError, ImportError) as error:
                    raise InvalidRequest(
                        f"The cluster's address {login.server!r} or its proxy can't be used: {error}.",
                        fix="Correct `server` and `proxy-url` in the kubeconfig.",
                    ) from error
                if session is not None:
                    self._replaced.append(session.client)
            self._session = _Session(client, login)
            return self._session

    def _server(self) -> str:
        return self._session.login.server if self._session else ""

    def _lost(self, error: BackendError, action: str) -> BackendError:
        if self.closed:
            return Unavailable(f"Can't {action}: the connection was closed.")
        return self.cluster.explain(error)


@dataclass(frozen=True, slots=True)
class _Session:
    """A login and the client that uses it."""

    client: httpx.AsyncClient
    login: Login

    @property
    def headers(self) -> dict[str, str]:
        token = self.login.token
        return {"authorization": f"Bearer {token}"} if token else {}

    @property
    def extensions(self) -> dict[str, Any]:
        name = self.login.server_name
        return {"sni_hostname": name} if name else {}


@dataclass(frozen=True, slots=True)
class _Request:
    method: str
    path: str
    params: Mapping[str, Any] | None = None
    body: Any = None
    content_type: str = "application/json"
    within: float = READ
    accept: str = ""
    stream: bool = False
    silence: float | None = 0.0
    """Maximum silence of a stream in seconds; `None` means no limit, and 0.0 the value of `within`."""

    def with_small_page(self) -> _Request:
        """Return this request with a tenth of the page size, unless it has a small page or none."""
        limit = (self.params or {}).get("limit") or 0
        return self if limit < 10 else replace(self, params={**(self.params or {}), "limit": limit // 10})

    @property
    def content(self) -> bytes | None:
        return None if self.body is None else json.dumps(self.body).encode()

    @property
    def headers(self) -> dict[str, str]:
        sent = {} if self.body is None else {"content-type": self.content_type}
        return sent | ({"accept": self.accept} if self.accept else {})


def items_of(page: Mapping[str, Any], action: str, name: str = "items") -> list[Any]:
    """Return the items in the field `name` of a list's reply. Raises Unavailable for a reply without the
    list."""
    # A server in Go may write an empty list as null.
    listed = page.get(name, 0)
    if listed is None and str(page.get("kind")).endswith("List"):
        return []
    if not isinstance(listed, list):
        raise unexpected_reply(action, "a list of objects", json.dumps(page))
    return listed


def objects_of(page: Mapping[str, Any], action: str, name: str = "items") -> list[dict[str, Any]]:
    """Return `items_of`. Raises Unavailable also if one of the items is not an object."""
    listed = items_of(page, action, name)
    if not all(isinstance(item, dict) for item in listed):
        raise unexpected_reply(action, "a list of objects", json.dumps(page))
    return listed


def next_page(page: Mapping[str, Any], token: Any, action: str) -> str:
    """Return the token of the page after this one, or "" after the last. `token` is that of this page. Raises
    Unavailable if both are the same: the list would never end."""
    following = str(mapping(page.get("metadata")).get("continue") or "")
    if following and following == token:
        raise unexpected_reply(action, "a page with a new `continue`", json.dumps(page))
    return following


async def lines(pieces: AsyncIterator[bytes], action: str) -> AsyncGenerator[bytes, None]:
    """Yield the lines of a stream without line ends. The last line may be incomplete.

    Raises ReplyTooLarge for a line above the limit of a reply. `action` completes "Can't …".
    """
    rest: list[bytes] = []
    size = 0
    async for piece in pieces:
        first, *more = piece.split(b"\n")
        rest.append(first)
        size = len(more[-1]) if more else size + len(first)
        if size > MOST_BYTES:
            raise ReplyTooLarge(action, MOST_TEXT)
        if more:
            yield b"".join(rest)
            for line in more[:-1]:
                yield line
            rest = [more[-1]]
    last = b"".join(rest)
    if last:
        yield last


def _client(login: Login) -> httpx.AsyncClient:
    transport = httpx.AsyncHTTPTransport(
        verify=login.verify,
        proxy=login.proxy or _proxy(login.server),
        # Each watch occupies a connection.
        limits=httpx.Limits(max_connections=None, max_keepalive_connections=8, keepalive_expiry=60.0),
        socket_options=_KEEP_ALIVE,
    )
    headers = {"user-agent": "vxtui", "accept": "application/json", "accept-encoding": "gzip"}
    return httpx.AsyncClient(base_url=login.server, transport=transport, headers=headers)


def _proxy(server: str) -> str | None:
    """Return the environment's proxy for this server, or `None` for a server on this machine."""
    parts = urlsplit(server)
    host = parts.hostname or ""
    if host in {"localhost", "::1"} or host.startswith("127.") or urllib.request.proxy_bypass(host):
        return None
    return urllib.request.getproxies().get(parts.scheme)


def _timeout(within: float, silence: float | None = 0.0) -> httpx.Timeout:
    return httpx.Timeout(within, connect=min(CONNECT, within), read=within if silence == 0.0 else silence)


def _params(params: Mapping[str, Any] | None) -> dict[str, str] | None:
    if not params:
        return None
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in params.items()
        if value is not None and value != ""
    }


def _not_sent(error: BaseException) -> bool:
    """Return whether no byte of the request reached the server."""
    return isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout)


def _wait_after(reply: httpx.Response, again: bool, attempt: int) -> float | None:
    """Return the seconds before a refused request is repeated, or `None` if it is not repeated."""
    requested = _requested_wait(reply)
    refused = reply.status_code in _REFUSED and requested is not None
    if refused or (again and reply.status_code in _REFUSED | _READ_AGAIN):
        return backoff(attempt, requested)
    return None


def _requested_wait(reply: httpx.Response) -> float | None:
    """Return the wait that the server requests, in seconds."""
    text = reply.headers.get("retry-after", "")
    return float(text) if text.isascii() and text.isdigit() else None
