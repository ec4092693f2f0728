"""Where vxtui keeps things: settings, state, and what ships with it."""

from __future__ import annotations

import os
from pathlib import Path


def config_dir() -> Path:
    """The user's settings, profiles and themes: `$XDG_CONFIG_HOME/vxtui`."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "vxtui"


def state_dir() -> Path:
    """Snapshots, the audit file, logs, the emulator: `$VXTUI_STATE_DIR`, else `$XDG_STATE_HOME/vxtui`."""
    own = os.environ.get("VXTUI_STATE_DIR")
    if own:
        return Path(own)
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "vxtui"


def shipped(kind: str) -> Path:
    """Ready-made files of a kind ("profiles", "themes"): in the wheel, or beside the sources."""
    here = Path(__file__).parent
    inside = here / "_data" / kind
    return inside if inside.is_dir() else here.parent / kind
