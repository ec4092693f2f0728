"""Locations of a run's checkpoints: a folder on the node, and a remote store."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from trainer.checkpoint.stores.folder_store import FolderStore
from trainer.checkpoint.stores.remote_store import RemoteStore
from trainer.cloud_paths import bucket_path, buckets_mounted, local_path


def checkpoint_folder(checkpoint_dir: str) -> Path:
    """Return the folder that this node writes checkpoints to."""
    return local_path(checkpoint_dir) if checkpoint_dir else Path("checkpoints")


def upload_uri(upload_dir: str, env: Mapping[str, str]) -> str:
    """Return the address for uploads of checkpoints, or "" if there are no uploads.

    Below $AIP_CHECKPOINT_DIR each job has a folder named after its id: a restarted job finds its checkpoints
    there, and another job with the same output directory does not load them.
    """
    if upload_dir or not env.get("AIP_CHECKPOINT_DIR"):
        return upload_dir
    return f"{env['AIP_CHECKPOINT_DIR'].rstrip('/')}/{env.get('CLOUD_ML_JOB_ID', 'run')}"


def needs_client(uri: str) -> bool:
    """Return whether this address needs the Cloud Storage client."""
    only_mounted = "VXTUI_GCS_ROOT" in os.environ and not os.environ.get("STORAGE_EMULATOR_HOST")
    if bucket_path(uri) is None:
        return False
    return not (only_mounted or (uri.startswith("/gcs/") and buckets_mounted()))


def open_store(uri: str) -> RemoteStore:
    """Open a gs:// address with the Cloud Storage client, any other as a folder.

    If buckets are mounted and no storage service is set ($VXTUI_GCS_ROOT without $STORAGE_EMULATOR_HOST),
    gs:// is the mounted folder too.

    Raises:
        RemoteStoreError: if the client can't be created.
    """
    if needs_client(uri):
        # The import takes half a second, and the supervisor needs it only for gs://.
        from trainer.checkpoint.stores.gcs_store import GcsStore

        return GcsStore(f"gs://{bucket_path(uri)}")
    return FolderStore(local_path(uri))
