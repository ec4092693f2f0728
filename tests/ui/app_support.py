"""What several tests share with test_app."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.ui.double import MemoryBackend


class SlowBackend(MemoryBackend):
    """Does not answer `connect` before it is let, which may be never."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.let = asyncio.Event()

    async def connect(self) -> None:
        self.connects += 1
        await self.let.wait()
