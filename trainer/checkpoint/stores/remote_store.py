"""The interface of remote stores, for checkpoints that must survive the machine."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from trainer.checkpoint.manifest import Manifest


class RemoteStoreError(Exception):
    """A store failed; the message names the store and the reason. A retry may succeed."""


class MissingError(RemoteStoreError):
    """The store answered that this bucket or file does not exist, so a retry can't succeed."""


class RemoteStore(Protocol):
    """Checkpoints by step. Every method may raise RemoteStoreError."""

    name: str

    def steps(self) -> list[int]:
        """Return the steps with a manifest, the highest first. The call fails within seconds, so that the
        caller can retry."""

    def manifest(self, step: int) -> Manifest:
        """Return the manifest of a step. Raises CheckpointError if the file there is not a manifest."""

    def upload(self, step: int, folder: Path, names: Iterable[str]) -> None:
        """Copy files of `folder` to the step, and verify the copies. `commit` completes the checkpoint."""

    def commit(self, step: int, manifest: Manifest) -> None:
        """Write the manifest, which completes the checkpoint."""

    def download(self, step: int, folder: Path, names: Iterable[str]) -> None:
        """Copy the files `names` of a step into `folder`."""

    def delete(self, step: int) -> None:
        """Delete a checkpoint, its manifest first."""

    def upload_file(self, file: Path, name: str) -> None:
        """Copy one file that belongs to no checkpoint to `name`, and verify the copy."""

    def delete_file(self, name: str) -> None:
        """Delete a file that `upload_file` copied."""
