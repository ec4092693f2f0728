"""Translates a container's paths, references and variables for a process of this machine."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from tui.emulator.paths import StateDir

_ROOT = Path(__file__).resolve().parents[3]
CHECKOUT = () if _ROOT.name == "site-packages" else (str(_ROOT),)
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_REFERENCE = re.compile(r"\$\$|\$\(([^)]*)\)")
# /gcs at the start of a path or after a separator; /mnt/gcs/… does not match.
_GCS = re.compile(r"(?<![\w./-])/gcs/([a-z0-9][a-z0-9._-]*)")
STORAGE_HOST = "STORAGE_EMULATOR_HOST"
"""Variable with the address of the emulator's bucket server, which every Cloud Storage client uses."""


def expand(text: str, env: Mapping[str, str]) -> str:
    """Replace `$(NAME)` with the variable's value and `$$` with `$`. References to unknown names stay
    (docs/facts/vertex.md 1.9)."""
    return _REFERENCE.sub(lambda m: "$" if m[0] == "$$" else env.get(m[1], m[0]), text)


def to_local_paths(text: str, state: StateDir) -> str:
    """Replace /gcs/BUCKET paths with their paths on this machine, and create the buckets. Raises OSError."""
    if "/gcs/" not in text:
        return text
    make_buckets(_GCS.findall(text), state)
    return _GCS.sub(lambda m: str(state.buckets / m[1]), text)


def make_buckets(names: Iterable[str], state: StateDir) -> None:
    for name in names:
        (state.buckets / name).mkdir(parents=True, exist_ok=True)
