"""What the rules say of each profile in one context, as `vxtui profiles validate` would."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

from tui.config.settings import Context
from tui.store.profiles.entries import ProfileEntry

Version = tuple[int, int, str]
"""When the file was written, its size, and the context."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """What would stop a launch with the profile's defaults, and what is doubtful, a sentence each."""

    errors: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


class ProfileRules:
    """Each version of a file is judged once a context; `known` answers at once, `look` takes its time."""

    def __init__(self) -> None:
        self._found: dict[str, tuple[Version, Judgement]] = {}

    def known(self, entry: ProfileEntry) -> Judgement | None:
        """What was found last, `None` before the first look."""
        found = self._found.get(entry.key)
        return found[1] if found is not None else None

    async def look(self, entries: Iterable[ProfileEntry], context: Context) -> None:
        """Judge what is new or differs, file by file in a thread."""
        for entry in entries:
            if not entry.problem:
                await asyncio.to_thread(self._look, entry, context)

    def _look(self, entry: ProfileEntry, context: Context) -> None:
        try:
            stat = entry.path.stat()
        except OSError:
            return
        version = (stat.st_mtime_ns, stat.st_size, context.name)
        before = self._found.get(entry.key)
        if before is None or before[0] != version:
            self._found[entry.key] = (version, Judgement(*entry.judge(context)))
