"""Uploads: simple, multipart and resumable. A body is written to a part file, which then becomes the object.

A resumable session has two files, so that it survives the emulator: `ID.json` (the object to create) and
`ID.part` (the bytes received so far).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import secrets
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tui.emulator.storage.http import JSON_LIMIT, BucketRequest, Reply, parse_json
from tui.emulator.storage.names import check_object
from tui.emulator.storage.store import (
    BucketStore,
    NewObject,
    Preconditions,
    StoredObject,
    StoreError,
    checksums_of,
)

SESSION_SECONDS = 7 * 86400
"""Lifetime of a resumable session, as in the cloud."""
_CHUNK = 256 * 1024
_RANGE = re.compile(r"bytes (?:(\d+)-(\d+)|\*)/(\d+|\*)")
_SESSION = re.compile(r"[\w-]{32}")
_SETTABLE = (
    "contentType", "contentEncoding", "contentDisposition", "contentLanguage", "cacheControl", "metadata",
    "storageClass", "customTime", "temporaryHold", "eventBasedHold", "contexts",
)  # fmt: skip


def settable(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the client-settable fields of an object's resource. Raises StoreError 400."""
    metadata = body.get("metadata")
    if metadata is not None and not (
        isinstance(metadata, dict) and all(v is None or isinstance(v, str) for v in metadata.values())
    ):
        raise StoreError(400, "invalid", "An object's metadata must be a map of strings.")
    fields = {name: body[name] for name in _SETTABLE if body.get(name) is not None}
    if metadata:
        fields["metadata"] = {k: v for k, v in metadata.items() if v is not None}
    return fields


def conditions_of(request: BucketRequest, source: bool = False) -> Preconditions:
    """Parse the preconditions of a request. Raises StoreError 400."""
    word = "ifSource" if source else "if"
    names = ("GenerationMatch", "GenerationNotMatch", "MetagenerationMatch", "MetagenerationNotMatch")
    return Preconditions(*(request.number(word + name) for name in names))


