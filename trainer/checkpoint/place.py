"""Where checkpoints are copied to: a folder that outlives the machine, or a bucket of Cloud Storage."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Protocol

from trainer.checkpoint.manifest import MANIFEST, Manifest, numbered
from trainer.paths import in_bucket, local_path, mounted


class PlaceError(Exception):
    """A place did not do what it was asked for; the message names it and the reason. It may be over soon."""


class Place(Protocol):
    """Checkpoints by step. Every method may raise PlaceError."""

    name: str

    def steps(self) -> list[int]:
        """Steps with a manifest, newest first."""

    def manifest(self, step: int) -> Manifest:
        """Its manifest."""

    def put(self, step: int, folder: Path, names: Iterable[str]) -> None:
        """Copy files of `folder`, verified; it is no checkpoint before `seal`."""

    def seal(self, step: int, manifest: Manifest) -> None:
        """Write the manifest."""

    def get(self, step: int, folder: Path, names: Iterable[str]) -> None:
        """Copy files into `folder`."""

    def remove(self, step: int) -> None:
        """Delete it, the manifest first."""

    def send(self, file: Path, name: str) -> None:
        """Copy one file there under this name, verified; it belongs to no checkpoint."""

    def drop(self, name: str) -> None:
        """Delete what `send` has brought."""


def place_of(uri: str) -> Place:
    """A gs:// place by the Cloud Storage client, any other as a folder.

    Where buckets are mounted and the client would have nobody to talk to ($VXTUI_GCS_ROOT without
    $STORAGE_EMULATOR_HOST) gs:// is the mounted folder too.
    """
    alone = "VXTUI_GCS_ROOT" in os.environ and not os.environ.get("STORAGE_EMULATOR_HOST")
    inside = in_bucket(uri)
    if inside is not None and not (alone or (uri.startswith("/gcs/") and mounted())):
        from trainer.checkpoint.bucket import Bucket

        return Bucket(f"gs://{inside}")
    return Folder(local_path(uri))


def checkpoint_folder(given: str) -> Path:
    """Where this node writes its checkpoints first."""
    return local_path(given) if given else Path("checkpoints")


def upload_uri(given: str, env: Mapping[str, str]) -> str:
    """Where they are copied to, or "".

    Below $AIP_CHECKPOINT_DIR each job has a folder of its own, by its id: a restart of the job finds its
    checkpoints there, and another job with the same output directory does not take them for its own.
    """
    if given or not env.get("AIP_CHECKPOINT_DIR"):
        return given
    return f"{env['AIP_CHECKPOINT_DIR'].rstrip('/')}/{env.get('CLOUD_ML_JOB_ID', 'run')}"


class Folder:
    """Implements `Place`: a disk or a bucket's mount (vertex facts 3.7)."""

    def __init__(self, root: Path) -> None:
        self.name, self._root = str(root), root

    def steps(self) -> list[int]:
        try:
            return [int(p.name[5:]) for p in numbered(self._root) if (p / MANIFEST).exists()]
        except OSError as error:
            raise PlaceError(f"{self._root}: {error.strerror}") from error

    def manifest(self, step: int) -> Manifest:
        path = self._root / f"step-{step}" / MANIFEST
        try:
            return Manifest.from_json(path.read_text())
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise PlaceError(f"{path} can't be read: {error}") from error

    def put(self, step: int, folder: Path, names: Iterable[str]) -> None:
        self._copy(folder, self._root / f"step-{step}", names)

    def seal(self, step: int, manifest: Manifest) -> None:
        folder = self._root / f"step-{step}"
        # A mount of Cloud Storage shows a file only once it is closed and whole.
        new = folder / f"{MANIFEST}.new"
        try:
            with new.open("w") as file:
                file.write(manifest.to_json())
                file.flush()
                os.fsync(file.fileno())
            new.rename(folder / MANIFEST)
        except OSError as error:
            raise PlaceError(f"{folder}: {error.strerror}") from error

    def get(self, step: int, folder: Path, names: Iterable[str]) -> None:
        self._copy(self._root / f"step-{step}", folder, names)

    def remove(self, step: int) -> None:
        folder = self._root / f"step-{step}"
        try:
            (folder / MANIFEST).unlink(missing_ok=True)
            shutil.rmtree(folder, ignore_errors=True)
        except OSError as error:
            raise PlaceError(f"{folder}: {error.strerror}") from error

    def send(self, file: Path, name: str) -> None:
        try:
            self._root.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, self._root / name)
            with (self._root / name).open("rb") as copied:
                os.fsync(copied.fileno())
        except OSError as error:
            raise PlaceError(f"{self._root}: {error.strerror or error}") from error

    def drop(self, name: str) -> None:
        try:
            (self._root / name).unlink(missing_ok=True)
        except OSError as error:
            raise PlaceError(f"{self._root}: {error.strerror}") from error

    @staticmethod
    def _copy(source: Path, target: Path, names: Iterable[str]) -> None:
        try:
            for name in names:
                (target / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source / name, target / name)
                with (target / name).open("rb") as file:
                    os.fsync(file.fileno())
        except OSError as error:
            raise PlaceError(f"{target}: {error.strerror or error}") from error
