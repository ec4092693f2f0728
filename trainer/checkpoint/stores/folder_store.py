"""Checkpoints in a folder: another disk, or a bucket's mount (docs/facts/vertex.md 3.7)."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from trainer.checkpoint.manifest import MANIFEST, Manifest, step_folders, step_of
from trainer.checkpoint.stores.remote_store import MissingError, RemoteStoreError
from trainer.errors import CheckpointError


class FolderStore:
    """A `RemoteStore` in a folder."""

    def __init__(self, root: Path) -> None:
        self.name, self._root = str(root), root

    def steps(self) -> list[int]:
        try:
            return [step_of(path) for path in step_folders(self._root) if (path / MANIFEST).exists()]
        except OSError as error:
            raise RemoteStoreError(f"{self._root}: {error.strerror}") from error

    def manifest(self, step: int) -> Manifest:
        path = self._root / f"step-{step}" / MANIFEST
        try:
            return Manifest.from_json(path.read_text())
        except OSError as error:
            raise RemoteStoreError(f"{path}: {error.strerror}") from error
        except (ValueError, KeyError, TypeError) as error:
            raise CheckpointError(f"{path} can't be read: {error}") from error

    def upload(self, step: int, folder: Path, names: Iterable[str]) -> None:
        self._copy(folder, self._root / f"step-{step}", names)

    def commit(self, step: int, manifest: Manifest) -> None:
        folder = self._root / f"step-{step}"
        # Write under a temporary name first: no reader sees an incomplete file.
        new = folder / f"{MANIFEST}.new"
        try:
            with new.open("w") as file:
                file.write(manifest.to_json())
                file.flush()
                os.fsync(file.fileno())
            new.rename(folder / MANIFEST)
        except OSError as error:
            raise RemoteStoreError(f"{folder}: {error.strerror}") from error

    def download(self, step: int, folder: Path, names: Iterable[str]) -> None:
        self._copy(self._root / f"step-{step}", folder, names)

    def delete(self, step: int) -> None:
        folder = self._root / f"step-{step}"
        try:
            (folder / MANIFEST).unlink(missing_ok=True)
            shutil.rmtree(folder, ignore_errors=True)
        except OSError as error:
            raise RemoteStoreError(f"{folder}: {error.strerror}") from error

    def upload_file(self, file: Path, name: str) -> None:
        try:
            self._root.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, self._root / name)
            with (self._root / name).open("rb") as copied:
                os.fsync(copied.fileno())
        except OSError as error:
            raise RemoteStoreError(f"{self._root}: {error.strerror or error}") from error

    def delete_file(self, name: str) -> None:
        try:
            (self._root / name).unlink(missing_ok=True)
        except OSError as error:
            raise RemoteStoreError(f"{self._root}: {error.strerror}") from error

    @staticmethod
    def _copy(source: Path, target: Path, names: Iterable[str]) -> None:
        for name in names:
            try:
                (target / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source / name, target / name)
                with (target / name).open("rb") as file:
                    os.fsync(file.fileno())
            except OSError as error:
                missing = isinstance(error, FileNotFoundError) and str(error.filename) == str(source / name)
                kind = MissingError if missing else RemoteStoreError
                raise kind(f"{target / name}: {error.strerror or error}") from error
