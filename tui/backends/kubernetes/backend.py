"""A Kubernetes cluster as a `tui.backends.interface.Backend`; its clients are imported when it connects."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tui.backends.interface import ContextInfo
from tui.backends.kubernetes.login.cluster import Cluster
from tui.backends.local.threads import in_thread
from tui.backends.one_context import OneContextBackend
from tui.domain.kubernetes.names import parse_name

if TYPE_CHECKING:
    from tui.backends.kubernetes.cluster import ConnectedCluster


class KubernetesBackend(OneContextBackend):
    """One cluster, with all namespaces or only the named namespaces."""

    def __init__(self, info: ContextInfo, cluster: Cluster, namespaces: Sequence[str] = ()) -> None:
        super().__init__(info)
        self._cluster = cluster
        self._namespaces = tuple(namespaces)

    async def _connect(self) -> None:
        """Connect. If already connected, log in again and rebuild the services if API types changed."""
        before = self._connected
        services = await in_thread(_load)
        if before is not None and await services.still_served(before):
            return
        self._connected = await services.connect(self.info, self._cluster, self._namespaces)
        self.info = self._open.cluster.info
        if before is not None:
            await before.aclose()

    @property
    def cluster(self) -> ConnectedCluster:
        """The parts that the cluster's services share. Raises Unavailable while not connected."""
        cluster: ConnectedCluster = self._open.cluster
        return cluster

    def may_have(self, job_name: str) -> bool:
        name = parse_name(job_name)
        if name is None:
            return False
        return self._connected is None or name.cluster == self.cluster.connection.login.cluster


def _load() -> Any:
    return importlib.import_module("tui.backends.kubernetes.services")
