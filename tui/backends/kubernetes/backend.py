"""A Kubernetes cluster behind `tui.backends.interface.Backend`; its clients are loaded when it connects."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tui.backends.interface import (
    Backend,
    BackendError,
    ContextInfo,
    ServiceHealth,
    Services,
    Unavailable,
)
from tui.backends.kubernetes.login.cluster import Cluster
from tui.backends.local.threads import in_thread
from tui.domain.kubernetes.names import parse_name

if TYPE_CHECKING:
    from tui.backends.kubernetes.cluster import ConnectedCluster
    from tui.backends.kubernetes.services import OpenCluster

CONNECT_SECONDS = 90.0
"""Longest connect: starting the local cluster on a loaded machine, or a slow login command."""
CHECK_CONNECT_SECONDS = 30.0


class KubernetesBackend(Backend):
    """One cluster, with all of its namespaces or the named ones."""

    def __init__(self, info: ContextInfo, cluster: Cluster, namespaces: Sequence[str] = ()) -> None:
        self.info = info
        self._cluster = cluster
        self._namespaces = tuple(namespaces)
        self._connecting = asyncio.Lock()
        self._connected: OpenCluster | None = None

    async def connect(self) -> None:
        """Connect. If connected, log in again, restart a killed local cluster, and read again what is
        served."""
        async with self._connecting:
            before = self._connected
            try:
                async with asyncio.timeout(CONNECT_SECONDS):
                    services = await in_thread(_load)
                    if before is not None and await services.still_served(before):
                        return
                    self._connected = await services.connect(self.info, self._cluster, self._namespaces)
            except TimeoutError:
                raise Unavailable(
                    f"Can't connect to {self.info.name}: not ready within {CONNECT_SECONDS:.0f} s.",
                    fix="`vxtui doctor` says what can be reached.",
                ) from None
            self.info = self._connected.cluster.info
            if before is not None:
                await before.aclose()

    async def aclose(self) -> None:
        connected, self._connected = self._connected, None
        if connected is not None:
            await connected.aclose()

    @property
    def services(self) -> Services:
        return self._open.services

    @property
    def _open(self) -> OpenCluster:
        if self._connected is None:
            raise Unavailable(
                f"Not connected to {self.info.name}.", fix="Connect first; `vxtui doctor` says what fails."
            )
        return self._connected

    @property
    def cluster(self) -> ConnectedCluster:
        """The parts that its services share. Raises Unavailable while not connected."""
        return self._open.cluster

    def may_have(self, job_name: str) -> bool:
        name = parse_name(job_name)
        if name is None:
            return False
        return self._connected is None or name.cluster == self._open.cluster.connection.login.cluster

    async def check_health(self) -> Sequence[ServiceHealth]:
        try:
            async with asyncio.timeout(CHECK_CONNECT_SECONDS):
                await self.connect()
        except BackendError as error:
            return [ServiceHealth("login", False, error.message, error.fix)]
        except TimeoutError:
            late = f"not ready within {CHECK_CONNECT_SECONDS:.0f} s"
            return [ServiceHealth("login", False, late, "Try again; see the network, or the login command.")]
        lines: Sequence[ServiceHealth] = await _health().check(self._open.cluster)
        return [ServiceHealth("login", True, self.info.endpoint), *lines]


def _load() -> Any:
    return importlib.import_module("tui.backends.kubernetes.services")


def _health() -> Any:
    return importlib.import_module("tui.backends.kubernetes.health")
