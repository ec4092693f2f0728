"""What several tests share with test_app_typeahead."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from textual import events
from textual.pilot import Pilot

from tests.ui.jobs_screen_support import until
from tui.app import VxtuiApp


async def packet(app: VxtuiApp, pilot: Pilot[Any], keys: Sequence[str]) -> None:
    """Post all keys before the app can deal with the first, as a driver does with one read."""
    names = {"/": "slash", ":": "colon", " ": "space", "-": "minus"}
    last = app.key_queue.number + len(keys)
    for key in keys:
        character = key if len(key) == 1 else None
        app.post_message(events.Key(names.get(key, key), character))
    await until(pilot, lambda: app.key_queue.number == last and not app.key_in_progress, "the last key")
    await pilot.pause()
