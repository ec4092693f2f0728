"""Vertex AI as a `tui.backends.interface.Backend`. The backend is the same for Google and the emulator."""

from __future__ import annotations

import asyncio
import importlib
from typing import Any

from tui import lazy_imports
from tui.backends.interface import ContextInfo
from tui.backends.local.threads import in_thread
from tui.backends.one_context import OneContextBackend
from tui.backends.vertex.transport.connect import Endpoint


class VertexBackend(OneContextBackend):
    """One project and its regions at the given endpoint."""

    slow_fix = "Try again. Check the network and the emulator's log."

    def __init__(self, info: ContextInfo, endpoint: Endpoint) -> None:
        super().__init__(info)
        self._endpoint = endpoint
        self.health_line = "emulator" if info.local else "credentials"

    async def _connect(self) -> None:
        """Connect. If already connected, restart a killed emulator and renew credentials."""
        # Import modules and start the server concurrently.
        loading = asyncio.create_task(in_thread(_load))
        try:
            await self._endpoint.open()
            services = await loading
        finally:
            loading.cancel()
        if self._connected is None:
            self._connected = services.build_services(self.info, self._endpoint)


def _load() -> Any:
    lazy_imports.load()
    return importlib.import_module("tui.backends.vertex.services")
