"""The rules' errors and warnings of each profile in a context, as `vxtui profiles validate` reports them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

from tui.config.settings import Context
from tui.store.profiles.entries import ProfileEntry

Version = tuple[int, int, str]
"""Modification time of the file, its size, and the context."""


@dataclass(frozen=True, slots=True)
class RuleResult:
    """Errors and warnings of a launch with the profile's defaults, one sentence each."""

    errors: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


class ProfileRules:
    """Checks each version of a file once per context. `known` returns at once; `check` runs in a thread."""

    def __init__(self) -> None:
        self._results: dict[str, tuple[Version, RuleResult]] = {}

    def known(self, entry: ProfileEntry) -> RuleResult | None:
        """Return the last result, `None` before the first check."""
        result = self._results.get(entry.key)
        return result[1] if result is not None else None

    async def check(self, entries: Iterable[ProfileEntry], context: Context) -> None:
        """Check new and changed files, one by one in a thread."""
        for entry in entries:
            if not entry.problem:
                await asyncio.to_thread(self._check, entry, context)

    def _check(self, entry: ProfileEntry, context: Context) -> None:
        try:
            stat = entry.path.stat()
        except OSError:
            return
        version = (stat.st_mtime_ns, stat.st_size, context.name)
        before = self._results.get(entry.key)
        if before is None or before[0] != version:
            self._results[entry.key] = (version, RuleResult(*entry.check_rules(context)))
