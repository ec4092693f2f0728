"""Checks whether the cluster answers now, because an open watch continues even if every request is
refused."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from tui.backends.errors import BackendError, NotFound, PermissionDenied
from tui.backends.kubernetes.connection import ClusterConnection
from tui.backends.kubernetes.discovery import PODS

SHARED = 1.0
"""Seconds for which an answer is shared: all kinds of jobs query at the same time."""
PATIENCE, WITHIN = 1.0, 10.0
"""Seconds for which a refused request is repeated, and timeout of a request."""
FIRST_REST, MOST_REST = 2.0, 30.0
"""Seconds between requests after failures: the first and the longest interval."""


class ClusterProbe:
    """Sends one cheap request, a list of one pod. `error` is the error of the last request."""

    def __init__(self, connection: ClusterConnection, scopes: Sequence[str]) -> None:
        self.error: BackendError | None = None
        self._connection = connection
        self._path = PODS.path(scopes[0])
        self._asking = asyncio.Lock()
        self._asked_at = float("-inf")
        self._failures = 0

    async def ask(self) -> None:
        """Send the request. Concurrent callers share the answer."""
        async with self._asking:
            if time.monotonic() - self._asked_at < SHARED:
                return
            try:
                await self._connection.read(
                    self._path,
                    action="reach the cluster again",
                    params={"limit": 1},
                    within=WITHIN,
                    patience=PATIENCE,
                )
            except (PermissionDenied, NotFound):
                # The cluster has answered. The watches report missing permissions.
                self.error = None
            except BackendError as error:
                self.error = error
            else:
                self.error = None
            self._failures = self._failures + 1 if self.error is not None else 0
            self._asked_at = time.monotonic()

    async def repeat(self) -> None:
        """Send the request again if the last request failed, at growing intervals."""
        rest = min(MOST_REST, FIRST_REST * 2 ** min(self._failures, 8))
        if self.error is not None and time.monotonic() - self._asked_at >= rest:
            await self.ask()
