"""The trained model of a checkpoint, for predictions or an evaluation."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from trainer.checkpoint.locations import needs_client, open_store
from trainer.checkpoint.manifest import Manifest, read
from trainer.checkpoint.stores.remote_store import RemoteStoreError
from trainer.checkpoint.weights import newest_good
from trainer.cloud_paths import bucket_path, local_path
from trainer.config import Config, parse
from trainer.errors import CheckpointError, UsageError
from trainer.registry import model_entry, resolve
from trainer.structured_log import emit


class ServedModel(Protocol):
    """Answers the instances of a prediction request."""

    def answer(self, instances: Sequence[Any]) -> list[dict[str, Any]]:
        """Answer each instance with a prediction. Raises DataError for an unusable instance."""


def open_answerer(uri: str) -> ServedModel:
    """Load the model of the newest good checkpoint at `uri`. Raises CheckpointError if there is no good
    checkpoint, and UsageError for a model that can't answer questions or can't be built here."""
    checkpoint = fetch(uri)
    manifest = read(checkpoint)
    name = str(manifest.config.get("model", {}).get("model", ""))
    entry = model_entry(name)
    if entry is None or not entry.answerer:
        raise UsageError(
            f"{checkpoint} belongs to --model {name or 'unknown'}, which does not answer questions"
        )
    model: ServedModel = resolve(entry.answerer)(settings(manifest), checkpoint)
    return model


def fetch(uri: str) -> Path:
    """Return the newest good checkpoint at `uri`, as a local path: a copy if no bucket is mounted. Raises
    CheckpointError if there is no good checkpoint, or it can't be read."""
    if not needs_client(uri):
        return newest_good(local_path(uri), _report)
    folder = Path(tempfile.mkdtemp(prefix="checkpoint-"))
    try:
        steps = open_store(uri).steps()
        if not steps:
            raise CheckpointError(f"{uri} has no checkpoint")
        return newest_good(copy_of(f"{uri.rstrip('/')}/step-{steps[0]}", folder), _report)
    except (RemoteStoreError, OSError) as error:
        raise CheckpointError(f"{uri} can't be read: {error}") from error


def copy_of(uri: str, folder: Path) -> Path:
    """Copy `uri`, a folder in a bucket, to a path below `folder`. Raises RemoteStoreError."""
    from trainer.checkpoint.stores.gcs_store import GcsStore  # noqa: PLC0415 - half a second, for buckets only

    GcsStore(f"gs://{bucket_path(uri)}").download_tree(folder)
    return folder / str(bucket_path(uri))


def settings(manifest: Manifest, *flags: str) -> Config:
    """Return the settings of a checkpoint for its model and questions, with additional flags. Raises
    UsageError for a flag that this trainer does not have, or weights that can't be copied."""
    saved = manifest.config
    model = {name: value for name, value in saved.get("model", {}).items() if name != "init_weights"}
    weights = str(model.get("weights", ""))
    if bucket_path(weights) is not None and needs_client(weights):
        try:
            model["weights"] = str(copy_of(weights, Path(tempfile.mkdtemp(prefix="weights-"))))
        except (RemoteStoreError, OSError) as error:
            raise UsageError(f"--weights {weights} can't be copied: {error}") from error
    kept = {"tokenizer": saved.get("data", {}).get("tokenizer", ""), "seed": saved.get("seed", 0)}
    kept |= {name: saved[name] for name in ("answer_tokens", "answer_match") if name in saved}
    flags_of_run = [
        f"--{name.replace('_', '-')}={value}" for name, value in {**model, **kept}.items() if value != ""
    ]
    return parse([*flags_of_run, *flags])


def _report(text: str) -> None:
    emit("phase", text, severity="WARNING", phase="loading")
