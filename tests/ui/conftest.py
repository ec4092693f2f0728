"""Ground of the screens' tests: a press returns once its key has been dealt with."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import pytest
from textual.pilot import Pilot

from tui.display.ordered_keys import OrderedKeysApp

LONGEST = 5.0
"""Seconds to wait for a key: one that stops the app is never dealt with."""


@pytest.fixture(autouse=True)
def _keys_dealt_with(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Keys wait for each other; on a busy machine they do so longer than Textual's `press` waits."""
    press = Pilot.press

    async def pressed(self: Pilot[Any], *keys: str) -> None:
        await press(self, *keys)
        app = self.app
        if not isinstance(app, OrderedKeysApp):
            return
        over = time.monotonic() + LONGEST
        while app.key_under_way and app.is_running and time.monotonic() < over:  # noqa: ASYNC110
            await asyncio.sleep(0.005)

    monkeypatch.setattr(Pilot, "press", pressed)
    yield
