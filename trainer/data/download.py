"""Copies of inputs in Cloud Storage (`--data` and others) on this node's disk if no bucket is mounted."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

from trainer.checkpoint.remote_store import RemoteStoreError
from trainer.cloud_paths import bucket_path, buckets_mounted
from trainer.config import Config
from trainer.distributed.process_group import ProcessGroup
from trainer.errors import DataError
from trainer.hang import progress
from trainer.hang.heartbeat import DOWNLOADING
from trainer.structured_log import emit

FOLDER = Path("fetched")
"""Copies are at BUCKET/OBJECT below it; one that is up to date is used again."""


def download_inputs(config: Config, group: ProcessGroup) -> Config:
    """The settings with paths of copies instead of gs://. Every rank calls it; one rank of each node copies.

    Images that a .jsonl names are not copied.

    Raises:
        DataError: on every rank, if a node can't copy a file.
    """
    data, model = config.data, config.model
    uris = [*data.data.split(","), data.tokenizer, model.weights, model.init_weights]
    paths_in_buckets = [path for uri in uris if (path := bucket_path(uri.strip())) is not None]
    if not paths_in_buckets or buckets_mounted():
        return config
    with progress.phase(DOWNLOADING):
        problem = _download_all(paths_in_buckets) if group.local_rank == 0 else None
        problem = group.first_problem(problem)
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


def _download_all(paths: list[str]) -> str | None:
    """The problem, or None."""
    from trainer.checkpoint.gcs_store import GcsStore  # noqa: PLC0415 - imports for half a second

    for path in paths:
        uri, began = f"gs://{path}", time.monotonic()
        try:
            size = GcsStore(uri).download_tree(FOLDER)
        except RemoteStoreError as error:
            return f"{uri} can't be copied to this node, where no bucket is mounted: {error}"
        seconds = time.monotonic() - began
        emit("phase", f"{uri}: {size / 1e6:,.1f} MB copied to this node in {seconds:.1f} s", phase="starting")
    return None
