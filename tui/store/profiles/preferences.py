"""Which profiles the user has marked as favourites, and which one was launched last in each context."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tui.config.paths import write_whole

if TYPE_CHECKING:
    from tui.store.profiles.entries import ProfileEntry

FILE = "profile_preferences.json"


def family_of(kind: str) -> str:
    """The family of services of a context of this kind; "" for a group, whose members may be of several."""
    return {"group": "", "kubernetes": "kubernetes"}.get(kind, "vertex")


class ProfilePreferences:
    """Kept in the state directory, so that they hold at the next start."""

    def __init__(self, state_dir: Path) -> None:
        self._path = state_dir / FILE
        self._favourites: set[str] = set()
        self._last: dict[str, str] = {}
        self._loaded = False

    def load(self) -> None:
        """Read the file once; blocking. One that can't be read holds no preferences."""
        if self._loaded:
            return
        self._loaded = True
        try:
            found = json.loads(self._path.read_bytes())
            self._favourites |= {str(key) for key in found["favourites"]}
            self._last = {str(k): str(v) for k, v in found["last"].items()} | self._last
        except (OSError, ValueError, TypeError, LookupError, AttributeError):
            return

    def is_favourite(self, entry: ProfileEntry) -> bool:
        """Whether the user has marked it."""
        return entry.key in self._favourites

    def toggle(self, entry: ProfileEntry) -> bool:
        """Mark it, or unmark it if it is marked; returns whether it is marked now. Blocking."""
        self.load()
        self._favourites ^= {entry.key}
        self._save()
        return self.is_favourite(entry)

    def note_launch(self, entry: ProfileEntry, context: str) -> None:
        """It is the last one launched in this context; blocking."""
        self.load()
        self._last[context] = entry.key
        self._save()

    def ordered(
        self, entries: Sequence[ProfileEntry], context: str, *, local: bool, family: str = ""
    ) -> list[ProfileEntry]:
        """The last one launched in the context, the favourites, on this machine what runs here, the rest.

        Those for another family of services than `family`, where one is given, come last.
        """
        last = self._last.get(context)

        def rank(entry: ProfileEntry) -> tuple[bool, bool, bool, bool]:
            other = bool(family and entry.family) and entry.family != family
            return entry.key != last, not self.is_favourite(entry), other, local and not entry.runs_here

        return sorted(entries, key=rank)

    def _save(self) -> None:
        """A failing disk does not prevent their use now."""
        data: dict[str, Any] = {"favourites": sorted(self._favourites), "last": self._last}
        with contextlib.suppress(OSError):
            write_whole(self._path, json.dumps(data).encode())
