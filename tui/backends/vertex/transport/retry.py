"""Our own retries and rate limits. The clients' retries are disabled (docs/facts/clients.md 'Faults')."""

from __future__ import annotations

import asyncio
import random
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from tui.backends.interface import BackendError, QuotaExceeded, Stopped, Unavailable
from tui.backends.vertex.transport import deadlines
from tui.backends.vertex.transport.connect import Endpoint
from tui.backends.vertex.transport.errors import REACH_FIX, translate

T = TypeVar("T")
Send = Callable[[float], Awaitable[T]]
"""A function that sends one RPC with a timeout in seconds."""

FIRST_DELAY = 0.25
MOST_DELAY = 8.0
IN_TIME = 0.98
"""Fraction of a deadline after which a failed call counts as unanswered."""


def delay(attempt: int, error: BackendError, most: float = MOST_DELAY) -> float:
    """Return the seconds before attempt 1, 2, …: exponential backoff with full jitter, at least the requested
    wait.

    Full jitter keeps clients that failed together from coming back together.
    """
    backoff = random.uniform(0, min(most, FIRST_DELAY * 2 ** min(attempt, 16)))
    requested = error.retry_after if isinstance(error, QuotaExceeded) else None
    return backoff if requested is None else requested + backoff


class RateLimiter:
    """Allows at most `calls` in any `period` seconds, in order of arrival.

    The limit is that of one process. `tui.backends.vertex.transport.budget` shares a limit among all
    processes of this machine.
    """

    def __init__(self, calls: int, period: float = 60.0) -> None:
        self._calls = calls
        self._period = period
        self._granted: deque[float] = deque()

    def reserve(self, now: float) -> float:
        """Reserve a slot. Return the seconds until the slot."""
        at = now
        if len(self._granted) >= self._calls:
            at = max(now, self._granted.popleft() + self._period)
        self._granted.append(at)
        return at - now

    async def wait(self) -> None:
        """Wait until a call may be sent."""
        seconds = self.reserve(time.monotonic())
        if seconds > 0:
            await asyncio.sleep(seconds)


class Limiter(Protocol):
    """Limits the rate of calls."""

    async def wait(self) -> None:
        """Wait until a call may be sent."""


class Caller:
    """Sends every RPC. The interceptor handles credentials, timeouts, retries and error conversion."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self.closed = False

    async def once(self, action: str, send: Send[T], *, within: float = deadlines.READ) -> T:
        """Send once, with `within` seconds to answer. `action` completes "Can't …". Raises BackendError."""
        if self.closed:
            raise Unavailable(f"Can't {action}: the connection is closed.")
        began = time.monotonic()
        try:
            # The client's own timeout does not cover waiting for credentials or for a connection.
            async with asyncio.timeout(within + 1):
                await self._endpoint.ready()
                return await send(within)
        except asyncio.CancelledError:
            # gRPC cancels the calls of a closed channel, but this task is not cancelled.
            task = asyncio.current_task()
            if self.closed and not (task is not None and task.cancelling()):
                raise Unavailable(f"Can't {action}: the connection was closed.") from None
            raise
        except Exception as error:
            failure = translate(error, action)
            if type(failure) in {Unavailable, BackendError} and time.monotonic() - began >= within * IN_TIME:
                # gRPC reports it with several texts, e.g. 'Stream removed (Deadline Exceeded)'.
                failure = Unavailable(f"Can't {action}: no answer within {within:g} s", fix=REACH_FIX)
            raise self._endpoint.explain(failure) from error

    async def read(
        self,
        action: str,
        send: Send[T],
        *,
        within: float = deadlines.READ,
        patience: float | None = None,
        limiter: Limiter | None = None,
    ) -> T:
        """Send a read-only RPC, in attempts of `within` seconds while repeating may help.

        No attempt begins after `patience` seconds (the endpoint's by default). Raises BackendError.
        """
        attempt, end = 0, 0.0
        while True:
            if limiter is not None:
                await limiter.wait()
            if not end:
                # Waiting for our own limiter is not a failure of the service.
                pace = self._endpoint.pace
                end = time.monotonic() + (pace.patience if patience is None else patience)
            try:
                return await self.once(action, send, within=within)
            except (Unavailable, QuotaExceeded) as error:
                wait = delay(attempt, error, self._endpoint.pace.reconnect)
                if self.closed or isinstance(error, Stopped) or time.monotonic() + wait >= end:
                    raise
                attempt += 1
            await asyncio.sleep(wait)
