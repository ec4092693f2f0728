"""Objects over the JSON API: resource, list, upload, download, compose, copy, rewrite, delete."""

from __future__ import annotations

import asyncio
import base64
import binascii
import re
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tui.emulator.storage.http import Reply, Request
from tui.emulator.storage.resources import media_headers, object_json
from tui.emulator.storage.store import BLOCK, BucketStore, NewObject, StoredObject, StoreError, checksums_of
from tui.emulator.storage.upload import Uploads, conditions_of, settable

PAGE = 1000
LIST_CHECKSUM_BYTES = 64 * BLOCK
"""Bytes of files from /gcs for which a list computes checksums; other files need their own request."""
MAX_COMPOSE = 32
_RANGE = re.compile(r"bytes=(\d*)-(\d*)")
# `versions` is served: each object has one.
_UNSERVED = ("matchGlob", "softDeleted")


class Objects:
    """Handler of one store; `base` is the address that clients use."""

    def __init__(self, store: BucketStore, base: str) -> None:
        self._store = store
        self._base = base
        self.uploads = Uploads(store)

    async def answer(self, request: Request, bucket: str, rest: Sequence[str]) -> Reply:
        """Serve the path after `/storage/v1/b/BUCKET/o`."""
        match (request.method, list(rest)):
            case ("GET", []):
                return await self._list(request, bucket)
            case ("GET" | "HEAD", [name]):
                if request.query.get("alt") == "media":
                    return await self.download(request, bucket, name)
                return self._resource(await self._read(request, bucket, name))
            case ("PATCH" | "PUT", [name]):
                return await self._change(request, bucket, name)
            case ("DELETE", [name]):
                one = self._current(request, bucket, name)
                conditions_of(request).check(one)
                self._store.delete(bucket, name)
                return Reply(204, kind="")
            case ("POST", [name, "compose"]):
                return await self._compose(request, bucket, name)
            case ("POST", [name, "rewriteTo" | "copyTo" as how, "b", to_bucket, "o", to_name]):
                return await self._copy(request, (bucket, name), (to_bucket, to_name), how == "rewriteTo")
            case ("POST", [name, "moveTo", "o", to_name]):
                return await self._move(request, bucket, name, to_name)
        raise StoreError(
            501, "notImplemented", f"The emulator does not serve {request.method} on {'/'.join(rest)[:200]}."
        )

    async def upload(self, request: Request, bucket: str) -> Reply:
        """`/upload/storage/v1/b/BUCKET/o`."""
        self._store.folder(bucket)
        key = request.query.get("upload_id", "")
        if key and request.method == "PUT":
            made = await self.uploads.resume(bucket, key, request)
            return made if isinstance(made, Reply) else self._resource(made)
        if key and request.method == "DELETE":
            self.uploads.cancel(bucket, key)
            return Reply(499, kind="")
        kind = request.query.get("uploadType", "")
        if request.method != "POST":
            raise StoreError(405, "methodNotAllowed", "An upload begins with POST.")
        if kind == "media":
            return self._resource(await self.uploads.media(bucket, request))
        if kind == "multipart":
            return self._resource(await self.uploads.multipart(bucket, request))
        if kind == "resumable":
            key = await self.uploads.start_session(bucket, request)
            where = f"{self._base}/upload/storage/v1/b/{bucket}/o?uploadType=resumable&upload_id={key}"
            return Reply(200, headers={"location": where, "x-guploader-uploadid": key}, kind="")
        raise StoreError(400, "invalid", f"uploadType is media, multipart or resumable, not {kind[:40]!r}.")

    async def download(self, request: Request, bucket: str, name: str) -> Reply:
        """The content, or the requested range of it. Raises StoreError 304, 404, 416."""
        one = await self._read(request, bucket, name)
        path = self._store.path(bucket, name)
        headers = media_headers(one)
        kind = str(one.body.get("contentType", "application/octet-stream"))
        kind = " ".join(kind.encode("ascii", "replace").decode().split())
        first, last, partial = _range(request.headers.get("range", ""), one.size)
        if not partial:
            return Reply(200, headers=headers, kind=kind, file=path, size=one.size)
        if first > last:
            text = f"The requested range cannot be satisfied: the object has {one.size} bytes."
            not_satisfiable = {"content-range": f"bytes */{one.size}"}
            return Reply(416, text.encode(), not_satisfiable, kind="text/html; charset=UTF-8")
        headers["content-range"] = f"bytes {first}-{last}/{one.size}"
        return Reply(206, headers=headers, kind=kind, file=path, offset=first, size=last - first + 1)

    def _resource(self, one: StoredObject) -> Reply:
        return Reply.of(object_json(one, self._base))

    def _current(self, request: Request, bucket: str, name: str) -> StoredObject:
        """The object, of the requested generation if any: only the newest one is kept."""
        one = self._store.get(bucket, name)
        if request.number("generation", one.generation) != one.generation:
            raise StoreError(404, "notFound", f"No such object: {bucket}/{name}")
        return one

    async def _read(self, request: Request, bucket: str, name: str) -> StoredObject:
        """The object with its checksums, if the conditions of a read hold."""
        one = self._current(request, bucket, name)
        conditions = conditions_of(request)
        replace(conditions, not_generation=None, not_metageneration=None).check(one)
        same = (conditions.not_generation, conditions.not_metageneration)
        if one.generation == same[0] or one.metageneration == same[1]:
            raise StoreError(304, "notModified", "")
        return await self._summed(one)

    async def _summed(self, one: StoredObject) -> StoredObject:
        """The object with checksums, which are computed here for a file that a job wrote."""
        if one.crc32c or one.name.endswith("/"):
            return one
        sums = await asyncio.to_thread(checksums_of, self._store.path(one.bucket, one.name))
        return self._kept(one, sums)

    async def _all_summed(self, ones: Sequence[StoredObject]) -> list[StoredObject]:
        """The objects of a page, with checksums up to `LIST_CHECKSUM_BYTES`."""
        left, asked = LIST_CHECKSUM_BYTES, []
        for one in ones:
            if not one.crc32c and not one.name.endswith("/") and one.size <= left:
                left -= one.size
                asked.append(one)
        # A list follows no links, so a name is the file's path, and no slow check for links is needed.
        root = self._store.folder(ones[0].bucket) if asked else Path()
        sums = await asyncio.to_thread(lambda: [_sums_as_listed(root, one) for one in asked])
        made = {one.name: both for one, both in zip(asked, sums, strict=True)}
        found = []
        with self._store.transaction():
            for one in ones:
                both = made.get(one.name, ("", ""))
                if both is None:  # deleted meanwhile
                    continue
                found.append(self._store.save(replace(one, crc32c=both[0], md5=both[1])) if both[0] else one)
        return found

    def _kept(self, one: StoredObject, sums: tuple[str, str]) -> StoredObject:
        """Store the checksums, unless the file was written meanwhile."""
        now = self._store.find(one.bucket, one.name) or one
        if (now.size, now.mtime, now.inode) != (one.size, one.mtime, one.inode):
            return now
        return self._store.save(replace(one, crc32c=sums[0], md5=sums[1]))

    async def _list(self, request: Request, bucket: str) -> Reply:
        for name in _UNSERVED:
            if request.query.get(name, "false").lower() not in {"", "false"}:
                raise StoreError(501, "notImplemented", f"The emulator does not support {name} in lists.")
        query = request.query
        limit = max(1, min(request.number("maxResults", PAGE) or PAGE, PAGE))
        found = self._store.page(
            bucket,
            prefix=query.get("prefix", ""),
            delimiter=query.get("delimiter") or "\0",
            start=max(query.get("startOffset", ""), _position(query.get("pageToken", ""))),
            end=query.get("endOffset", ""),
            limit=limit,
            trailing=request.flag("includeTrailingDelimiter"),
        )
        items = [object_json(one, self._base) for one in await self._all_summed(found.items)]
        page: dict[str, Any] = {"kind": "storage#objects", "items": items, "prefixes": list(found.prefixes)}
        if found.more:
            page["nextPageToken"] = base64.urlsafe_b64encode(found.more.encode()).decode()
        return Reply.of({key: value for key, value in page.items() if value})

    async def _change(self, request: Request, bucket: str, name: str) -> Reply:
        asked = await request.json()
        one = await self._read(request, bucket, name)
        body = {**(one.body if request.method == "PATCH" else {}), **settable(asked)}
        if request.method == "PATCH" and isinstance(asked.get("metadata"), dict):
            body["metadata"] = {**one.body.get("metadata", {}), **asked["metadata"]}
            body["metadata"] = {k: v for k, v in body["metadata"].items() if v is not None}
        body = {k: v for k, v in body.items() if k not in asked or asked[k] is not None}
        return self._resource(self._store.change(one, body))

    async def _compose(self, request: Request, bucket: str, name: str) -> Reply:
        asked = await request.json()
        sources = asked.get("sourceObjects")
        if not isinstance(sources, list) or not 0 < len(sources) <= MAX_COMPOSE:
            raise StoreError(400, "invalid", f"A compose has 1 to {MAX_COMPOSE} sourceObjects.")
        paths = []
        for source in sources:
            one = self._store.get(bucket, str(source.get("name", "")) if isinstance(source, dict) else "")
            wanted = str(source.get("generation") or one.generation)
            wanted = str((source.get("objectPreconditions") or {}).get("ifGenerationMatch", wanted))
            if wanted != str(one.generation):
                raise StoreError(412, "conditionNotMet", f"{one.name} does not have generation {wanted}.")
            paths.append(self._store.path(bucket, one.name))
        conditions = conditions_of(request)
        conditions.check(self._store.find(bucket, name))
        body = {"componentCount": len(paths), **settable(asked.get("destination") or {})}
        body.setdefault("contentType", "application/octet-stream")
        target = NewObject(bucket, name, body, conditions)
        with self.uploads.part() as part:
            await asyncio.to_thread(_join, part, paths)
            crc32c, _ = await asyncio.to_thread(checksums_of, part)
            return self._resource(self._store.put(target, part, (crc32c, "")))

    async def _copy(
        self, request: Request, source: tuple[str, str], target: tuple[str, str], rewrite: bool
    ) -> Reply:
        asked = await request.json()
        one = await self._source(request, *source)
        made = await self._copied(request, one, target, settable(asked) if asked else {})
        resource = object_json(made, self._base)
        if not rewrite:
            return Reply.of(resource)
        size = str(made.size)
        done = {"kind": "storage#rewriteResponse", "totalBytesRewritten": size, "objectSize": size}
        return Reply.of({**done, "done": True, "resource": resource})

    async def _move(self, request: Request, bucket: str, name: str, to_name: str) -> Reply:
        one = await self._source(request, bucket, name)
        made = await self._copied(request, one, (bucket, to_name), {})
        if to_name != name:
            self._store.delete(bucket, name)
        return self._resource(made)

    async def _source(self, request: Request, bucket: str, name: str) -> StoredObject:
        one = self._store.get(bucket, name)
        if request.number("sourceGeneration", one.generation) != one.generation:
            raise StoreError(404, "notFound", f"No such object: {bucket}/{name}")
        conditions_of(request, source=True).check(one)
        return await self._summed(one)

    async def _copied(
        self, request: Request, one: StoredObject, target: tuple[str, str], body: dict[str, Any]
    ) -> StoredObject:
        conditions = conditions_of(request)
        conditions.check(self._store.find(*target))
        with self.uploads.part() as part:
            await asyncio.to_thread(_join, part, [self._store.path(one.bucket, one.name)])
            if part.stat().st_size != one.size:
                raise StoreError(503, "backendError", f"{one.name} was written meanwhile; try again.")
            wanted = NewObject(*target, {**one.body, **body}, conditions)
            return self._store.put(wanted, part, (one.crc32c, one.md5))


