"""Where a path of the cloud lies on this machine. Without torch: the supervisor needs it at once."""

from __future__ import annotations

import os
from pathlib import Path


def local_path(uri: str) -> Path:
    """A gs:// or /gcs/ path where it is mounted: $VXTUI_GCS_ROOT, else /gcs (vertex facts 3.7)."""
    root = Path(os.environ.get("VXTUI_GCS_ROOT", "/gcs"))
    for prefix in ("gs://", "/gcs/"):
        if uri.startswith(prefix):
            return root / uri.removeprefix(prefix)
    return Path(uri)
