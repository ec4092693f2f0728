"""Uploads: simple, multipart and resumable. What comes is written at once to a part file, and then it is an
object.

A resumable session is two files, so that it survives the emulator: `ID.json` (what is to be made) and
`ID.part` (the bytes that came, whatever broke after them).
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

from tui.emulator.storage.http import JSON_LIMIT, Reply, Request, parse_json
from tui.emulator.storage.names import check_object
from tui.emulator.storage.store import (
    BucketStore,
    Preconditions,
    Stored,
    StoreError,
    Wanted,
    checksums_of,
)

WEEK = 7 * 86400
"""Seconds that a resumable session lives, as in the cloud."""
_CHUNK = 256 * 1024
_RANGE = re.compile(r"bytes (?:(\d+)-(\d+)|\*)/(\d+|\*)")
_SESSION = re.compile(r"[\w-]{32}")
_SETTABLE = (
    "contentType", "contentEncoding", "contentDisposition", "contentLanguage", "cacheControl", "metadata",
    "storageClass", "customTime", "temporaryHold", "eventBasedHold", "contexts",
)  # fmt: skip


def settable(body: Mapping[str, Any]) -> dict[str, Any]:
    """What of an object's resource a client may set. Raises StoreError 400."""
    metadata = body.get("metadata")
    if metadata is not None and not (
        isinstance(metadata, dict) and all(v is None or isinstance(v, str) for v in metadata.values())
    ):
        raise StoreError(400, "invalid", "An object's metadata is a map of texts.")
    found = {name: body[name] for name in _SETTABLE if body.get(name) is not None}
    if metadata:
        found["metadata"] = {k: v for k, v in metadata.items() if v is not None}
    return found


def conditions_of(request: Request, source: bool = False) -> Preconditions:
    """Raises StoreError 400."""
    word = "ifSource" if source else "if"
    names = ("GenerationMatch", "GenerationNotMatch", "MetagenerationMatch", "MetagenerationNotMatch")
    return Preconditions(*(request.number(word + name) for name in names))


class Uploads:
    """Everything that makes an object of a request's body."""

    def __init__(self, store: BucketStore) -> None:
        self._store = store
        self._locks: dict[str, asyncio.Lock] = {}
        self._forget_old()

    async def media(self, bucket: str, request: Request) -> Stored:
        """`uploadType=media`: the body is the content."""
        name = self._check(bucket, request.query.get("name", ""), request)
        body = {"contentType": request.headers.get("content-type", "application/octet-stream")}
        with self.part() as part:
            await write_all(part, request.stream())
            wanted = Wanted(bucket, name, body, conditions_of(request))
            return await self._finish(wanted, part, _given(request, {}))

    async def multipart(self, bucket: str, request: Request) -> Stored:
        """`uploadType=multipart`: the object's resource, then its content."""
        boundary = _boundary(request.headers.get("content-type", ""))
        pieces = _Multipart(request.stream(), boundary)
        resource = parse_json(await pieces.resource())
        name = self._check(bucket, str(resource.get("name") or request.query.get("name", "")), request)
        body = {"contentType": pieces.kind, **settable(resource)}
        with self.part() as part:
            await write_all(part, pieces.content())
            wanted = Wanted(bucket, name, body, conditions_of(request))
            return await self._finish(wanted, part, _given(request, resource))

    async def begin(self, bucket: str, request: Request) -> str:
        """`uploadType=resumable`: the id of a new session."""
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
            "given": _given(request, resource),
            "total": int(length) if length.isdecimal() else None,
        }
        self._file(key, "part").touch(mode=0o600)
        self._write(key, session)
        return key

    async def resume(self, bucket: str, key: str, request: Request) -> Reply | Stored:
        """A chunk, or the question how much has come. The object once all of it has."""
        async with self._locks.setdefault(key, asyncio.Lock()):
            session = self._session(bucket, key)
            if session.get("done"):
                self._locks.pop(key, None)
                return self._store.get(bucket, session["name"])
            part = self._file(key, "part")
            start, total = self._place(session, part, request)
            if start is not None:
                await append(part, start, request.stream())
            have = part.stat().st_size
            if total is None or have < total:
                session["total"] = total if total is not None else session["total"]
                self._write(key, session)
                return _incomplete(have)
            if have > total:
                raise StoreError(400, "invalid", f"The upload has {have} bytes, {total} were announced.")
            given = {**session["given"], **_given(request, {})}
            conditions = Preconditions(**session["conditions"])
            wanted = Wanted(bucket, session["name"], session["body"], conditions)
            made = await self._finish(wanted, part, given)
            self._write(key, {**session, "done": made.generation})
            self._locks.pop(key, None)
            return made

    def cancel(self, bucket: str, key: str) -> None:
        """Forget a session. Raises StoreError 404."""
        self._session(bucket, key)
        self._file(key, "json").unlink(missing_ok=True)
        self._file(key, "part").unlink(missing_ok=True)

    async def _finish(self, wanted: Wanted, part: Path, given: Mapping[str, str]) -> Stored:
        """Check what came against the checksums that were given, and make it an object.

        Raises:
            StoreError: 400 for a checksum that does not match; nothing is changed then.
        """
        sums = await asyncio.to_thread(checksums_of, part)
        for (label, key), found in zip((("CRC32C", "crc32c"), ("MD5", "md5")), sums, strict=True):
            said = given.get(key)
            if said and said != found:
                raise StoreError(
                    400,
                    "invalid",
                    f'Provided {label} hash "{said}" doesn\'t match calculated {label} hash "{found}".',
                )
        return self._store.put(wanted, part, sums)

    @contextlib.contextmanager
    def part(self) -> Iterator[Path]:
        """A file for a body that comes in one request; gone afterwards unless it was made an object."""
        path = self._store.parts / f"{secrets.token_urlsafe(24)}.part"
        try:
            yield path
        finally:
            path.unlink(missing_ok=True)

    def _check(self, bucket: str, name: str, request: Request) -> str:
        """What can be refused before the content has come. Raises StoreError, BadName."""
        if not name:
            raise StoreError(400, "required", "Required parameter: name")
        conditions_of(request).check(self._store.find(bucket, check_object(name)))
        return name

    def _place(self, session: dict[str, Any], part: Path, request: Request) -> tuple[int | None, int | None]:
        """Where the body's bytes go (`None`: there are none), and the whole size if it is known."""
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
                400, "invalid", f"The chunk begins at byte {start}, but only {have} bytes have come so far."
            )
        if match[3] == "*" and (end + 1 - start) % _CHUNK:
            raise StoreError(
                400, "invalid", f"A chunk that is not the last one has a multiple of {_CHUNK} bytes."
            )
        return start, total

    def _session(self, bucket: str, key: str) -> dict[str, Any]:
        try:
            if not _SESSION.fullmatch(key):
                raise FileNotFoundError
            session: dict[str, Any] = json.loads(self._file(key, "json").read_bytes())
        except (OSError, ValueError):
            session = {}
        if session.get("bucket") != bucket:
            raise StoreError(404, "notFound", "The upload session does not exist, or has ended.")
        return session

    def _write(self, key: str, session: Mapping[str, Any]) -> None:
        partial = self._file(key, "partial")
        partial.write_text(json.dumps(session))
        partial.replace(self._file(key, "json"))

    def _file(self, key: str, suffix: str) -> Path:
        return self._store.parts / f"{key}.{suffix}"

    def _forget_old(self) -> None:
        """Parts without a session that some dead server left, and sessions that are a week old."""
        now = time.time()
        for path in self._store.parts.iterdir():
            alone = path.suffix == ".part" and not path.with_suffix(".json").exists()
            with contextlib.suppress(OSError):
                if path.is_file() and (alone or now - path.stat().st_mtime > WEEK):
                    path.unlink()


