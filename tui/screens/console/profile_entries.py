"""The profiles on disk, in the order in which the user will probably launch them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tui.config.settings import Context
from tui.store.profiles.preferences import ProfilePreferences, family_of

if TYPE_CHECKING:
    from tui.store.profiles.entries import ProfileEntry


class ProfileEntries:
    """The last read entries, with the user's favourites and last launches."""

    def __init__(self, read: Callable[[], list[ProfileEntry]], folder: Path, state_dir: Path) -> None:
        """Set the sources. `read` reads the entries (blocking); new profiles are written to `folder`."""
        self._read = read
        self.folder = folder
        self.preferences = ProfilePreferences(state_dir)
        self.entries: list[ProfileEntry] = []

    async def load(self, context: Context, *, local: bool) -> None:
        """Read the profiles from disk, in a thread, and order them for this context."""
        await asyncio.to_thread(self.preferences.load)
        entries = await asyncio.to_thread(self._read)
        family = family_of(context.kind)
        self.entries = self.preferences.ordered(entries, context.name, local=local, family=family)

    def named(self, name: str) -> ProfileEntry | None:
        """Return the entry of this name, or `None`."""
        return next((entry for entry in self.entries if entry.name == name), None)
