"""The user's favourite profiles, and the profile launched last in each context."""

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
    """Return the service family of a context of this kind; "" for a group, whose members may differ."""
    return {"group": "", "kubernetes": "kubernetes"}.get(kind, "vertex")


class ProfilePreferences:
    """Favourites and last launches, stored in the state directory for the next start."""

    def __init__(self, state_dir: Path) -> None:
        self._path = state_dir / FILE
        self._favourites: set[str] = set()
        self._last: dict[str, str] = {}
        self._loaded = False

    def load(self) -> None:
        """Read the file once (blocking). An unreadable file has no preferences."""
        if self._loaded:
            return
        self._loaded = True
        try:
            saved = json.loads(self._path.read_bytes())
            self._favourites |= {str(key) for key in saved["favourites"]}
            self._last = {str(k): str(v) for k, v in saved["last"].items()} | self._last
        except (OSError, ValueError, TypeError, LookupError, AttributeError):
            return

    def is_favourite(self, entry: ProfileEntry) -> bool:
        """Return whether the profile is a favourite."""
        return entry.key in self._favourites

    def toggle(self, entry: ProfileEntry) -> bool:
        """Mark or unmark a profile as a favourite (blocking). Return the new state."""
        self.load()
        self._favourites ^= {entry.key}
        self._save()
        return self.is_favourite(entry)

    def note_launch(self, entry: ProfileEntry, context: str) -> None:
        """Record the profile as the last launched in this context (blocking)."""
        self.load()
        self._last[context] = entry.key
        self._save()

    def ordered(
        self, entries: Sequence[ProfileEntry], context: str, *, local: bool, family: str = ""
    ) -> list[ProfileEntry]:
        """Sort profiles: the last launched in the context, then favourites, then on this machine the profiles
        that run there, then all other profiles. Profiles of a service family other than `family` come last.
        """
        last = self._last.get(context)

        def rank(entry: ProfileEntry) -> tuple[bool, bool, bool, bool]:
            other = bool(family and entry.family) and entry.family != family
            return entry.key != last, not self.is_favourite(entry), other, local and not entry.runs_here

        return sorted(entries, key=rank)

    def _save(self) -> None:
        """Save the preferences. A failing disk does not prevent their current use."""
        data: dict[str, Any] = {"favourites": sorted(self._favourites), "last": self._last}
        with contextlib.suppress(OSError):
            write_whole(self._path, json.dumps(data).encode())
