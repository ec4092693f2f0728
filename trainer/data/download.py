"""Copy inputs in Cloud Storage (`--data` and other flags) to this node's disk if no bucket is mounted."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from trainer.checkpoint.stores.remote_store import RemoteStoreError
from trainer.cloud_paths import bucket_path, buckets_mounted
from trainer.config import Config
from trainer.distributed.process_group import ProcessGroup
from trainer.distributed.wait import StoppedBySignal, wait_together
from trainer.errors import DataError
from trainer.hang import progress
from trainer.hang.heartbeat import DOWNLOADING
from trainer.structured_log import emit

FOLDER = Path("fetched")
"""Folder of the copies, by BUCKET/OBJECT; a copy that is up to date is used again."""


def download_inputs(config: Config, group: ProcessGroup, received: Callable[[], int] = lambda: 0) -> Config:
    """Return the settings with the paths of local copies instead of gs://. Every rank calls it; one rank per
    node copies.

    Images that a .jsonl file names are not copied. `received` returns the signal that this rank received, or
    0 if there is none.

    Raises:
        DataError: on every rank, if a node can't copy a file.
        StoppedBySignal: on every rank, after a signal.
    """
    data, model = config.data, config.model
    uris = [*data.data.split(","), data.tokenizer, model.weights, model.init_weights]
    paths_in_buckets = [path for uri in uris if (path := bucket_path(uri.strip())) is not None]
    if not paths_in_buckets or buckets_mounted():
        return config
    with progress.phase(DOWNLOADING):
        copying = _Copying(paths_in_buckets) if group.local_rank == 0 else None
        try:
            wait_together(group, copying.ended if copying is not None else lambda: True, received)
        except StoppedBySignal as signaled:
            if copying is not None:
                copying.report_interrupted(signaled.number)
            raise
        problem = group.first_problem(copying.result() if copying is not None else None)
    if problem:
        raise DataError(problem)
    paths = ",".join(map(_copy_of, data.data.split(",")))
    return replace(
        config,
        data=replace(data, data=paths, tokenizer=_copy_of(data.tokenizer)),
        model=replace(model, weights=_copy_of(model.weights), init_weights=_copy_of(model.init_weights)),
    )


def _copy_of(uri: str) -> str:
    path = bucket_path(uri.strip())
    return uri.strip() if path is None else str(FOLDER / path)


class _Copying(threading.Thread):
    """A daemon thread that copies the inputs, so that a signal need not wait for a bucket."""

    def __init__(self, paths: list[str]) -> None:
        super().__init__(name="copy inputs", daemon=True)
        self._paths, self._at = paths, ""
        self._problem: str | None = None
        self._error: Exception | None = None
        self.start()

    def run(self) -> None:
        try:
            self._problem = self._copy_all()
        except Exception as error:  # noqa: BLE001 - the main thread raises it
            self._error = error

    def ended(self) -> bool:
        return not self.is_alive()

    def result(self) -> str | None:
        """Return the problem with the bucket, or None if there is none. Raises any other error of the
        thread."""
        if self._error is not None:
            raise self._error
        return self._problem

    def report_interrupted(self, number: int) -> None:
        name = signal.Signals(number).name
        text = f"{name} while {self._at or 'an input'} was copied to this node: a restart copies the rest"
        emit("phase", text, severity="WARNING", phase="starting")

    def _copy_all(self) -> str | None:
        """Copy all inputs; return the problem, or None if there is none."""
        from trainer.checkpoint.stores.gcs_store import GcsStore  # noqa: PLC0415 - imports for half a second

        for path in self._paths:
            uri, began = f"gs://{path}", time.monotonic()
            self._at = uri
            emit("phase", f"copying {uri} to this node", phase="starting")
            try:
                size = GcsStore(uri).download_tree(FOLDER)
            except RemoteStoreError as error:
                return f"{uri} can't be copied to this node, where no bucket is mounted: {error}"
            text = f"{uri}: {size / 1e6:,.1f} MB copied to this node in {time.monotonic() - began:.1f} s"
            emit("phase", text, phase="starting")
        return None
