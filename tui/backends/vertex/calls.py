"""One way to make a call: a timeout always, our own retries for reads, our own errors."""

from __future__ import annotations

import asyncio
import random
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TypeVar

from tui.backends import base
from tui.backends.vertex.errors import translate

T = TypeVar("T")

TIMEOUT = 20.0
"""Seconds for one attempt of a read."""
OVERALL = 60.0
"""Seconds for a read with all its retries."""


async def once(what: str, call: Callable[[], Awaitable[T]]) -> T:
    """`call`, its errors in our words."""
    try:
        return await call()
    except asyncio.CancelledError:
        raise
    except Exception as error:
        raise translate(error, what) from error


async def read(what: str, call: Callable[[], Awaitable[T]], overall: float = OVERALL) -> T:
    """An idempotent call, repeated with jittered back-off while the service is away or asks us to wait."""
    deadline = time.monotonic() + overall
    for attempt in range(100):
        try:
            return await once(what, call)
        except (base.Unavailable, base.QuotaExceeded) as error:
            # Full jitter, so that many consoles do not come back together.
            pause = random.uniform(0.1, min(10.0, 0.5 * 2**attempt))
            wanted = error.retry_after if isinstance(error, base.QuotaExceeded) else None
            pause = max(pause, wanted or 0.0)
            if time.monotonic() + pause > deadline or attempt >= 4:
                raise
            await asyncio.sleep(pause)
    raise AssertionError("unreachable: the last attempt raises")


class Rate:
    """At most `count` calls in any `period` seconds; waits its turn. One for each project."""

    def __init__(self, count: int, period: float) -> None:
        self._count, self._period = count, period
        self._times: deque[float] = deque()
        self._lock = asyncio.Lock()

    async def turn(self) -> None:
        """Return when one more call is within the rate."""
        async with self._lock:
            now = time.monotonic()
            while self._times and self._times[0] <= now - self._period:
                self._times.popleft()
            if len(self._times) >= self._count:
                await asyncio.sleep(self._times[0] + self._period - now)
                self._times.popleft()
            self._times.append(time.monotonic())