async def write_all(path: Path, pieces: AsyncIterator[bytes]) -> None:
    """Raises Gone, Cut, OSError."""
    with path.open("xb") as file:
        async for piece in pieces:
            file.write(piece)


async def append(path: Path, start: int, pieces: AsyncIterator[bytes]) -> None:
    """Write the pieces from byte `start` on; what came before a break stays. Raises Gone, Cut, OSError."""
    # Not buffered: what came is there for whoever takes it up, whatever happens to this server.
    with path.open("r+b", buffering=0) as file:
        file.seek(start)
        async for piece in pieces:
            file.write(piece)


class _Multipart:
    """The two parts of a multipart/related body, the second one in pieces."""

    def __init__(self, pieces: AsyncIterator[bytes], boundary: bytes) -> None:
        self._pieces = pieces
        self._line = b"--" + boundary
        self._held = b""
        self.kind = "application/octet-stream"
        """Content type of the second part."""

    async def resource(self) -> bytes:
        """The first part."""
        await self._until(self._line)
        await self._until(b"\r\n\r\n")
        found = await self._until(b"\r\n" + self._line)
        headers = (await self._until(b"\r\n\r\n")).decode("latin-1").lower()
        for line in headers.splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "content-type":
                self.kind = value.strip()
        return found

    async def content(self) -> AsyncIterator[bytes]:
        """The second part. Raises StoreError 400 when its end is missing."""
        closing = b"\r\n" + self._line
        keep = len(closing) + 8
        held = self._held
        async for piece in self._pieces:
            held += piece
            if len(held) > keep:
                yield held[:-keep]
                held = held[-keep:]
        content, found, rest = held.rpartition(closing)
        if not found or not rest.startswith(b"--"):
            raise StoreError(400, "badContent", "The multipart body ends without its closing boundary.")
        yield content

    async def _until(self, mark: bytes) -> bytes:
        while mark not in self._held:
            try:
                self._held += await anext(self._pieces)
            except StopAsyncIteration:
                raise StoreError(400, "badContent", "The multipart body has not two parts.") from None
            if len(self._held) > 2 * JSON_LIMIT and mark not in self._held:
                raise StoreError(400, "badContent", "The multipart body's first part is too large.")
        found, _, self._held = self._held.partition(mark)
        return found


def _boundary(kind: str) -> bytes:
    match = re.search(r'boundary="?([^";,]+)"?', kind, re.IGNORECASE)
    if match is None or not kind.lower().startswith("multipart/"):
        raise StoreError(400, "badContent", "A multipart upload has a Content-Type with its boundary.")
    return match[1].encode("latin-1")


def _given(request: Request, resource: Mapping[str, Any]) -> dict[str, str]:
    """Checksums that the client has sent along, in base64, by `crc32c` and `md5`."""
    found = {"crc32c": str(resource.get("crc32c") or ""), "md5": str(resource.get("md5Hash") or "")}
    found["md5"] = request.headers.get("content-md5", found["md5"])
    for part in request.headers.get("x-goog-hash", "").split(","):
        name, _, value = part.strip().partition("=")
        if name in found and value:
            found[name] = value
    return {name: value for name, value in found.items() if value}


def _incomplete(have: int) -> Reply:
    # Without a Range header nothing has come yet.
    return Reply(308, headers={"range": f"bytes=0-{have - 1}"} if have else {}, kind="")
