"""Builds the services of a connected cluster. The import is slow: import this module late, in a thread."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tui.backends.interface import ContextInfo, JobService, ServiceHealth, Services
from tui.backends.kubernetes import health
from tui.backends.kubernetes.cluster import ConnectedCluster
from tui.backends.kubernetes.connection import ClusterConnection
from tui.backends.kubernetes.discovery import PODS, discover
from tui.backends.kubernetes.login.cluster import Cluster
from tui.backends.kubernetes.permissions import Permissions
from tui.backends.kubernetes.pod_services import close_pod_services, pod_services
from tui.backends.kubernetes.preflight import ClusterPreflight
from tui.backends.kubernetes.quotas import ClusterQuotas
from tui.backends.kubernetes.watch.cluster_watch import EVERYWHERE, ClusterWatch
from tui.kinds.kind import resolve
from tui.kinds.registry import kinds

FAMILY = "kubernetes"
ASKED = ("create", "patch", "delete")
"""Verbs on jobs whose permissions are queried when a cluster is opened."""


@dataclass(frozen=True, slots=True)
class OpenCluster:
    """An open cluster and its services."""

    cluster: ConnectedCluster
    services: Services
    asking: asyncio.Task[None]

    async def check_health(self) -> Sequence[ServiceHealth]:
        """Return a line for each service and kind of job."""
        return await health.check(self.cluster)

    async def aclose(self) -> None:
        """Stop watching and close the connection."""
        self.asking.cancel()
        await close_pod_services(self.services)
        await self.cluster.watch.aclose()
        await self.cluster.connection.aclose()
        with contextlib.suppress(asyncio.CancelledError):
            await self.asking


async def connect(info: ContextInfo, cluster: Cluster, namespaces: Sequence[str]) -> OpenCluster:
    """Log in, discover the served types, and build the services. Raises BackendError.

    Without `namespaces`, all namespaces are read if the login may read them, else the kubeconfig's namespace.
    """
    connection = ClusterConnection(cluster)
    try:
        await connection.open()
        served = await discover(connection)
        permissions = Permissions(connection)
        scopes = tuple(namespaces) or await _scopes(connection, permissions)
    except BaseException:
        await connection.aclose()
        raise
    home = connection.login.namespace
    info = replace(info, endpoint=connection.login.server, regions=tuple(namespaces) or (home,), watched=True)
    watch = ClusterWatch(connection, served, info.name, scopes)
    connected = ConnectedCluster(info, connection, served, permissions, watch)
    questions = [(verb, types[0], info.regions[0]) for types in served.jobs.values() for verb in ASKED]
    asking = asyncio.create_task(permissions.ask_ahead(questions), name="ask permissions")
    return OpenCluster(connected, build_services(connected), asking)


async def still_served(connected: OpenCluster) -> bool:
    """Log in again. Return whether the cluster and its types are unchanged, so that nothing must be
    rebuilt."""
    cluster = connected.cluster
    before = cluster.connection.login
    await cluster.connection.open()
    login = cluster.connection.login
    return (login.server, login.cluster) == (before.server, before.cluster) and (
        await discover(cluster.connection) == cluster.served
    )


async def _scopes(connection: ClusterConnection, permissions: Permissions) -> tuple[str, ...]:
    everywhere = await permissions.allowed("list", PODS) and await permissions.allowed("watch", PODS)
    return (EVERYWHERE,) if everywhere else (connection.login.namespace,)


def build_services(cluster: ConnectedCluster) -> Services:
    """Build the services of a connected cluster, except for kinds that the cluster does not serve."""
    jobs: dict[str, JobService] = {
        kind.key: resolve(kind.services[FAMILY])(cluster, kind.key)
        for kind in kinds()
        if FAMILY in kind.services and kind.key in cluster.served.jobs
    }
    quotas = ClusterQuotas(cluster.connection, cluster.info.regions)
    return Services(
        jobs=jobs, quotas=quotas, preflight=ClusterPreflight(cluster), **pod_services(cluster, jobs)
    )
