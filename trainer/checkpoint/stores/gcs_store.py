"""Checkpoints in Cloud Storage, with the official client: parallel, resumable uploads, verified by CRC32C."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from google.api_core.exceptions import GoogleAPIError, NotFound
from google.auth.credentials import AnonymousCredentials
from google.auth.exceptions import GoogleAuthError
from google.cloud import storage
from google.cloud.storage import transfer_manager
from google.cloud.storage.exceptions import DataCorruption, InvalidResponse
from google.cloud.storage.retry import DEFAULT_RETRY
from requests.exceptions import RequestException

from trainer.checkpoint.manifest import MANIFEST, Manifest
from trainer.checkpoint.stores.remote_store import MissingError, RemoteStoreError
from trainer.errors import CheckpointError

T = TypeVar("T")
_FAILURES = (GoogleAPIError, GoogleAuthError, RequestException, DataCorruption, InvalidResponse, OSError)
_RETRY_SECONDS = 30.0
"""Seconds for which the client retries a request; the uploader tries again later."""
_LIST_SECONDS = 2.0
"""Seconds for which the client retries a listing. The caller tries again, and a signal must not wait."""
_LIST_TIMEOUT = 10.0
"""Seconds without an answer after which a listing request fails."""
_PARALLEL = 8


class GcsStore:
    """A `RemoteStore` in `gs://bucket/prefix`."""

    def __init__(self, uri: str) -> None:
        self.name = uri.rstrip("/")
        bucket, _, prefix = self.name.removeprefix("gs://").partition("/")
        self._prefix = f"{prefix}/" if prefix else ""
        local = bool(os.environ.get("STORAGE_EMULATOR_HOST"))
        project = os.environ.get("CLOUD_ML_PROJECT_ID") or os.environ.get("GOOGLE_CLOUD_PROJECT")
        kw: dict[str, Any] = (
            {"credentials": AnonymousCredentials(), "project": project or "local"} if local else {}
        )
        self._client = self._call(lambda: storage.Client(**kw))
        self._bucket = self._client.bucket(bucket)
        self._retry = DEFAULT_RETRY.with_timeout(_RETRY_SECONDS)
        self._list_retry = DEFAULT_RETRY.with_timeout(min(_RETRY_SECONDS, _LIST_SECONDS))

    def steps(self) -> list[int]:
        prefix = f"{self._prefix}step-"
        fields = "items(name),nextPageToken"
        options: dict[str, Any] = {"timeout": _LIST_TIMEOUT, "retry": self._list_retry}
        blobs = self._call(
            lambda: list(self._client.list_blobs(self._bucket, prefix=prefix, fields=fields, **options))
        )
        names = [blob.name for blob in blobs if blob.name.endswith(f"/{MANIFEST}")]
        steps = {name.removeprefix(prefix).removesuffix(f"/{MANIFEST}") for name in names}
        return sorted((int(n) for n in steps if n.isdigit()), reverse=True)

    def manifest(self, step: int) -> Manifest:
        blob = self._bucket.blob(self._key(step, MANIFEST))
        text = self._call(lambda: blob.download_as_bytes(timeout=_LIST_TIMEOUT, retry=self._list_retry))
        try:
            return Manifest.from_json(text)
        except (ValueError, KeyError, TypeError) as error:
            raise CheckpointError(f"{self.name}/step-{step}/{MANIFEST} can't be read: {error}") from error

    def upload(self, step: int, folder: Path, names: Iterable[str]) -> None:
        listed = list(names)
        results = self._call(
            lambda: transfer_manager.upload_many_from_filenames(
                self._bucket,
                listed,
                source_directory=str(folder),
                blob_name_prefix=self._key(step, ""),
                upload_kwargs={"checksum": "crc32c", "retry": self._retry},
                worker_type=transfer_manager.THREAD,
                max_workers=_PARALLEL,
            )
        )
        self._check(listed, results)

    def commit(self, step: int, manifest: Manifest) -> None:
        blob = self._bucket.blob(self._key(step, MANIFEST))
        text = manifest.to_json()
        self._call(
            lambda: blob.upload_from_string(
                text, content_type="application/json", checksum="crc32c", retry=self._retry
            )
        )

    def download(self, step: int, folder: Path, names: Iterable[str]) -> None:
        listed = list(names)
        results = self._call(
            lambda: transfer_manager.download_many_to_path(
                self._bucket,
                listed,
                destination_directory=str(folder),
                blob_name_prefix=self._key(step, ""),
                download_kwargs={"checksum": "crc32c", "retry": self._retry},
                worker_type=transfer_manager.THREAD,
                max_workers=_PARALLEL,
                create_directories=True,
            )
        )
        self._check(listed, results)

    def delete(self, step: int) -> None:
        blobs = self._call(lambda: list(self._client.list_blobs(self._bucket, prefix=self._key(step, ""))))
        blobs.sort(key=lambda blob: not blob.name.endswith(f"/{MANIFEST}"))
        for blob in blobs:
            with suppress(MissingError):
                self._call(blob.delete)

    def upload_file(self, file: Path, name: str) -> None:
        blob = self._bucket.blob(f"{self._prefix}{name}")
        self._call(lambda: blob.upload_from_filename(str(file), checksum="crc32c", retry=self._retry))

    def delete_file(self, name: str) -> None:
        self._call(self._bucket.blob(f"{self._prefix}{name}").delete)

    def download_tree(self, root: Path) -> int:
        """Copy the object, or all objects below it, to `root`/BUCKET/OBJECT; return the number of bytes
        copied.

        A token file is copied with the files next to it. A copy that is up to date is not copied again.

        Raises:
            RemoteStoreError: if the copy fails or the object does not exist.
        """
        name = self._prefix.rstrip("/")
        stem = name.removesuffix(".bin")
        blobs = self._call(lambda: list(self._client.list_blobs(self._bucket, prefix=stem)))
        names = {name, f"{stem}.json", f"{stem}.starts"} if stem != name else {name}
        blobs = [b for b in blobs if b.name in names or b.name.startswith(f"{name}/" if name else "")]
        folder = root / self._bucket.name
        pairs = [(blob, folder / blob.name) for blob in blobs if not blob.name.endswith("/")]
        if not pairs:
            raise RemoteStoreError("there is no such object")
        new = [(blob, path) for blob, path in pairs if not _is_copy(path, blob)]
        for folder in {path.parent for _, path in new}:
            if ".." in folder.parts:
                raise RemoteStoreError(f"{folder}: a path that contains .. is refused")
            self._call(partial(folder.mkdir, parents=True, exist_ok=True))
        results = self._call(
            lambda: transfer_manager.download_many(
                [(blob, f"{path}.part") for blob, path in new],
                download_kwargs={"checksum": "crc32c", "retry": self._retry},
                worker_type=transfer_manager.THREAD,
                max_workers=_PARALLEL,
            )
        )
        self._check([blob.name for blob, _ in new], results)
        for blob, path in new:
            self._call(partial(_finish_copy, Path(f"{path}.part"), path, blob))
        return sum(blob.size for blob, _ in new)

    def _key(self, step: int, name: str) -> str:
        return f"{self._prefix}step-{step}/{name}"

    def _check(self, names: list[str], results: list[Any]) -> None:
        for name, result in zip(names, results, strict=True):
            if isinstance(result, BaseException):
                kind = MissingError if isinstance(result, NotFound) else RemoteStoreError
                raise kind(f"{self.name}: {name}: {result}") from result

    def _call(self, call: Callable[[], T]) -> T:
        try:
            return call()
        except NotFound as error:
            raise MissingError(f"{self.name}: {error}") from error
        except _FAILURES as error:
            raise RemoteStoreError(f"{self.name}: {error}") from error


def _finish_copy(part: Path, path: Path, blob: storage.Blob) -> None:
    """Rename the copy and set its time to the object's time, which identifies the version."""
    updated = blob.updated.timestamp()
    os.utime(part, (updated, updated))
    part.rename(path)


def _is_copy(path: Path, blob: storage.Blob) -> bool:
    """Return whether the file is a copy of this version of the object."""
    if not path.is_file():
        return False
    stat = path.stat()
    return bool(stat.st_size == blob.size and abs(stat.st_mtime - blob.updated.timestamp()) < 1e-3)
