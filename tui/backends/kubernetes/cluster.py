"""The parts that the services of a connected cluster share."""

from __future__ import annotations

from dataclasses import dataclass

from tui.backends.interface import ContextInfo
from tui.backends.kubernetes.connection import ClusterConnection
from tui.backends.kubernetes.discovery import Served
from tui.backends.kubernetes.permissions import Permissions
from tui.backends.kubernetes.watch.cluster_watch import EVERYWHERE, ClusterWatch


@dataclass(frozen=True, slots=True)
class ConnectedCluster:
    """A connected cluster: its connection, the API types that it serves, and its watches."""

    info: ContextInfo
    connection: ClusterConnection
    served: Served
    permissions: Permissions
    watch: ClusterWatch

    @property
    def namespaces(self) -> tuple[str, ...]:
        """The namespaces that are read; empty if all namespaces are read."""
        return tuple(scope for scope in self.watch.scopes if scope != EVERYWHERE)
