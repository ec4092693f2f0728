"""Waits for a condition, never for time to pass. The limits only end a test that would wait for ever."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")
LIMIT = 120.0
"""Seconds: far more than any of these waits takes on a machine with eight times the load it has cores for."""


def wait_for(look: Callable[[], T | None], what: str, seconds: float = LIMIT, every: float = 0.05) -> T:
    """Return the first truthy answer of `look`. Raises AssertionError that names `what` after `seconds`."""
    deadline = time.monotonic() + seconds
    while True:
        late = time.monotonic() > deadline
        found = look()
        if found:
            return found
        assert not late, f"waited {seconds:.0f} s for {what}"
        time.sleep(every)


async def until(look: Callable[[], Any], what: str, seconds: float = LIMIT, every: float = 0.02) -> Any:
    """`wait_for` on the event loop; `look` may be a coroutine function."""
    deadline = time.monotonic() + seconds
    while True:
        late = time.monotonic() > deadline
        found = look()
        if inspect.isawaitable(found):
            found = await found
        if found:
            return found
        assert not late, f"waited {seconds:.0f} s for {what}"
        await asyncio.sleep(every)
