"""Namespaces that are to be read and do not exist: the API server lists them as empty ones."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from tui.backends.errors import BackendError, NotFound
from tui.backends.kubernetes.connection import ClusterConnection
from tui.backends.kubernetes.discovery import NAMESPACES
from tui.backends.kubernetes.watch.events import EVERYWHERE

SHARED = 1.0
"""Seconds for which an answer holds: the kinds of jobs ask at the same time."""
REPEAT = 10.0
"""Seconds until a namespace that does not exist is looked for again."""
WITHIN = 5.0
"""Longest wait for a reply (s): it holds up the list."""


class MissingNamespaces:
    """Looks for each namespace of the scopes; `errors` has those that do not exist."""

    def __init__(self, connection: ClusterConnection, scopes: Sequence[str]) -> None:
        self.errors: dict[str, BackendError] = {}
        self._connection = connection
        self._scopes = [scope for scope in scopes if scope != EVERYWHERE]
        self._looking = asyncio.Lock()
        self._looked_at = float("-inf")

    async def look(self) -> None:
        """Look now; who comes while another one waits gets the same answer."""
        async with self._looking:
            if time.monotonic() - self._looked_at < SHARED:
                return
            found = await asyncio.gather(*(self._look_for(each) for each in self._scopes))
            self.errors = {
                scope: error for scope, error in zip(self._scopes, found, strict=True) if error is not None
            }
            self._looked_at = time.monotonic()

    async def repeat(self) -> None:
        """Look again where a namespace did not exist: somebody may have created it."""
        if self.errors and time.monotonic() - self._looked_at >= REPEAT:
            await self.look()

    async def _look_for(self, namespace: str) -> NotFound | None:
        try:
            await self._connection.request(
                "GET", NAMESPACES.path("", namespace), what=f"look for the namespace {namespace}",
                within=WITHIN, patience=0.0,
            )  # fmt: skip
        except NotFound:
            return NotFound(
                f"There is no namespace {namespace} in the cluster {self._connection.login.cluster}.",
                fix=f"`kubectl create namespace {namespace}`, or correct the context's `namespaces`.",
            )
        except BackendError:
            # It may not be read, or is not now: then nothing is known of it.
            pass
        return None
