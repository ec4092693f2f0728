"""Vertex AI as a `tui.backends.interface.Backend`. It does not know whether it talks to Google."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tui import lazy_imports
from tui.backends.interface import (
    Backend,
    BackendError,
    ContextInfo,
    ServiceHealth,
    Services,
    Unavailable,
)
from tui.backends.local.threads import in_thread
from tui.backends.vertex.transport.connect import Endpoint

if TYPE_CHECKING:
    from tui.backends.vertex.services import OpenContext

CONNECT_SECONDS = 90.0
"""Longest connect: starting an emulator on a loaded machine, or a slow token service."""

CHECK_CONNECT_SECONDS = 30.0


class VertexBackend(Backend):
    """One project and its regions, at the given endpoint."""

    def __init__(self, info: ContextInfo, endpoint: Endpoint) -> None:
        self.info = info
        self._endpoint = endpoint
        self._connecting = asyncio.Lock()
        self._connected: OpenContext | None = None

    async def connect(self) -> None:
        """Connect. If connected, restart a killed emulator and renew credentials."""
        async with self._connecting:
            # Imports and a starting server do not wait for each other.
            loading = asyncio.create_task(in_thread(_load))
            try:
                async with asyncio.timeout(CONNECT_SECONDS):
                    await self._endpoint.open()
                    services = await loading
            except TimeoutError:
                raise Unavailable(
                    f"Can't connect to {self.info.endpoint or self.info.name}: not ready within "
                    f"{CONNECT_SECONDS:.0f} s.",
                    fix="`vxtui doctor` says what can be reached.",
                ) from None
            finally:
                loading.cancel()
            if self._connected is None:
                self._connected = services.build_services(self.info, self._endpoint)

    async def aclose(self) -> None:
        connected, self._connected = self._connected, None
        if connected is not None:
            await connected.clients.close()

    @property
    def services(self) -> Services:
        return self._open.services

    @property
    def _open(self) -> OpenContext:
        if self._connected is None:
            raise Unavailable(
                f"Not connected to {self.info.name}.", fix="Connect first; `vxtui doctor` says what fails."
            )
        return self._connected

    async def check_health(self) -> Sequence[ServiceHealth]:
        action = "emulator" if self.info.local else "credentials"
        try:
            async with asyncio.timeout(CHECK_CONNECT_SECONDS):
                await self.connect()
        except BackendError as error:
            return [ServiceHealth(action, False, error.message, error.fix)]
        except TimeoutError:
            late = f"not ready within {CHECK_CONNECT_SECONDS:.0f} s"
            return [ServiceHealth(action, False, late, "Try again; see the network, or the emulator's log.")]
        lines = await self._open.health.check()
        return [ServiceHealth(action, True, self.info.endpoint or "ready"), *lines]


def _load() -> Any:
    lazy_imports.load()
    return importlib.import_module("tui.backends.vertex.services")
