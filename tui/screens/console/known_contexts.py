"""The contexts that the console offers, read again while it runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from tui.config.settings import Context, Settings, SettingsError, all_contexts


class KnownContexts(dict[str, Context]):
    """The contexts by name, in the order of the settings."""

    def __init__(
        self, contexts: Iterable[Context], settings: Settings, read: Callable[[], Settings] | None
    ) -> None:
        """`read` reads the settings again."""
        super().__init__({context.name: context for context in contexts})
        self._settings, self._read = settings, read

    async def reload(self, opened: Context) -> str:
        """Read the settings again; the open context stays. Returns the mistake in the settings, if they have
        one: then nothing changes."""
        if self._read is None:
            return ""
        try:
            self._settings.contexts = (await asyncio.to_thread(self._read)).contexts
        except SettingsError as error:
            return str(error)
        self.clear()
        self.update({context.name: context for context in all_contexts(self._settings)})
        self.setdefault(opened.name, opened)
        return ""
