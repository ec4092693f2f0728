"""Cloud Storage: properties of buckets, and uploads with progress and cancel.

Google's client blocks, so each call runs in a thread. The client is imported with the first call.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path
from typing import Any, TypeVar

from tui.backends.errors import PROXY_FIX
from tui.backends.interface import (
    BackendError,
    Bucket,
    ContextInfo,
    FailedPrecondition,
    InvalidRequest,
    NotFound,
    PermissionDenied,
    Progressed,
    QuotaExceeded,
    StorageService,
    Unauthenticated,
    Unavailable,
)
from tui.backends.local.threads import in_thread
from tui.backends.reply_limit import limited
from tui.backends.vertex.transport.connect import LOGIN, Endpoint

T = TypeVar("T")

CALL_SECONDS = (10.0, 60.0)
"""Timeouts in seconds of a connection, and of the next byte of a response."""
WITHIN = 45.0
"""Timeout in seconds of a call with its repeats, except for an upload."""
CHUNK = 2 * 1024 * 1024
"""Chunk size in bytes. Each chunk reports progress, and an interrupted upload resumes after it."""


_NO_BUCKET = "bucket does not exist"
_REACH = "Try again; `vxtui doctor` shows which services can be reached."


class Cancelled(Exception):
    """Ends a thread whose caller was cancelled."""


class Storage(StorageService):
    """Buckets of one context."""

    def __init__(self, info: ContextInfo, endpoint: Endpoint) -> None:
        self._info = info
        self._endpoint = endpoint
        self._client: tuple[str | None, Any] | None = None

    async def bucket(self, name: str) -> Bucket:
        """Read a bucket. Raises NotFound, PermissionDenied, Unavailable."""
        action = f"read the bucket gs://{name}"
        return await self._call(
            action, lambda client: _bucket(client.get_bucket(name, **self._patience())), name
        )

    async def buckets(self) -> list[Bucket]:
        """Return every bucket of the project."""
        action = f"list the buckets of {self._info.project}"
        return await self._call(
            action, lambda client: list(map(_bucket, client.list_buckets(**self._patience()))), ""
        )

    async def create_bucket(self, name: str, location: str) -> Bucket:
        """Create a bucket. Raises FailedPrecondition if the name is taken."""
        action = f"create the bucket gs://{name}"
        return await self._call(
            action,
            lambda client: _bucket(client.create_bucket(name, location=location, **self._patience())),
            name,
        )

    async def allowed(self, name: str, permissions: list[str]) -> list[str]:
        """Return the given permissions that the caller has on a bucket."""
        action = f"check the permissions on gs://{name}"
        return await self._call(
            action,
            lambda client: list(client.bucket(name).test_iam_permissions(permissions, **self._patience())),
            name,
        )

    async def size_of(self, uri: str) -> int | None:
        """Return the size in bytes of the object gs://BUCKET/NAME, or `None` if the object does not exist.
        Raises NotFound for the bucket."""
        from google.api_core import exceptions as api

        bucket, name = split(uri)

        def read_size(client: Any) -> int | None:
            blob = client.bucket(bucket).blob(name)
            try:
                blob.reload(**self._patience())
            except api.NotFound as error:
                # Reading the bucket itself would need a permission that a writer may lack.
                if _NO_BUCKET in str(error) or not _reason(error.response):
                    raise
                return None
            return int(blob.size)

        return await self._call(f"read {uri}", read_size, bucket)

    def local_folder(self, uri: str) -> Path | None:
        root = self._endpoint.bucket_folder()
        return None if root is None else root / uri.removeprefix("gs://")

    async def upload(self, path: Path, uri: str, progress: Progressed | None = None) -> None:
        """Upload the file to gs://BUCKET/NAME, verified by CRC32C. The object is complete or absent.

        `progress` is called in the event loop with the bytes sent so far and the total. Cancelling ends the
        upload after the current chunk. Raises BackendError.
        """
        bucket, name = split(uri)
        cancelled = threading.Event()
        report = _in_loop(progress)

        def send(client: Any) -> None:
            size = path.stat().st_size
            with path.open("rb") as file:
                blob = client.bucket(bucket).blob(name, chunk_size=CHUNK)
                # Omit the size: with a size, the client sends up to 8 MB in one request.
                blob.upload_from_file(
                    _Reader(file, size, report, cancelled),
                    content_type="application/octet-stream",
                    checksum="crc32c",
                    **self._patience(),
                )
            report(size, size)

        try:
            await self._call(f"upload {path.name} to {uri}", send, bucket, within=None)
        finally:
            cancelled.set()

    async def _call(
        self, action: str, work: Callable[[Any], T], bucket: str, within: float | None = WITHIN
    ) -> T:
        """Run `work` with the client in a thread, for at most `within` seconds. Raises BackendError."""
        try:
            async with asyncio.timeout(within):
                await self._endpoint.ready()
                return await in_thread(lambda: work(self._connected()))
        except BackendError:
            raise
        except TimeoutError as error:
            raise Unavailable(f"Can't {action}: no answer within {within:g} s.", fix=_REACH) from error
        except Exception as error:
            raise self._endpoint.explain(_explained(error, action, bucket)) from error

    def _patience(self) -> dict[str, Any]:
        from google.cloud.storage.retry import DEFAULT_RETRY

        return {"timeout": CALL_SECONDS, "retry": DEFAULT_RETRY.with_timeout(self._endpoint.pace.patience)}

    def _connected(self) -> Any:
        """Return the client of the current address, which a restarted emulator may change."""
        from google.auth.credentials import AnonymousCredentials
        from google.cloud.storage import Client

        address = self._endpoint.storage()
        if self._client is None or self._client[0] != address:
            credentials = self._endpoint.credentials
            if address is not None:
                credentials = AnonymousCredentials()
            options = {"api_endpoint": address} if address else None
            client = Client(self._info.project, credentials=credentials, client_options=options)
            limited(client._http)
            self._client = (address, client)
        return self._client[1]


def split(uri: str) -> tuple[str, str]:
    """Return the bucket and name of gs://BUCKET/NAME. Raises ValueError."""
    bucket, slash, name = uri.removeprefix("gs://").partition("/")
    if not uri.startswith("gs://") or not bucket or not slash or not name:
        raise ValueError(f"{uri!r} must have the form gs://BUCKET/NAME")
    return bucket, name


