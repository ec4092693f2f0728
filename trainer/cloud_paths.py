"""Local paths of objects in Cloud Storage. The module does not import torch, which would delay the
supervisor."""

from __future__ import annotations

import os
from pathlib import Path

MOUNT = Path("/gcs")
_PREFIXES = ("gs://", "/gcs/")


def local_path(uri: str) -> Path:
    """Return the mount of a gs:// or /gcs/ path: below $VXTUI_GCS_ROOT, or below /gcs if it is unset
    (docs/facts/vertex.md 3.7). `~` at the start of any other path is the user's home."""
    path = bucket_path(uri)
    if path is None:
        return Path(os.path.expanduser(uri))  # noqa: PTH111 - pathlib raises an error for an unknown user
    return Path(os.environ.get("VXTUI_GCS_ROOT", MOUNT)) / path


def bucket_path(uri: str) -> str | None:
    """Return BUCKET/OBJECT of a path in Cloud Storage, or None for any other path."""
    return next((uri.removeprefix(prefix) for prefix in _PREFIXES if uri.startswith(prefix)), None)


def problem_of(uri: str) -> str:
    """Return why this address is unusable, or "" if it is usable. As a path, a bucket's address would name a
    folder on this node."""
    scheme, separator, rest = uri.partition("://")
    if not separator or not scheme.isalnum():
        return ""
    if scheme != "gs":
        return f"{scheme}:// is not supported; use gs://BUCKET/FOLDER or a folder of this node"
    return "" if rest.partition("/")[0] else "the address must have a bucket: use gs://BUCKET/FOLDER"


def buckets_mounted() -> bool:
    """Return whether buckets are mounted on this machine."""
    return "VXTUI_GCS_ROOT" in os.environ or MOUNT.is_dir()
