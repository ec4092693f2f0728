"""Requests and replies of the bucket server over ASGI. Bodies are streamed in chunks."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote_to_bytes

from tui.domain.document.decoding import decode_json
from tui.emulator.storage.store import StoreError

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]

JSON_LIMIT = 1024 * 1024
"""Maximum body size in bytes that is read into memory."""
DRAIN_LIMIT = 256 * 1024 * 1024
"""Number of bytes of a rejected body that are read and discarded, so that the client reads the reply."""
PIECE = 256 * 1024


class ClientDisconnected(Exception):
    """The client has closed the connection."""


class ConnectionCut(Exception):
    """A fault breaks the connection here."""


class BucketRequest:
    """One request. `parts` are the path's segments, each decoded separately, because a name may contain
    slashes."""

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self.method: str = scope["method"]
        self.headers = {k.decode("latin-1").lower(): v.decode("latin-1") for k, v in scope["headers"]}
        raw: bytes = scope.get("raw_path") or scope["path"].encode()
        self.parts = [_text(part) for part in raw.partition(b"?")[0].split(b"/")[1:]]
        query = parse_qs(
            scope["query_string"].decode("latin-1"), keep_blank_values=True, errors="surrogateescape"
        )
        self.query = {name: values[-1] for name, values in query.items()}
        self.queries = query
        self.cut_after = 0
        """Number of bytes of the body after which `stream` raises ConnectionCut; 0 means never."""
        self._receive = receive
        self._ended = False
        self._seen = 0

    async def stream(self) -> AsyncIterator[bytes]:
        """Yield the chunks of the body. Raises ClientDisconnected, ConnectionCut."""
        while not self._ended:
            message = await self._receive()
            if message["type"] != "http.request":
                raise ClientDisconnected
            self._ended = not message.get("more_body")
            data: bytes = message.get("body", b"")
            self._seen += len(data)
            if self.cut_after and self._seen > self.cut_after:
                yield data[: max(0, len(data) - (self._seen - self.cut_after))]
                raise ConnectionCut
            if data:
                yield data

    async def body(self) -> bytes:
        """Return the entire body, which must be small. Raises StoreError 413, ClientDisconnected."""
        content = bytearray()
        async for piece in self.stream():
            content += piece
            if len(content) > JSON_LIMIT:
                raise StoreError(
                    413, "uploadTooLarge", f"The request body must have at most {JSON_LIMIT} bytes."
                )
        return bytes(content)

    async def json(self) -> dict[str, Any]:
        """Parse the body as JSON. Raises StoreError 400."""
        return parse_json(await self.body())

    async def drain(self) -> None:
        """Read and discard the remaining body."""
        seen = 0
        async for piece in self.stream():
            seen += len(piece)
            if seen > DRAIN_LIMIT:
                return

    def number(self, name: str, default: int | None = None) -> int | None:
        """Return an integer of the query. Raises StoreError 400."""
        text = self.query.get(name)
        if text is None or not text:
            return default
        if not text.isdecimal():
            raise StoreError(400, "invalidParameter", f"Invalid value for {name}: {text[:80]!r}")
        return int(text)

    def flag(self, name: str) -> bool:
        return str(self.query.get(name, "")).lower() == "true"


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply: `body`, or `size` bytes of `file` from `offset` on."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    kind: str = "application/json; charset=UTF-8"
    file: Path | None = None
    offset: int = 0
    size: int = 0

    @classmethod
    def of(cls, value: Any, status: int = 200, **headers: str) -> Reply:
        """Return a reply with `value` as JSON."""
        return cls(status, json.dumps(value).encode(), headers)


def error_reply(error: StoreError, *, media: bool = False) -> Reply:
    """Return the service's error in JSON; for a download only the message, as in the service."""
    if error.status == 304:
        return Reply(304, kind="")
    if media:
        return Reply(error.status, str(error).encode(), kind="text/html; charset=UTF-8")
    detail = {"message": str(error), "domain": "global", "reason": error.reason}
    return Reply.of(
        {"error": {"code": error.status, "message": str(error), "errors": [detail]}}, error.status
    )


async def send_reply(send: Send, reply: Reply, *, head: bool) -> None:
    """Send the reply. The connection breaks if the file has become shorter."""
    size = reply.size if reply.file else len(reply.body)
    headers = {
        "content-length": str(size),
        "cache-control": "no-cache, no-store, max-age=0, must-revalidate",
        "server": "UploadServer",
        **reply.headers,
    }
    # The client rejects a reply that has a content type but no content.
    if reply.kind and (size or reply.file):
        headers["content-type"] = reply.kind
    raw = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
    if reply.file is None or head or not size:
        await send({"type": "http.response.start", "status": reply.status, "headers": raw})
        await send({"type": "http.response.body", "body": b"" if head or reply.file else reply.body})
        return
    with reply.file.open("rb") as file:
        await send({"type": "http.response.start", "status": reply.status, "headers": raw})
        file.seek(reply.offset)
        left = size
        while left and (piece := file.read(min(PIECE, left))):
            left -= len(piece)
            await send({"type": "http.response.body", "body": piece, "more_body": bool(left)})


def parse_json(body: bytes) -> dict[str, Any]:
    """Parse a JSON object, empty for an empty body. Raises StoreError 400."""
    try:
        value = decode_json(body) if body.strip() else {}
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise StoreError(400, "parseError", "Parse Error: the body must be a JSON object.")
    return value


def _text(segment: bytes) -> str:
    # Invalid UTF-8 becomes lone surrogates, which no name may contain.
    return unquote_to_bytes(segment).decode("utf-8", "surrogateescape")
