"""The name that a job of a profile would have if it were launched now."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tui.store.profiles.name_facts import named

if TYPE_CHECKING:
    from tui.screens.console_app import ConsoleApp


async def named_now(console: ConsoleApp, job: Mapping[str, Any], profile: Path) -> dict[str, Any]:
    """Return the custom job of a profile's file with the placeholders of its name filled in."""
    connection = console.connection
    await asyncio.to_thread(connection.journal.read_launches)
    return await asyncio.to_thread(named, job, profile, console.clock(), connection.taken_names)
