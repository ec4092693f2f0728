"""A backend of one context, whose clients are imported when it connects."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, cast

from tui.backends.interface import Backend, BackendError, ContextInfo, ServiceHealth, Services, Unavailable

CONNECT_SECONDS = 90.0
"""Timeout of a connect in seconds. A connect may start an emulator on a busy machine, or wait for a slow
token service."""
CHECK_CONNECT_SECONDS = 30.0


class OneContextBackend(Backend):
    """Opens the connection of one context: an object with `services`, `check_health` and `aclose`."""

    health_line = "login"
    """Name of the first line of `doctor`."""
    slow_fix = "Try again. Check the network and the login command."

    def __init__(self, info: ContextInfo) -> None:
        self.info = info
        self._connecting = asyncio.Lock()
        self._connected: Any = None

    @abstractmethod
    async def _connect(self) -> None:
        """Connect, or renew the connection."""

    async def connect(self) -> None:
        async with self._connecting:
            try:
                async with asyncio.timeout(CONNECT_SECONDS):
                    await self._connect()
            except TimeoutError:
                raise Unavailable(
                    f"Can't connect to {self.info.endpoint or self.info.name}: not ready within "
                    f"{CONNECT_SECONDS:.0f} s.",
                    fix="`vxtui doctor` shows which services can be reached.",
                ) from None

    async def aclose(self) -> None:
        connected, self._connected = self._connected, None
        if connected is not None:
            await connected.aclose()

    @property
    def services(self) -> Services:
        return cast(Services, self._open.services)

    @property
    def _open(self) -> Any:
        if self._connected is None:
            raise Unavailable(
                f"Not connected to {self.info.name}.", fix="Connect first; `vxtui doctor` shows what fails."
            )
        return self._connected

    async def check_health(self) -> Sequence[ServiceHealth]:
        name = self.health_line
        try:
            async with asyncio.timeout(CHECK_CONNECT_SECONDS):
                await self.connect()
        except BackendError as error:
            return [ServiceHealth(name, False, error.message, error.fix)]
        except TimeoutError:
            late = f"not ready within {CHECK_CONNECT_SECONDS:.0f} s"
            return [ServiceHealth(name, False, late, self.slow_fix)]
        lines = await self._open.check_health()
        return [ServiceHealth(name, True, self.info.endpoint or "ready"), *lines]
