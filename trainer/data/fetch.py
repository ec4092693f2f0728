"""What `--data` and the like name in Cloud Storage, copied to this node's disk where no bucket is mounted."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

from trainer.checkpoint.place import PlaceError
from trainer.config import Config, DataError
from trainer.group import ProcessGroup
from trainer.lines import emit
from trainer.paths import in_bucket, mounted

FOLDER = Path("fetched")
"""Below it BUCKET/OBJECT; what is there and has not changed is not copied again."""


def fetched(config: Config, group: ProcessGroup) -> Config:
    """The settings with the paths of copies instead of gs://. Every rank calls it, one a node copies.

    Images that a .jsonl names are left where they are.

    Raises:
        DataError: on every rank, when one node can't copy something.
    """
    data, model = config.data, config.model
    named = [*data.data.split(","), data.tokenizer, model.weights, model.init_weights]
    wanted = [inside for uri in named if (inside := in_bucket(uri.strip())) is not None]
    if not wanted or mounted():
        return config
    problem = _fetch_all(wanted) if group.local_rank == 0 else None
    problem = next((p for p in group.gather(problem) if p), None)
    if problem:
        raise DataError(problem)
    paths = ",".join(map(_copy_of, data.data.split(",")))
    return replace(
        config,
        data=replace(data, data=paths, tokenizer=_copy_of(data.tokenizer)),
        model=replace(model, weights=_copy_of(model.weights), init_weights=_copy_of(model.init_weights)),
    )


def _copy_of(uri: str) -> str:
    inside = in_bucket(uri.strip())
    return uri.strip() if inside is None else str(FOLDER / inside)


def _fetch_all(wanted: list[str]) -> str | None:
    """What went wrong, or None."""
    from trainer.checkpoint.bucket import Bucket  # noqa: PLC0415 - half a second, and only here

    for inside in wanted:
        uri, began = f"gs://{inside}", time.monotonic()
        try:
            size = Bucket(uri).fetch(FOLDER)
        except PlaceError as error:
            return f"{uri} can't be copied to this node, where no bucket is mounted: {error}"
        seconds = time.monotonic() - began
        emit("phase", f"{uri}: {size / 1e6:,.1f} MB copied to this node in {seconds:.1f} s", phase="starting")
    return None
