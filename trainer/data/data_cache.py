"""Files derived from `--data`, on the node's disk: each is written once and mapped by every process.

A file's name is a hash of its inputs: different data has a different name, and a restart finds the file of
the first start. The folder may be deleted while no run uses it.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from trainer.checkpoint.locations import checkpoint_folder
from trainer.cloud_paths import bucket_path, local_path
from trainer.config import Config
from trainer.errors import DataError

_NAME = "data-cache"


class DataProgress:
    """Receives the progress of the data's preparation; this base class reports nothing."""

    def begin(self, name: str, size: int, unit: str = "MB") -> None:
        """Begin to write a file from `size` units of the data."""

    def read(self, count: int) -> None:
        """Count `count` more units as read. `count` is 0 while another process writes the file."""

    def ready(self, text: str) -> None:
        """Report that the file is usable."""


def cache_folder(config: Config) -> Path:
    """Return the folder for derived files: beside the checkpoints, unless these are in a bucket."""
    data, checkpoints = config.data.data_cache, config.checkpoint.checkpoint_dir
    if data:
        return local_path(data)
    return Path(_NAME) if bucket_path(checkpoints) else checkpoint_folder(checkpoints).parent / _NAME


def cache_name(**origin: Any) -> str:
    """Return a file name for the data that is derived from `origin`, JSON values."""
    return hashlib.blake2b(json.dumps(origin, sort_keys=True).encode(), digest_size=12).hexdigest()


@contextlib.contextmanager
def only_writer(path: Path, progress: DataProgress) -> Iterator[None]:
    """Wait until no other process of this machine writes the file. The lock of a dead process is released.
    Raises DataError if the folder can't be written to."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = path.with_suffix(".lock").open("w")
    except OSError as error:
        raise DataError(
            f"{path.parent} can't be written to: {error.strerror}; --data-cache selects another folder"
        ) from error
    with lock:
        while not _locked(lock.fileno()):
            progress.read(0)
            time.sleep(0.1)
        yield


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        # Some network file systems have no locks: two processes may then write the same content.
        return True
    return True
