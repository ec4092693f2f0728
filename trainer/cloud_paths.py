"""Paths in Cloud Storage on this machine. Without torch: the supervisor needs it at once."""

from __future__ import annotations

import os
from pathlib import Path

MOUNT = Path("/gcs")
_PREFIXES = ("gs://", "/gcs/")


def local_path(uri: str) -> Path:
    """Where a gs:// or /gcs/ path is mounted: below $VXTUI_GCS_ROOT, else /gcs (vertex facts 3.7)."""
    path = bucket_path(uri)
    return Path(uri) if path is None else Path(os.environ.get("VXTUI_GCS_ROOT", MOUNT)) / path


def bucket_path(uri: str) -> str | None:
    """BUCKET/OBJECT of a path in Cloud Storage, None for any other."""
    return next((uri.removeprefix(prefix) for prefix in _PREFIXES if uri.startswith(prefix)), None)


def buckets_mounted() -> bool:
    """Whether buckets are mounted on this machine."""
    return "VXTUI_GCS_ROOT" in os.environ or MOUNT.is_dir()
