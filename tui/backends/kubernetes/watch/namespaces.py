"""Finds configured namespaces that do not exist, because the API server lists them as if they were empty."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from tui.backends.errors import BackendError, NotFound
from tui.backends.kubernetes.connection import ClusterConnection
from tui.backends.kubernetes.discovery import NAMESPACES
from tui.backends.kubernetes.watch.events import EVERYWHERE

SHARED = 1.0
"""Seconds for which an answer is shared: all kinds of jobs query at the same time."""
REPEAT = 10.0
"""Seconds before a missing namespace is looked up again."""
WITHIN = 5.0
"""Maximum wait for a reply in seconds: the list waits for the reply."""


class MissingNamespaces:
    """Looks up each namespace of the scopes. `errors` holds the missing namespaces."""

    def __init__(self, connection: ClusterConnection, scopes: Sequence[str]) -> None:
        self.errors: dict[str, BackendError] = {}
        self._connection = connection
        self._scopes = [scope for scope in scopes if scope != EVERYWHERE]
        self._looking = asyncio.Lock()
        self._looked_at = float("-inf")

    async def refresh(self) -> None:
        """Look up the namespaces. Concurrent callers share the answer."""
        async with self._looking:
            if time.monotonic() - self._looked_at < SHARED:
                return
            errors = await asyncio.gather(*(self._look_for(namespace) for namespace in self._scopes))
            self.errors = {
                scope: error for scope, error in zip(self._scopes, errors, strict=True) if error is not None
            }
            self._looked_at = time.monotonic()

    async def repeat(self) -> None:
        """Look up missing namespaces again, because they may have been created since."""
        if self.errors and time.monotonic() - self._looked_at >= REPEAT:
            await self.refresh()

    async def _look_for(self, namespace: str) -> NotFound | None:
        try:
            path, action = NAMESPACES.path("", namespace), f"look for the namespace {namespace}"
            await self._connection.read(path, action=action, within=WITHIN, patience=0.0)
        except NotFound:
            return NotFound(
                f"The namespace {namespace} does not exist in the cluster {self._connection.login.cluster}.",
                fix=f"`kubectl create namespace {namespace}`, or correct the context's `namespaces`.",
            )
        except BackendError:
            # The namespace can't be read, so nothing is known about it.
            pass
        return None
