"""Stand-ins for rooms that are still being built; this file goes when they are there."""

from __future__ import annotations

import importlib
from typing import Any


def optional(name: str) -> Any:
    """The module, or None while it does not exist."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        return None


class NullSink:
    async def service_message(self, *args: Any, **kw: Any) -> None:
        return None

    def watch(self, *args: Any) -> None:
        return None

    async def drain(self, *args: Any) -> None:
        return None

    async def forget(self, *args: Any) -> None:
        return None
