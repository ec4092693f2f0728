"""Where a path of the cloud lies on this machine. Without torch: the supervisor needs it at once."""

from __future__ import annotations

import os
from pathlib import Path

MOUNT = Path("/gcs")
_CLOUD = ("gs://", "/gcs/")


def local_path(uri: str) -> Path:
    """A gs:// or /gcs/ path where it is mounted: $VXTUI_GCS_ROOT, else /gcs (vertex facts 3.7)."""
    inside = in_bucket(uri)
    return Path(uri) if inside is None else Path(os.environ.get("VXTUI_GCS_ROOT", MOUNT)) / inside


def in_bucket(uri: str) -> str | None:
    """BUCKET/OBJECT of a path in Cloud Storage, None for any other."""
    return next((uri.removeprefix(start) for start in _CLOUD if uri.startswith(start)), None)


def mounted() -> bool:
    """Whether buckets are a part of this machine's file system."""
    return "VXTUI_GCS_ROOT" in os.environ or MOUNT.is_dir()
