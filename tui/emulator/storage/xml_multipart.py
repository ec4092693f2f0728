"""The part of the XML API used by Google's client: multipart uploads, and GET and HEAD of objects.

The client's transfer manager uploads the parts of a large file in parallel.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import secrets
from collections.abc import Mapping
from typing import Any
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from tui.emulator.storage.http import BucketRequest, Reply
from tui.emulator.storage.names import InvalidObjectName, check_object
from tui.emulator.storage.resources import media_headers
from tui.emulator.storage.store import BucketStore, NewObject, StoreError, checksums_of, join_files
from tui.emulator.storage.upload import Uploads, write_all

PARTS = 10_000
_NAMESPACE = "http://s3.amazonaws.com/doc/2006-03-01/"
_UPLOAD = re.compile(r"x[\w-]{32}")
_XML = "application/xml; charset=UTF-8"
_HEADERS = {
    "content-type": "contentType",
    "content-encoding": "contentEncoding",
    "content-disposition": "contentDisposition",
    "content-language": "contentLanguage",
    "cache-control": "cacheControl",
}


class XmlMultipartUploads:
    """Handler of `/BUCKET/OBJECT`. An upload's parts are `ID.1`, `ID.2`, … beside `ID.json`."""

    def __init__(self, store: BucketStore, uploads: Uploads) -> None:
        self._store = store
        self._uploads = uploads

    async def answer(self, request: BucketRequest, bucket: str, name: str) -> Reply:
        """Serve one request. Errors are in the format of the XML API."""
        try:
            return await self._answer(request, bucket, check_object(name))
        except (StoreError, InvalidObjectName) as error:
            status = error.status if isinstance(error, StoreError) else 400
            word = error.reason if isinstance(error, StoreError) else "InvalidArgument"
            inner = f"<Code>{escape(word)}</Code><Message>{escape(str(error))}</Message><Details></Details>"
            await request.drain()
            return _xml("Error", inner, status=status, namespace=False)

    async def _answer(self, request: BucketRequest, bucket: str, name: str) -> Reply:
        self._store.folder(bucket)
        query, method = request.query, request.method
        if method == "POST" and "uploads" in query:
            return self._begin(request, bucket, name)
        key = query.get("uploadId", "")
        if not key:
            return self._plain(request, bucket, name)
        session = self._session(bucket, name, key)
        if method == "PUT":
            return await self._part(request, key)
        if method == "POST":
            return await self._complete(request, key, session)
        if method == "DELETE":
            self._delete_files(key)
            return Reply(204, kind="")
        raise StoreError(405, "MethodNotAllowed", f"{method} is not served here.")

    def _plain(self, request: BucketRequest, bucket: str, name: str) -> Reply:
        if request.method not in {"GET", "HEAD"}:
            raise StoreError(
                400, "NotImplemented", "The emulator supports single uploads with the JSON API only."
            )
        obj = self._store.get(bucket, name)
        kind = str(obj.body.get("contentType", "application/octet-stream"))
        path = self._store.path(bucket, name)
        return Reply(200, headers=media_headers(obj), kind=kind, file=path, size=obj.size)

    def _begin(self, request: BucketRequest, bucket: str, name: str) -> Reply:
        key = "x" + secrets.token_urlsafe(24)
        body: dict[str, Any] = {f: request.headers[h] for h, f in _HEADERS.items() if h in request.headers}
        own = {
            h.removeprefix("x-goog-meta-"): v
            for h, v in request.headers.items()
            if h.startswith("x-goog-meta-")
        }
        session = {"bucket": bucket, "name": name, "body": body | ({"metadata": own} if own else {})}
        self._store.part_file(key, "json").write_text(json.dumps(session))
        inner = f"<Bucket>{escape(bucket)}</Bucket><Key>{escape(name)}</Key><UploadId>{key}</UploadId>"
        return _xml("InitiateMultipartUploadResult", inner)

    async def _part(self, request: BucketRequest, key: str) -> Reply:
        number = request.number("partNumber") or 0
        if not 1 <= number <= PARTS:
            raise StoreError(400, "InvalidArgument", f"partNumber must be from 1 to {PARTS}.")
        partial = self._store.part_file(key, f"{number}.{secrets.token_hex(4)}")
        try:
            await write_all(partial, request.stream())
            crc32c, md5 = await asyncio.to_thread(checksums_of, partial)
            partial.replace(self._store.part_file(key, str(number)))
        finally:
            partial.unlink(missing_ok=True)
        return Reply(200, headers={"etag": f'"{md5}"', "x-goog-hash": f"crc32c={crc32c},md5={md5}"}, kind="")

    async def _complete(self, request: BucketRequest, key: str, session: Mapping[str, Any]) -> Reply:
        paths = []
        for number, tag in _requested_parts(await request.body()):
            path = self._store.part_file(key, str(number))
            try:
                _, md5 = await asyncio.to_thread(checksums_of, path)
            except FileNotFoundError:
                raise StoreError(400, "InvalidPart", f"Part {number} was not uploaded.") from None
            if tag.strip('"') != md5:
                raise StoreError(400, "InvalidPart", f"Part {number} has a different ETag.")
            paths.append(path)
        bucket, name = session["bucket"], session["name"]
        with self._uploads.part() as part:
            await asyncio.to_thread(join_files, part, paths)
            crc32c, _ = await asyncio.to_thread(checksums_of, part)
            body = {"componentCount": len(paths), **session["body"]}
            created = self._store.put(NewObject(bucket, name, body), part, (crc32c, ""))
        self._delete_files(key)
        inner = f"<Bucket>{escape(bucket)}</Bucket><Key>{escape(name)}</Key><ETag>{created.generation}</ETag>"
        reply = _xml("CompleteMultipartUploadResult", inner)
        return Reply(reply.status, reply.body, {"x-goog-hash": f"crc32c={crc32c}"}, reply.kind)

    def _session(self, bucket: str, name: str, key: str) -> dict[str, Any]:
        session: dict[str, Any] = {}
        if _UPLOAD.fullmatch(key):
            with contextlib.suppress(OSError, ValueError):
                session = json.loads(self._store.part_file(key, "json").read_bytes())
        if (session.get("bucket"), session.get("name")) != (bucket, name):
            raise StoreError(404, "NoSuchUpload", "The requested upload was not found.")
        return session

    def _delete_files(self, key: str) -> None:
        for path in self._store.parts.glob(f"{key}.*"):
            path.unlink(missing_ok=True)


def _requested_parts(body: bytes) -> list[tuple[int, str]]:
    """Return number and tag of each part in ascending order. Raises StoreError 400."""
    try:
        if b"<!" in body:
            raise ValueError
        root = ElementTree.fromstring(body)
        parts = []
        for part in root:
            fields = {child.tag.rpartition("}")[2]: child.text or "" for child in part}
            parts.append((int(fields["PartNumber"]), fields["ETag"]))
    except (ElementTree.ParseError, KeyError, ValueError):
        raise StoreError(400, "MalformedXML", "The list of parts is malformed.") from None
    numbers = [number for number, _ in parts]
    if not parts or numbers != sorted(set(numbers)):
        raise StoreError(400, "InvalidPartOrder", "The parts must be listed by ascending number.")
    return parts


def _xml(root: str, inner: str, *, status: int = 200, namespace: bool = True) -> Reply:
    space = f" xmlns='{_NAMESPACE}'" if namespace else ""
    return Reply(
        status, f"<?xml version='1.0' encoding='UTF-8'?><{root}{space}>{inner}</{root}>".encode(), kind=_XML
    )
