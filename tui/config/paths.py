"""The folders of vxtui: settings, state, and the files shipped with it."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def config_dir() -> Path:
    """Return the folder of the user's settings, profiles and themes: `$XDG_CONFIG_HOME/vxtui`."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "vxtui"


def state_dir() -> Path:
    """Return the folder for snapshots, the audit file, logs and the emulator: `$VXTUI_STATE_DIR`, or
    `$XDG_STATE_HOME/vxtui` if it is unset."""
    own = os.environ.get("VXTUI_STATE_DIR")
    if own:
        return Path(own)
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "vxtui"


def write_whole(path: Path, data: bytes) -> None:
    """Write a file atomically, readable only by this user. Raises OSError if it can't be written, e.g. on a
    full disk; the old file then remains."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    new = path.with_name(f".{path.name}-{os.getpid()}")
    try:
        new.touch(mode=0o600)
        new.write_bytes(data)
        new.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            new.unlink()
        raise


def shipped(kind: str) -> Path:
    """Return the folder of shipped files ("profiles", "themes"): in the wheel, or beside the sources."""
    here = Path(__file__).parents[1]
    inside = here / "_data" / kind
    return inside if inside.is_dir() else here.parent / kind
