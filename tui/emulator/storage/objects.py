"""The JSON API of objects: resource, list, upload, download, compose, copy, rewrite, delete."""

from __future__ import annotations

import asyncio
import base64
import binascii
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tui.emulator.rpc.paging import in_slices
from tui.emulator.storage.http import BucketRequest, Reply
from tui.emulator.storage.resources import media_headers, object_json
from tui.emulator.storage.store import (
    BLOCK,
    BucketStore,
    NewObject,
    StoredObject,
    StoreError,
    checksums_of,
    join_files,
)
from tui.emulator.storage.upload import Uploads, conditions_of, settable

PAGE = 1000
LIST_CHECKSUM_BYTES = 64 * BLOCK
"""Bytes of files from /gcs for which a list computes checksums. Other files need a separate request."""
MAX_COMPOSE = 32
_RANGE = re.compile(r"bytes=(\d*)-(\d*)")
# `versions` is served, because each object has only one.
_UNSERVED = ("matchGlob", "softDeleted")


class ObjectHandler:
    """Handler of one store. `base` is the clients' address."""

    def __init__(self, store: BucketStore, base: str) -> None:
        self._store = store
        self._base = base
        self.uploads = Uploads(store)

    async def answer(self, request: BucketRequest, bucket: str, rest: Sequence[str]) -> Reply:
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
                obj = self._current(request, bucket, name)
                conditions_of(request).check(obj)
                self._store.delete(bucket, name)
                return Reply(204, kind="")
            case ("POST", [name, "compose"]):
                return await self._compose(request, bucket, name)
            case ("POST", [name, "rewriteTo" | "copyTo" as how, "b", to_bucket, "o", to_name]):
                return await self._copy(request, (bucket, name), (to_bucket, to_name), how == "rewriteTo")
            case ("POST", [name, "moveTo", "o", to_name]):
                return await self._move(request, bucket, name, to_name)
        raise StoreError(
            400, "notImplemented", f"The emulator does not serve {request.method} on {'/'.join(rest)[:200]}."
        )

    async def upload(self, request: BucketRequest, bucket: str) -> Reply:
        """Serve `/upload/storage/v1/b/BUCKET/o`."""
        self._store.folder(bucket)
        key = request.query.get("upload_id", "")
        if key and request.method == "PUT":
            created = await self.uploads.resume(bucket, key, request)
            return created if isinstance(created, Reply) else self._resource(created)
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
        raise StoreError(
            400, "invalid", f"uploadType must be media, multipart or resumable, not {kind[:40]!r}."
        )

    async def download(self, request: BucketRequest, bucket: str, name: str) -> Reply:
        """Answer with the content or the requested range. Raises StoreError 304, 404, 416."""
        obj = await self._read(request, bucket, name)
        path = self._store.path(bucket, name)
        headers = media_headers(obj)
        kind = str(obj.body.get("contentType", "application/octet-stream"))
        kind = " ".join(kind.encode("ascii", "replace").decode().split())
        first, last, partial = _range(request.headers.get("range", ""), obj.size)
        if not partial:
            return Reply(200, headers=headers, kind=kind, file=path, size=obj.size)
        if first > last:
            text = f"The requested range cannot be satisfied: the object has {obj.size} bytes."
            not_satisfiable = {"content-range": f"bytes */{obj.size}"}
            return Reply(416, text.encode(), not_satisfiable, kind="text/html; charset=UTF-8")
        headers["content-range"] = f"bytes {first}-{last}/{obj.size}"
        return Reply(206, headers=headers, kind=kind, file=path, offset=first, size=last - first + 1)

    def _resource(self, obj: StoredObject) -> Reply:
        return Reply.of(object_json(obj, self._base))

    def _current(self, request: BucketRequest, bucket: str, name: str) -> StoredObject:
        """Return the object, in the requested generation if the request names one. Only the newest generation
        is stored."""
        obj = self._store.get(bucket, name)
        if request.number("generation", obj.generation) != obj.generation:
            raise StoreError(404, "notFound", f"No such object: {bucket}/{name}")
        return obj

    async def _read(self, request: BucketRequest, bucket: str, name: str) -> StoredObject:
        """Return the object with checksums if the preconditions of the read hold."""
        obj = self._current(request, bucket, name)
        conditions = conditions_of(request)
        replace(conditions, not_generation=None, not_metageneration=None).check(obj)
        same = (conditions.not_generation, conditions.not_metageneration)
        if obj.generation == same[0] or obj.metageneration == same[1]:
            raise StoreError(304, "notModified", "")
        return await self._summed(obj)

    async def _summed(self, obj: StoredObject) -> StoredObject:
        """Return the object with checksums, which are computed here for a file that a job wrote."""
        if obj.crc32c or obj.name.endswith("/"):
            return obj
        sums = await asyncio.to_thread(checksums_of, self._store.path(obj.bucket, obj.name))
        return self._kept(obj, sums)

    async def _all_summed(self, ones: Sequence[StoredObject]) -> list[StoredObject]:
        """Return the objects of a page, with checksums up to `LIST_CHECKSUM_BYTES`."""
        left, unsummed = LIST_CHECKSUM_BYTES, []
        for obj in ones:
            if not obj.crc32c and not obj.name.endswith("/") and obj.size <= left:
                left -= obj.size
                unsummed.append(obj)
        # A list follows no links, so a name is the file's path, and the slow check for links is not needed.
        root = self._store.folder(ones[0].bucket) if unsummed else Path()
        sums = await asyncio.to_thread(lambda: [_sums_as_listed(root, obj) for obj in unsummed])
        sums_by_name = {obj.name: both for obj, both in zip(unsummed, sums, strict=True)}
        summed = []
        with self._store.transaction():
            for obj in ones:
                both = sums_by_name.get(obj.name, ("", ""))
                if both is None:  # deleted in the meantime
                    continue
                summed.append(self._store.save(replace(obj, crc32c=both[0], md5=both[1])) if both[0] else obj)
        return summed

    def _kept(self, obj: StoredObject, sums: tuple[str, str]) -> StoredObject:
        """Store the checksums, unless the file was written in the meantime."""
        now = self._store.find(obj.bucket, obj.name) or obj
        if (now.size, now.mtime, now.inode) != (obj.size, obj.mtime, obj.inode):
            return now
        return self._store.save(replace(obj, crc32c=sums[0], md5=sums[1]))

    async def _list(self, request: BucketRequest, bucket: str) -> Reply:
        for name in _UNSERVED:
            if request.query.get(name, "false").lower() not in {"", "false"}:
                raise StoreError(400, "notImplemented", f"The emulator does not support {name} in lists.")
        query = request.query
        limit = max(1, min(request.number("maxResults", PAGE) or PAGE, PAGE))
        objects = await asyncio.to_thread(
            self._store.page,
            bucket,
            prefix=query.get("prefix", ""),
            delimiter=query.get("delimiter") or "\0",
            start=max(query.get("startOffset", ""), _position(query.get("pageToken", ""))),
            end=query.get("endOffset", ""),
            limit=limit,
            trailing=request.flag("includeTrailingDelimiter"),
        )
        items = [
            object_json(obj, self._base) async for obj in in_slices(await self._all_summed(objects.items))
        ]
        page: dict[str, Any] = {"kind": "storage#objects", "items": items, "prefixes": list(objects.prefixes)}
        if objects.more:
            page["nextPageToken"] = base64.urlsafe_b64encode(objects.more.encode()).decode()
        return Reply.of({key: value for key, value in page.items() if value})

    async def _change(self, request: BucketRequest, bucket: str, name: str) -> Reply:
        changes = await request.json()
        obj = await self._read(request, bucket, name)
        body = {**(obj.body if request.method == "PATCH" else {}), **settable(changes)}
        if request.method == "PATCH" and isinstance(changes.get("metadata"), dict):
            body["metadata"] = {**obj.body.get("metadata", {}), **changes["metadata"]}
            body["metadata"] = {k: v for k, v in body["metadata"].items() if v is not None}
        body = {k: v for k, v in body.items() if k not in changes or changes[k] is not None}
        return self._resource(self._store.change(obj, body))

    async def _compose(self, request: BucketRequest, bucket: str, name: str) -> Reply:
        composition = await request.json()
        sources = composition.get("sourceObjects")
        if not isinstance(sources, list) or not 0 < len(sources) <= MAX_COMPOSE:
            raise StoreError(400, "invalid", f"A compose must have 1 to {MAX_COMPOSE} sourceObjects.")
        paths = []
        for source in sources:
            component = self._store.get(
                bucket, str(source.get("name", "")) if isinstance(source, dict) else ""
            )
            generation = str(source.get("generation") or component.generation)
            generation = str((source.get("objectPreconditions") or {}).get("ifGenerationMatch", generation))
            if generation != str(component.generation):
                raise StoreError(
                    412, "conditionNotMet", f"{component.name} does not have generation {generation}."
                )
            paths.append(self._store.path(bucket, component.name))
        conditions = conditions_of(request)
        conditions.check(self._store.find(bucket, name))
        body = {"componentCount": len(paths), **settable(composition.get("destination") or {})}
        body.setdefault("contentType", "application/octet-stream")
        target = NewObject(bucket, name, body, conditions)
        with self.uploads.part() as part:
            await asyncio.to_thread(join_files, part, paths)
            crc32c, _ = await asyncio.to_thread(checksums_of, part)
            return self._resource(self._store.put(target, part, (crc32c, "")))

    async def _copy(
        self, request: BucketRequest, source: tuple[str, str], target: tuple[str, str], rewrite: bool
    ) -> Reply:
        body = await request.json()
        origin = await self._source(request, *source)
        copied = await self._copied(request, origin, target, settable(body) if body else {})
        resource = object_json(copied, self._base)
        if not rewrite:
            return Reply.of(resource)
        size = str(copied.size)
        done = {"kind": "storage#rewriteResponse", "totalBytesRewritten": size, "objectSize": size}
        return Reply.of({**done, "done": True, "resource": resource})

    async def _move(self, request: BucketRequest, bucket: str, name: str, to_name: str) -> Reply:
        origin = await self._source(request, bucket, name)
        copied = await self._copied(request, origin, (bucket, to_name), {})
        if to_name != name:
            self._store.delete(bucket, name)
        return self._resource(copied)

    async def _source(self, request: BucketRequest, bucket: str, name: str) -> StoredObject:
        obj = self._store.get(bucket, name)
        if request.number("sourceGeneration", obj.generation) != obj.generation:
            raise StoreError(404, "notFound", f"No such object: {bucket}/{name}")
        conditions_of(request, source=True).check(obj)
        return await self._summed(obj)

    async def _copied(
        self, request: BucketRequest, origin: StoredObject, target: tuple[str, str], body: dict[str, Any]
    ) -> StoredObject:
        conditions = conditions_of(request)
        conditions.check(self._store.find(*target))
        with self.uploads.part() as part:
            await asyncio.to_thread(join_files, part, [self._store.path(origin.bucket, origin.name)])
            if part.stat().st_size != origin.size:
                raise StoreError(
                    503, "backendError", f"{origin.name} was written in the meantime; try again."
                )
            copy = NewObject(*target, {**origin.body, **body}, conditions)
            return self._store.put(copy, part, (origin.crc32c, origin.md5))


def _sums_as_listed(root: Path, obj: StoredObject) -> tuple[str, str] | None:
    """Return the checksums: None for a deleted file, empty for a file written in the meantime."""
    path = root / obj.name
    try:
        sums, now = checksums_of(path), path.lstat()
    except OSError:
        return None
    return (
        sums if (now.st_size, now.st_mtime_ns, now.st_ino) == (obj.size, obj.mtime, obj.inode) else ("", "")
    )


def _range(text: str, size: int) -> tuple[int, int, bool]:
    """Return first and last byte and whether a range was requested; first > last if it can't be satisfied.

    An invalid range or several ranges count as no range: the service then replies with the complete content.
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
    """Return the name at which a page begins. Raises StoreError 400."""
    try:
        return base64.b64decode(token, altchars=b"-_", validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        raise StoreError(400, "invalid", "Invalid pageToken.") from None