def _sums_as_listed(root: Path, one: StoredObject) -> tuple[str, str] | None:
    """Checksums; None for a deleted file, empty ones for a file that was written meanwhile."""
    path = root / one.name
    try:
        sums, now = checksums_of(path), path.lstat()
    except OSError:
        return None
    return (
        sums if (now.st_size, now.st_mtime_ns, now.st_ino) == (one.size, one.mtime, one.inode) else ("", "")
    )


def _join(part: Path, sources: Sequence[Path]) -> None:
    with part.open("xb") as to:
        for source in sources:
            if source.is_dir():  # a folder's placeholder has no content
                continue
            with source.open("rb") as file:
                shutil.copyfileobj(file, to, BLOCK)


def _range(text: str, size: int) -> tuple[int, int, bool]:
    """First and last byte, and whether a range was requested; first > last if it can't be satisfied.

    An invalid range, or several ranges, count as none: the service replies with the whole content then.
    """
    match = _RANGE.fullmatch(text.strip())
    if match is None or not (match[1] or match[2]):
        return 0, size - 1, False
    if not match[1]:
        return (max(0, size - int(match[2])), size - 1, True) if int(match[2]) else (1, 0, True)
    first = int(match[1])
    last = min(int(match[2]), size - 1) if match[2] else size - 1
    return (first, last, True) if first < size else (1, 0, True)


def _position(token: str) -> str:
    """Name at which a page begins. Raises StoreError 400."""
    try:
        return base64.b64decode(token, altchars=b"-_", validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        raise StoreError(400, "invalid", "Invalid pageToken.") from None
