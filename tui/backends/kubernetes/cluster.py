"""What the services of one connected cluster share."""

from __future__ import annotations

from dataclasses import dataclass

from tui.backends.interface import ContextInfo
from tui.backends.kubernetes.connection import ClusterConnection
from tui.backends.kubernetes.discovery import Served
from tui.backends.kubernetes.permissions import Permissions
from tui.backends.kubernetes.watch.cluster_watch import EVERYWHERE, ClusterWatch


@dataclass(frozen=True, slots=True)
class ConnectedCluster:
    """A cluster that is logged in to, what it serves, and what is watched in it."""

    info: ContextInfo
    connection: ClusterConnection
    served: Served
    permissions: Permissions
    watch: ClusterWatch

    @property
    def namespaces(self) -> tuple[str, ...]:
        """The namespaces that are read; none where all are."""
        return tuple(each for each in self.watch.scopes if each != EVERYWHERE)
