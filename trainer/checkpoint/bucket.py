"""Checkpoints in Cloud Storage by its own client: many files at a time, resumable, verified by CRC32C."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
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
from trainer.checkpoint.place import PlaceError

T = TypeVar("T")
_FAILURES = (GoogleAPIError, GoogleAuthError, RequestException, DataCorruption, InvalidResponse, OSError)
_PATIENCE = 30.0
"""Seconds of the client's own retries; the uploader comes again later."""
_AT_A_TIME = 8


class Bucket:
    """Implements `Place` for `gs://bucket/prefix`."""

    def __init__(self, uri: str) -> None:
        self.name = uri.rstrip("/")
        bucket, _, prefix = self.name.removeprefix("gs://").partition("/")
        self._prefix = f"{prefix}/" if prefix else ""
        local = bool(os.environ.get("STORAGE_EMULATOR_HOST"))
        project = os.environ.get("CLOUD_ML_PROJECT_ID") or os.environ.get("GOOGLE_CLOUD_PROJECT")
        kw: dict[str, Any] = (
            {"credentials": AnonymousCredentials(), "project": project or "local"} if local else {}
        )
        self._client = self._ask(lambda: storage.Client(**kw))
        self._bucket = self._client.bucket(bucket)
        self._retry = DEFAULT_RETRY.with_timeout(_PATIENCE)

    def steps(self) -> list[int]:
        prefix = f"{self._prefix}step-"
        wanted = "items(name),nextPageToken"
        blobs = self._ask(lambda: list(self._client.list_blobs(self._bucket, prefix=prefix, fields=wanted)))
        names = [blob.name for blob in blobs if blob.name.endswith(f"/{MANIFEST}")]
        found = {name.removeprefix(prefix).removesuffix(f"/{MANIFEST}") for name in names}
        return sorted((int(n) for n in found if n.isdigit()), reverse=True)

    def manifest(self, step: int) -> Manifest:
        blob = self._bucket.blob(self._key(step, MANIFEST))
        text = self._ask(lambda: blob.download_as_bytes(retry=self._retry))
        try:
            return Manifest.from_json(text)
        except (ValueError, KeyError, TypeError) as error:
            raise PlaceError(f"{self.name}/step-{step}/{MANIFEST} can't be read: {error}") from error

    def put(self, step: int, folder: Path, names: Iterable[str]) -> None:
        listed = list(names)
        results = self._ask(
            lambda: transfer_manager.upload_many_from_filenames(
                self._bucket,
                listed,
                source_directory=str(folder),
                blob_name_prefix=self._key(step, ""),
                upload_kwargs={"checksum": "crc32c", "retry": self._retry},
                worker_type=transfer_manager.THREAD,
                max_workers=_AT_A_TIME,
            )
        )
        self._check(listed, results)

    def seal(self, step: int, manifest: Manifest) -> None:
        blob = self._bucket.blob(self._key(step, MANIFEST))
        text = manifest.to_json()
        self._ask(
            lambda: blob.upload_from_string(
                text, content_type="application/json", checksum="crc32c", retry=self._retry
            )
        )

    def get(self, step: int, folder: Path, names: Iterable[str]) -> None:
        listed = list(names)
        results = self._ask(
            lambda: transfer_manager.download_many_to_path(
                self._bucket,
                listed,
                destination_directory=str(folder),
                blob_name_prefix=self._key(step, ""),
                download_kwargs={"checksum": "crc32c", "retry": self._retry},
                worker_type=transfer_manager.THREAD,
                max_workers=_AT_A_TIME,
                create_directories=True,
            )
        )
        self._check(listed, results)

    def remove(self, step: int) -> None:
        blobs = self._ask(lambda: list(self._client.list_blobs(self._bucket, prefix=self._key(step, ""))))
        blobs.sort(key=lambda blob: not blob.name.endswith(f"/{MANIFEST}"))
        for blob in blobs:
            try:
                self._ask(blob.delete)
            except PlaceError as error:
                if not isinstance(error.__cause__, NotFound):
                    raise

    def send(self, file: Path, name: str) -> None:
        blob = self._bucket.blob(f"{self._prefix}{name}")
        self._ask(lambda: blob.upload_from_filename(str(file), checksum="crc32c", retry=self._retry))

    def drop(self, name: str) -> None:
        self._ask(self._bucket.blob(f"{self._prefix}{name}").delete)

    def _key(self, step: int, name: str) -> str:
        return f"{self._prefix}step-{step}/{name}"

    def _check(self, names: list[str], results: list[Any]) -> None:
        for name, result in zip(names, results, strict=True):
            if isinstance(result, BaseException):
                raise PlaceError(f"{self.name}: {name}: {result}") from result

    def _ask(self, call: Callable[[], T]) -> T:
        try:
            return call()
        except _FAILURES as error:
            raise PlaceError(f"{self.name}: {error}") from error
