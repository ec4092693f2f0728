"""Traffic splits replaced by this machine's vxtui, by endpoint, for rolling back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tui.config.paths import write_whole

FILE = "endpoint-splits.json"
KEPT = 20
"""Number of stored changes per endpoint."""
Split = dict[str, int]


class SplitHistory:
    """A file in the state directory: the changes of each endpoint's split, newest last. Blocking."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE

    def changes(self, endpoint: str) -> list[tuple[Split, Split]]:
        """Return (before, after) of each change that was not rolled back."""
        return self._read().get(endpoint, [])

    def add(self, endpoint: str, before: Mapping[str, int], after: Mapping[str, int]) -> None:
        """Record a change. Raises OSError."""
        known = self._read()
        known[endpoint] = [*known.get(endpoint, []), (dict(before), dict(after))][-KEPT:]
        self._write(known)

    def drop_last(self, endpoint: str) -> None:
        """Remove the last change after it was rolled back. Raises OSError."""
        known = self._read()
        known[endpoint] = known.get(endpoint, [])[:-1]
        self._write({name: changes for name, changes in known.items() if changes})

    def _read(self) -> dict[str, list[tuple[Split, Split]]]:
        """Read the file. A missing, truncated or incompatible file has no changes."""
        try:
            raw = json.loads(self._path.read_bytes())
            return {
                str(name): [(_split(before), _split(after)) for before, after in changes]
                for name, changes in raw["endpoints"].items()
            }
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return {}

    def _write(self, known: Mapping[str, list[tuple[Split, Split]]]) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_whole(self._path, json.dumps({"endpoints": known}, indent=1).encode())


def _split(raw: Any) -> Split:
    return {str(key): int(value) for key, value in raw.items()}