class _Reader:
    """A file that reports how far it was read, and stops when the upload is cancelled."""

    def __init__(
        self, file: Any, size: int, report: Callable[[int, int], None], gone: threading.Event
    ) -> None:
        self._file, self._size, self._report, self._gone = file, size, report, gone

    def read(self, size: int = -1) -> bytes:
        if self._gone.is_set():
            raise Cancelled
        # Everything read before has been sent.
        self._report(self._file.tell(), self._size)
        data: bytes = self._file.read(size)
        return data

    def tell(self) -> int:
        return int(self._file.tell())

    def seek(self, *to: int) -> int:
        return int(self._file.seek(*to))


def _in_loop(progress: Progressed | None) -> Callable[[int, int], None]:
    """Wrap `progress` for calls from a thread: it runs in the current event loop."""
    loop = asyncio.get_running_loop()

    def report(done: int, total: int) -> None:
        if progress is not None and not loop.is_closed():
            loop.call_soon_threadsafe(progress, done, total)

    return report


def _bucket(bucket: Any) -> Bucket:
    """Convert a bucket of the client. Raises TypeError for a reply that is no bucket."""
    if not bucket.location or not isinstance(bucket.location, str):
        raise TypeError("a bucket must have a location")
    return Bucket(
        name=bucket.name,
        location=bucket.location.lower(),
        location_type=str(bucket.location_type or ""),
        storage_class=str(bucket.storage_class or ""),
        project_number=str(bucket.project_number or ""),
    )


def _explained(error: Exception, action: str, bucket: str) -> BackendError:
    """Convert an HTTP error, which has only a status and a text, and remove the address."""
    from google.api_core import exceptions as api

    from tui.backends.vertex.transport.errors import translate

    if isinstance(error, api.RetryError) and isinstance(error.cause, Exception):
        error = error.cause
    if isinstance(error, AttributeError | LookupError | RecursionError | TypeError | ValueError):
        problem = f"{type(error).__name__}: {error}"[:200]
        return Unavailable(
            f"Can't {action}: the reply must come from Cloud Storage ({problem}).", fix=PROXY_FIX
        )
    if isinstance(error, OSError) and hasattr(error, "request"):  # an error of the HTTP library
        kind = type(error).__name__
        return Unavailable(f"Can't {action}: no connection to Cloud Storage ({kind}).", fix=_REACH)
    # The media library raises its own error after its last retry.
    response = getattr(error, "response", None)
    status = int(getattr(response, "status_code", 0) or 0)
    if not status:
        return translate(error, action)
    reason = _reason(response)
    message = f"Can't {action}: {reason or f'the service answered {status} without a reason'}"
    if status == HTTPStatus.NOT_FOUND and not reason:
        return Unavailable(message, fix=PROXY_FIX)
    if status == HTTPStatus.NOT_FOUND:
        fix = f"Check that the bucket gs://{bucket} exists in the intended project."
        return NotFound(message, fix=fix)
    if status == HTTPStatus.UNAUTHORIZED:
        return Unauthenticated(message, fix=LOGIN)
    if status == HTTPStatus.FORBIDDEN:
        return PermissionDenied(message, fix=f"Ask for the role roles/storage.objectAdmin on gs://{bucket}.")
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        return QuotaExceeded(message, fix="Wait a little, then try again.")
    if status in {HTTPStatus.CONFLICT, HTTPStatus.PRECONDITION_FAILED}:
        return FailedPrecondition(message)
    if status == HTTPStatus.BAD_REQUEST:
        return InvalidRequest(message)
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR and status != HTTPStatus.INSUFFICIENT_STORAGE:
        return Unavailable(message, fix=_REACH)
    return BackendError(message)


def _reason(response: Any) -> str:
    """Return the message of an error reply, or "" if the reply is not one of Cloud Storage."""
    try:
        return str(response.json()["error"]["message"])
    except (AttributeError, LookupError, RecursionError, TypeError, ValueError):
        return ""
