"""Checks before a launch; their clients are imported on first use."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any

from tui import lazy_imports
from tui.backends.interface import BackendError, ContextInfo, PreflightService
from tui.backends.local.threads import in_thread
from tui.backends.vertex.quotas import VertexQuotas
from tui.backends.vertex.storage import Storage
from tui.backends.vertex.transport.channels import Clients
from tui.domain.vertex.preflight import Check, RunningJobs, unknown

MODULES = ("tui.backends.vertex.preflight.checks",)


class VertexPreflight(PreflightService):
    """The checks of one context."""

    def __init__(self, info: ContextInfo, clients: Clients, storage: Storage, quotas: VertexQuotas) -> None:
        self._info = info
        self._clients = clients
        self._storage = storage
        self._quotas = quotas

    async def run(
        self, region: str, job: Mapping[str, Any], running: RunningJobs
    ) -> AsyncGenerator[Check, None]:
        try:
            await in_thread(lambda: lazy_imports.load(MODULES))
        except BackendError as error:
            yield unknown("service", error.message, error.fix)
            return
        # Importing these clients is slow, and only a launch uses them.
        from tui.backends.vertex.preflight.checks import PreflightChecks
        from tui.backends.vertex.preflight.clients import CheckClients

        checks = PreflightChecks(self._info, CheckClients(self._clients), self._storage, self._quotas)
        async with aclosing(checks.run(region, job, running)) as checks_done:
            async for check in checks_done:
                yield check