class Uploads:
    """Creates objects from the bodies of requests."""

    def __init__(self, store: BucketStore) -> None:
        self._store = store
        self._locks: dict[str, asyncio.Lock] = {}
        self._remove_old_files()

    async def media(self, bucket: str, request: BucketRequest) -> StoredObject:
        """Upload with `uploadType=media`: the body is the content."""
        name = self._check(bucket, request.query.get("name", ""), request)
        body = {"contentType": request.headers.get("content-type", "application/octet-stream")}
        with self.part() as part:
            await write_all(part, request.stream())
            new = NewObject(bucket, name, body, conditions_of(request))
            return await self._finish(new, part, _client_checksums(request, {}))

    async def multipart(self, bucket: str, request: BucketRequest) -> StoredObject:
        """Upload with `uploadType=multipart`: the body is the object's resource, then its content."""
        boundary = _boundary(request.headers.get("content-type", ""))
        pieces = _Multipart(request.stream(), boundary)
        resource = parse_json(await pieces.resource())
        name = self._check(bucket, str(resource.get("name") or request.query.get("name", "")), request)
        body = {"contentType": pieces.kind, **settable(resource)}
        with self.part() as part:
            await write_all(part, pieces.content())
            new = NewObject(bucket, name, body, conditions_of(request))
            return await self._finish(new, part, _client_checksums(request, resource))

    async def start_session(self, bucket: str, request: BucketRequest) -> str:
        """Start an upload with `uploadType=resumable`. Return the id of the new session."""
        resource = await request.json()
        name = self._check(bucket, str(resource.get("name") or request.query.get("name", "")), request)
        kind = request.headers.get("x-upload-content-type", "application/octet-stream")
        length = request.headers.get("x-upload-content-length", "")
        key = secrets.token_urlsafe(24)
        session = {
            "bucket": bucket,
            "name": name,
            "body": {"contentType": kind, **settable(resource)},
            "conditions": asdict(conditions_of(request)),
            "given": _client_checksums(request, resource),
            "total": int(length) if length.isdecimal() else None,
        }
        self._store.part_file(key, "part").touch(mode=0o600)
        self._write(key, session)
        return key

    async def resume(self, bucket: str, key: str, request: BucketRequest) -> Reply | StoredObject:
        """Add a chunk. Reply with the bytes received so far, or return the complete object."""
        async with self._locks.setdefault(key, asyncio.Lock()):
            session = self._session(bucket, key)
            if session.get("done"):
                self._locks.pop(key, None)
                return self._store.get(bucket, session["name"])
            part = self._store.part_file(key, "part")
            start, total = self._chunk_range(session, part, request)
            if start is not None:
                await append(part, start, request.stream())
            have = part.stat().st_size
            if total is None or have < total:
                session["total"] = total if total is not None else session["total"]
                self._write(key, session)
                # No Range header means that nothing was received yet.
                return Reply(308, headers={"range": f"bytes=0-{have - 1}"} if have else {}, kind="")
            if have > total:
                raise StoreError(400, "invalid", f"The upload has {have} bytes, but {total} were declared.")
            checksums = {**session["given"], **_client_checksums(request, {})}
            conditions = Preconditions(**session["conditions"])
            new = NewObject(bucket, session["name"], session["body"], conditions)
            created = await self._finish(new, part, checksums)
            self._write(key, {**session, "done": created.generation})
            self._locks.pop(key, None)
            return created

    def cancel(self, bucket: str, key: str) -> None:
        """Remove a session. Raises StoreError 404."""
        self._session(bucket, key)
        self._store.part_file(key, "json").unlink(missing_ok=True)
        self._store.part_file(key, "part").unlink(missing_ok=True)

    async def _finish(self, new: NewObject, part: Path, checksums: Mapping[str, str]) -> StoredObject:
        """Verify the part against the client's checksums and make it an object.

        Raises StoreError: 400 for a checksum mismatch; nothing changes then.
        """
        sums = await asyncio.to_thread(checksums_of, part)
        for (label, key), computed in zip((("CRC32C", "crc32c"), ("MD5", "md5")), sums, strict=True):
            expected = checksums.get(key)
            if expected and expected != computed:
                match = f'doesn\'t match calculated {label} hash "{computed}".'
                raise StoreError(400, "invalid", f'Provided {label} hash "{expected}" {match}')
        return self._store.put(new, part, sums)

    @contextlib.contextmanager
    def part(self) -> Iterator[Path]:
        """Provide a file for the body of one request. The file is removed afterwards unless it became an
        object."""
        path = self._store.parts / f"{secrets.token_urlsafe(24)}.part"
        try:
            yield path
        finally:
            path.unlink(missing_ok=True)

    def _check(self, bucket: str, name: str, request: BucketRequest) -> str:
        """Check name and conditions before the content is read. Raises StoreError, InvalidObjectName."""
        if not name:
            raise StoreError(400, "required", "Required parameter: name")
        conditions_of(request).check(self._store.find(bucket, check_object(name)))
        return name

    def _chunk_range(
        self, session: dict[str, Any], part: Path, request: BucketRequest
    ) -> tuple[int | None, int | None]:
        """Return the offset of the body's bytes (`None` without bytes) and the total size if known."""
        text = request.headers.get("content-range")
        have = part.stat().st_size
        if text is None:
            length = request.headers.get("content-length", "")
            return 0, int(length) if length.isdecimal() else session["total"]
        match = _RANGE.fullmatch(text.strip())
        if match is None:
            raise StoreError(400, "badRequest", f"Failed to parse Content-Range header: {text[:80]!r}.")
        total = int(match[3]) if match[3] != "*" else session["total"]
        if match[1] is None:
            return None, total
        start, end = int(match[1]), int(match[2])
        if start > have:
            raise StoreError(
                400,
                "invalid",
                f"The chunk begins at byte {start}, but only {have} bytes were received so far.",
            )
        if match[3] == "*" and (end + 1 - start) % _CHUNK:
            raise StoreError(
                400, "invalid", f"Every chunk except the last must have a multiple of {_CHUNK} bytes."
            )
        return start, total

    def _session(self, bucket: str, key: str) -> dict[str, Any]:
        try:
            if not _SESSION.fullmatch(key):
                raise FileNotFoundError
            session: dict[str, Any] = json.loads(self._store.part_file(key, "json").read_bytes())
        except (OSError, ValueError):
            session = {}
        if session.get("bucket") != bucket:
            raise StoreError(404, "notFound", "The upload session does not exist, or has ended.")
        return session

    def _write(self, key: str, session: Mapping[str, Any]) -> None:
        partial = self._store.part_file(key, "partial")
        partial.write_text(json.dumps(session))
        partial.replace(self._store.part_file(key, "json"))

    def _remove_old_files(self) -> None:
        """Remove an earlier server's parts without a session, and expired sessions."""
        now = time.time()
        for path in self._store.parts.iterdir():
            alone = path.suffix == ".part" and not path.with_suffix(".json").exists()
            with contextlib.suppress(OSError):
                if path.is_file() and (alone or now - path.stat().st_mtime > SESSION_SECONDS):
                    path.unlink()


