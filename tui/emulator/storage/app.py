"""Google Cloud Storage's JSON API over the folders of `buckets/`, as an ASGI application.

A client that can write here can change a package that a job runs. Therefore, the path of the address contains
a secret of the state directory, which clients accept in a base address. gcloud drops this path for uploads,
so it sends the token of REST instead. The server accepts only loopback names and no requests from a browser's
page.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import logging
import sqlite3
from typing import Any

from tui.emulator.database import remedy
from tui.emulator.paths import StateDir
from tui.emulator.rpc.loopback import host_only, is_loopback
from tui.emulator.storage.faults import ActiveBucketFaults, raise_fault
from tui.emulator.storage.http import (
    BucketRequest,
    ClientDisconnected,
    ConnectionCut,
    Receive,
    Reply,
    Scope,
    Send,
    error_reply,
    send_reply,
)
from tui.emulator.storage.names import InvalidObjectName
from tui.emulator.storage.objects import ObjectHandler
from tui.emulator.storage.resources import BUCKET_FIELDS, bucket_json, layout_json
from tui.emulator.storage.store import BucketStore, StoreError
from tui.emulator.storage.xml_multipart import XmlMultipartUploads

log = logging.getLogger(__name__)

PAGE = 1000
"""Page size limit."""
_PERMISSIONS = "storage#testIamPermissionsResponse"


class BucketApp:
    """The application. `base` is the clients' address, with the secret; an empty `key` disables the check.

    The first request opens the store. If that fails, the next request tries again.
    """

    _store: BucketStore
    _objects: ObjectHandler
    _multiparts: XmlMultipartUploads

    def __init__(
        self, state: StateDir, faults: ActiveBucketFaults, base: str, key: str, project_number: str
    ) -> None:
        self._state = state
        self._faults = faults
        self._base = base
        self._key = key
        self._project_number = project_number
        self._is_open = False

    def close(self) -> None:
        """Close the store."""
        if self._is_open:
            self._store.close()
            self._is_open = False

    def _open(self) -> None:
        """Open the store. Raises sqlite3.Error, OSError."""
        if not self._is_open:
            self._store = BucketStore(self._state.buckets, self._state.bucket_database)
            self._is_open = True
            self._objects = ObjectHandler(self._store, self._base)
            self._multiparts = XmlMultipartUploads(self._store, self._objects.uploads)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        request = BucketRequest(scope, receive)
        media = request.query.get("alt") == "media"
        try:
            reply = await self._answer(request)
            await send_reply(send, reply, head=request.method == "HEAD")
            return
        except ClientDisconnected:
            return
        except ConnectionCut:
            # The reply is incomplete, so the server closes the connection.
            short = [(b"content-length", b"1")]
            await send({"type": "http.response.start", "status": 503, "headers": short})
            return
        except StoreError as error:
            reply = error_reply(error, media=media)
        except InvalidObjectName as error:
            reply = error_reply(StoreError(400, "invalid", str(error)))
        except OSError as error:
            # 507 instead of 503, which a client would retry for minutes.
            log.warning("%s on %s: %s", request.method, "/".join(request.parts), error)
            why = f"The emulator's disk refuses this: {error.strerror or error}."
            reply = error_reply(StoreError(507, "insufficientStorage", why))
        except sqlite3.Error as error:
            log.warning("%s on %s: %s", request.method, "/".join(request.parts), error)
            file = self._state.bucket_database
            why = f"The emulator can't use {file}: {error}. {remedy(file, error)}"
            reply = error_reply(StoreError(507, "insufficientStorage", why))
        except Exception:
            log.exception("%s failed", request.method)
            reply = error_reply(
                StoreError(
                    500,
                    "internalError",
                    "Internal error of the emulator; `vxtui emulator logs` shows the reason.",
                )
            )
        with contextlib.suppress(ClientDisconnected, ConnectionCut):
            await request.drain()
            await send_reply(send, reply, head=request.method == "HEAD")

    async def _answer(self, request: BucketRequest) -> Reply:
        self._authorize(request)
        parts = request.parts
        if parts[:2] == ["resumable", "upload"]:
            # gcloud's name for the path of a resumable upload.
            del parts[0]
        bucket = _bucket_of(parts)
        faults = self._faults.take(bucket)
        request.cut_after = faults.cut_after
        if faults.delay:
            await asyncio.sleep(faults.delay)
        if parts[-2:] == ["iam", "testPermissions"] and faults.kind == "denied":
            # This method never fails: the reply has no permissions.
            return Reply.of({"kind": _PERMISSIONS})
        raise_fault(faults)
        self._open()
        match parts:
            case ["storage", "v1", "b"]:
                return await self._buckets(request)
            case ["storage", "v1", "b", name]:
                return await self._bucket(request, name)
            case ["storage", "v1", "b", name, "storageLayout"] if request.method == "GET":
                return Reply.of(layout_json(self._bucket_json(self._store.bucket(name))))
            case ["storage", "v1", "b", name, "iam", "testPermissions"]:
                self._store.bucket(name)
                permissions = request.queries.get("permissions", [])
                return Reply.of({"kind": _PERMISSIONS, "permissions": permissions})
            case ["storage", "v1", "b", name, "o", *rest]:
                return await self._objects.answer(request, name, rest)
            case ["download", "storage", "v1", "b", name, "o", what] if request.method in {"GET", "HEAD"}:
                return await self._objects.download(request, name, what)
            case ["upload", "storage", "v1", "b", name, "o"]:
                return await self._objects.upload(request, name)
            case ["storage" | "upload" | "download" | "batch", *_]:
                raise _unserved(request)
            case [name, *rest] if rest and rest[0]:
                return await self._multiparts.answer(request, name, "/".join(rest))
        raise _unserved(request)

    def _authorize(self, request: BucketRequest) -> None:
        """Check the client and remove the secret from the path. Raises StoreError."""
        host = request.headers.get("host", "")
        if not is_loopback(host_only(host)) or "origin" in request.headers:
            raise StoreError(
                403,
                "forbidden",
                "The emulator accepts only loopback names, and refuses requests from web pages.",
            )
        if not self._key:
            return
        sent_key = request.parts[0].encode("utf-8", "replace") if request.parts else b""
        if hmac.compare_digest(sent_key, self._key.encode()):
            del request.parts[0]
        elif not self._has_token(request):
            raise StoreError(
                401,
                "required",
                "The address lacks this emulator's secret. Set STORAGE_EMULATOR_HOST to the complete "
                "address of the buckets from `vxtui emulator status`.",
            )

    def _has_token(self, request: BucketRequest) -> bool:
        scheme, _, credentials = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not self._state.token.exists():
            return False
        token = self._state.token.read_bytes().strip()
        return bool(token) and hmac.compare_digest(credentials.strip().encode("utf-8", "replace"), token)

    async def _buckets(self, request: BucketRequest) -> Reply:
        if request.method == "POST":
            body = await request.json()
            kept = {k: v for k, v in body.items() if k in BUCKET_FIELDS}
            bucket = self._store.create_bucket(str(body.get("name", "")), kept)
            return Reply.of(self._bucket_json(bucket))
        if request.method != "GET":
            raise _unserved(request)
        prefix, token = request.query.get("prefix", ""), request.query.get("pageToken", "")
        limit = max(1, min(request.number("maxResults", PAGE) or PAGE, PAGE))
        buckets = [b for b in self._store.buckets() if b.name.startswith(prefix) and b.name >= token]
        page: dict[str, Any] = {
            "kind": "storage#buckets",
            "items": [self._bucket_json(b) for b in buckets[:limit]],
        }
        if len(buckets) > limit:
            page["nextPageToken"] = buckets[limit].name
        return Reply.of(page)

    async def _bucket(self, request: BucketRequest, name: str) -> Reply:
        bucket = self._store.bucket(name)
        _check_metageneration(request, bucket.metageneration)
        if request.method == "GET":
            return Reply.of(self._bucket_json(bucket))
        if request.method == "DELETE":
            self._store.delete_bucket(name)
            return Reply(204, kind="")
        if request.method not in {"PATCH", "PUT"}:
            raise _unserved(request)
        changes = await request.json()
        fixed = self._bucket_json(bucket)["location"]
        if str(changes.get("location", fixed)).upper() != fixed:
            raise StoreError(400, "invalid", "A bucket's location can't be changed.")
        body = {**(bucket.body if request.method == "PATCH" else {"location": fixed})}
        for field in BUCKET_FIELDS:
            if field in changes:
                body[field] = _merged(body.get(field), changes[field])
        body = {k: v for k, v in body.items() if v is not None}
        return Reply.of(self._bucket_json(self._store.change_bucket(name, body)))

    def _bucket_json(self, bucket: Any) -> dict[str, Any]:
        return bucket_json(bucket, self._base, self._project_number)


def _bucket_of(parts: list[str]) -> str:
    """Return the bucket in the request's path, or "" if there is none."""
    if "b" in parts[:4] and parts[0] in {"storage", "upload", "download"}:
        return "".join(parts[parts.index("b") + 1 :][:1])
    return "".join(parts[:1])


def _merged(old: Any, new: Any) -> Any:
    """Apply a patch: it replaces the keys that it names and removes those that it sets to null."""
    if isinstance(old, dict) and isinstance(new, dict):
        return {k: v for k, v in {**old, **new}.items() if v is not None}
    return new


def _check_metageneration(request: BucketRequest, current: int) -> None:
    expected, unwanted = request.number("ifMetagenerationMatch"), request.number("ifMetagenerationNotMatch")
    if expected not in {None, current} or unwanted == current:
        raise StoreError(
            412, "conditionNotMet", "At least one of the pre-conditions you specified did not hold."
        )


def _unserved(request: BucketRequest) -> StoreError:
    path = "/" + "/".join(request.parts)
    return StoreError(
        400, "notImplemented", f"The emulator does not serve {request.method} {path[:200]} of Cloud Storage."
    )
