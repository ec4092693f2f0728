"""HTTP/1.1 client of one model server on loopback with persistent connections."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Any

import h11

MAX_ANSWER = 64 * 1024 * 1024
"""Maximum size of a response in bytes. A larger response counts as no response."""
CUT_OFF = "the server closed the connection without an answer, or its answer is not HTTP"
IDLE = 32
"""Number of idle connections that stay open."""
FRESH = 1.0
"""Age in seconds up to which a connection is usable for a request that must not be sent twice. Servers close
idle connections after two seconds or more."""
SAFE = frozenset({"GET", "HEAD"})
"""Methods that may be repeated."""


class ServerUnreachable(Exception):
    """The server did not respond; the message gives the reason."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Response of a server."""

    status: int
    content_type: str
    body: bytes


class _Connection:
    """One open connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._http = h11.Connection(h11.CLIENT)
        self.used, self.idle_since = False, 0.0

    async def send(self, method: str, path: str, headers: list[tuple[str, str]], body: bytes) -> Answer:
        """Send a request and return the response. Raises OSError, h11.ProtocolError, ServerUnreachable."""
        data = self._http.send(h11.Request(method=method, target=path, headers=headers)) or b""
        if body:
            data += self._http.send(h11.Data(data=body)) or b""
        data += self._http.send(h11.EndOfMessage()) or b""
        self._writer.write(data)
        await self._writer.drain()
        return await self._answer()

    async def _answer(self) -> Answer:
        status, content_type = 0, ""
        parts: list[bytes] = []
        size = 0
        while True:
            event: Any = self._http.next_event()
            if event is h11.NEED_DATA:
                self._http.receive_data(await self._reader.read(65536))
            elif isinstance(event, h11.Response):
                status = event.status_code
                kinds = [value for name, value in event.headers if name == b"content-type"]
                content_type = kinds[0].decode("latin-1") if kinds else ""
            elif isinstance(event, h11.Data):
                size += len(event.data)
                if size > MAX_ANSWER:
                    raise ServerUnreachable(f"the answer has more than {MAX_ANSWER} bytes")
                parts.append(bytes(event.data))
            elif isinstance(event, h11.EndOfMessage):
                return Answer(status, content_type, b"".join(parts))
            elif not isinstance(event, h11.InformationalResponse):
                raise ServerUnreachable(CUT_OFF)

    def reusable(self) -> bool:
        """Prepare the connection for another request. Return whether both sides keep it open."""
        if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
            return False
        self._http.start_next_cycle()
        self.used, self.idle_since = True, time.monotonic()
        return not self._reader.at_eof()

    def fits(self, *, safe: bool) -> bool:
        """Return whether the server still has the connection open for certain, or the request may be
        repeated."""
        fresh = safe or time.monotonic() - self.idle_since < FRESH
        return fresh and not self._reader.at_eof()

    def close(self) -> None:
        self._writer.close()


class HttpClient:
    """Requests to `127.0.0.1:port`."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._idle: list[_Connection] = []

    async def request(
        self, method: str, path: str, body: bytes = b"", content_type: str = "", seconds: float = 10.0
    ) -> Answer:
        """Send one request. `seconds` limits the entire exchange.

        Raises:
            ServerUnreachable: there is no response.
            TimeoutError: there is no response in time.
        """
        headers = [("Host", f"127.0.0.1:{self._port}"), ("Accept", "*/*")]
        if method != "GET":
            headers.append(("Content-Length", str(len(body))))
        if content_type:
            headers.append(("Content-Type", content_type))
        async with asyncio.timeout(seconds):
            return await self._send(method, path, headers, body)

    async def _send(self, method: str, path: str, headers: list[tuple[str, str]], body: bytes) -> Answer:
        while True:
            try:
                connection = self._known(safe=method in SAFE) or await self._connect()
            except OSError as error:
                raise ServerUnreachable(f"port {self._port}: {error.strerror or error}") from error
            try:
                answer = await connection.send(method, path, headers, body)
            except (OSError, h11.ProtocolError, ServerUnreachable) as error:
                connection.close()
                if connection.used and method in SAFE:
                    # The server may have closed the connection in the meantime, which is allowed between
                    # requests.
                    continue
                reason = CUT_OFF if isinstance(error, h11.ProtocolError) else str(error)
                raise ServerUnreachable(reason) from error
            except BaseException:
                connection.close()
                raise
            if connection.reusable() and len(self._idle) < IDLE:
                self._idle.append(connection)
            else:
                connection.close()
            return answer

    def _known(self, *, safe: bool) -> _Connection | None:
        """Return an open connection that is safe for this request, or None if there is none."""
        while self._idle:
            connection = self._idle.pop()
            if connection.fits(safe=safe):
                return connection
            connection.close()
        return None

    async def _connect(self) -> _Connection:
        return _Connection(*await asyncio.open_connection("127.0.0.1", self._port))

    def close(self) -> None:
        """Close the idle connections."""
        for connection in self._idle:
            connection.close()
        self._idle.clear()