async def write_all(path: Path, pieces: AsyncIterator[bytes]) -> None:
    """Write all chunks to a new file. Raises ClientDisconnected, ConnectionCut, OSError."""
    with path.open("xb") as file:
        async for piece in pieces:
            file.write(piece)


async def append(path: Path, start: int, pieces: AsyncIterator[bytes]) -> None:
    """Write the chunks from byte `start` on. Bytes received before a failure remain.

    Raises ClientDisconnected, ConnectionCut, OSError.
    """
    # Unbuffered, so that the next server can resume after all received bytes.
    with path.open("r+b", buffering=0) as file:
        file.seek(start)
        async for piece in pieces:
            file.write(piece)


class _Multipart:
    """The two parts of a multipart/related body; the second part is read in chunks.

    Lines end in CRLF, or in LF as in gcloud's bodies.
    """

    def __init__(self, pieces: AsyncIterator[bytes], boundary: bytes) -> None:
        self._pieces = pieces
        self._line = b"--" + boundary
        self._buffer = b""
        self._newline = b"\r\n"
        self.kind = "application/octet-stream"
        """Content type of the second part."""

    async def resource(self) -> bytes:
        """Return the first part."""
        await self._until(self._line)
        # Padding may follow a boundary on its line and does not belong to the end marker.
        if not (await self._until(b"\n")).endswith(b"\r"):
            self._newline = b"\n"
        self._buffer = self._newline + self._buffer
        await self._until(2 * self._newline)
        head = await self._until(self._newline + self._line)
        headers = (await self._until(2 * self._newline)).decode("latin-1").lower()
        for line in headers.splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "content-type":
                self.kind = value.strip()
        return head

    async def content(self) -> AsyncIterator[bytes]:
        """Yield the second part. Raises StoreError 400 if its end is missing."""
        closing = self._newline + self._line
        keep = len(closing) + 8
        buffer = self._buffer
        async for piece in self._pieces:
            buffer += piece
            if len(buffer) > keep:
                yield buffer[:-keep]
                buffer = buffer[-keep:]
        content, boundary, rest = buffer.rpartition(closing)
        if not boundary or not rest.startswith(b"--"):
            raise StoreError(400, "badContent", "The multipart body ends without its closing boundary.")
        yield content

    async def _until(self, mark: bytes) -> bytes:
        while mark not in self._buffer:
            try:
                self._buffer += await anext(self._pieces)
            except StopAsyncIteration:
                raise StoreError(400, "badContent", "The multipart body must have two parts.") from None
            if len(self._buffer) > 2 * JSON_LIMIT and mark not in self._buffer:
                raise StoreError(400, "badContent", "The multipart body's first part is too large.")
        line, _, self._buffer = self._buffer.partition(mark)
        return line


def _boundary(kind: str) -> bytes:
    """Return the boundary without quotes; gcloud uses single quotes."""
    match = re.search(r"""boundary=(?:"([^"]+)"|'([^']+)'|([^";,]+))""", kind, re.IGNORECASE)
    if match is None or not kind.lower().startswith("multipart/"):
        raise StoreError(400, "badContent", "A multipart upload must have a Content-Type with its boundary.")
    return str(match[match.lastindex or 0]).encode("latin-1")


def _client_checksums(request: BucketRequest, resource: Mapping[str, Any]) -> dict[str, str]:
    """Return the client's checksums in base64, by `crc32c` and `md5`."""
    checksums = {"crc32c": str(resource.get("crc32c") or ""), "md5": str(resource.get("md5Hash") or "")}
    checksums["md5"] = request.headers.get("content-md5", checksums["md5"])
    for part in request.headers.get("x-goog-hash", "").split(","):
        name, _, value = part.strip().partition("=")
        if name in checksums and value:
            checksums[name] = value
    return {name: value for name, value in checksums.items() if value}
