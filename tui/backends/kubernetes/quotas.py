"""Quotas of a cluster: Kueue's queues, ResourceQuotas of namespaces, and the resources of node pools.

Each kind is read if the cluster serves it and the login may read it. A login for one namespace reads only
that namespace.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from tui.backends.errors import BackendError, NotFound, PermissionDenied
from tui.backends.interface import QuotaService
from tui.backends.kubernetes.connection import ClusterConnection
from tui.domain.core.quota import Quota
from tui.domain.kubernetes.quotas import ClusterObjects, quotas_of

KUEUE = "/apis/kueue.x-k8s.io"
VERSIONS = ("v1beta2", "v1beta1")
"""Versions of Kueue's API, newest first. A cluster serves one or both."""
ON_NODES = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"

Found = list[dict[str, Any]] | None


class ClusterQuotas(QuotaService):
    """Quotas of the namespaces of a context, and of the entire cluster."""

    def __init__(self, connection: ClusterConnection, namespaces: Sequence[str]) -> None:
        self._connection = connection
        self._namespaces = tuple(namespaces)

    async def read(self, regions: Sequence[str] = ()) -> list[Quota]:
        """Return the quotas of these namespaces and of the cluster. Raises the first error if none can be
        read."""
        namespaces = tuple(dict.fromkeys(regions or self._namespaces))
        self._refused: list[BackendError] = []
        nodes, pods, queues, flavors, local, hard = await asyncio.gather(
            self._list("/api/v1/nodes", "read the nodes"),
            self._list("/api/v1/pods", "read the pods on nodes", fieldSelector=ON_NODES),
            self._kueue("clusterqueues", "read the ClusterQueues"),
            self._kueue("resourceflavors", "read the ResourceFlavors"),
            self._in(namespaces, "localqueues"),
            self._in(namespaces, "resourcequotas"),
        )
        objects = ClusterObjects(nodes, pods, queues, local, flavors, hard)
        if nodes is queues is local is hard is None:
            raise self._refused[0]
        return quotas_of(objects, datetime.now(UTC))

    async def _in(self, namespaces: Sequence[str], plural: str) -> Found:
        """Return the objects of every readable namespace, or `None` if no namespace is readable."""
        action = "read the LocalQueues of {}" if plural == "localqueues" else "read the ResourceQuotas of {}"
        pages = await asyncio.gather(
            *(
                self._kueue(f"namespaces/{name}/{plural}", action.format(name))
                if plural == "localqueues"
                else self._list(f"/api/v1/namespaces/{name}/{plural}", action.format(name))
                for name in namespaces
            )
        )
        pages_read = [page for page in pages if page is not None]
        return [obj for page in pages_read for obj in page] if pages_read else None

    async def _kueue(self, path: str, action: str) -> Found:
        for version in VERSIONS:
            objects = await self._list(f"{KUEUE}/{version}/{path}", action)
            if objects is not None:
                return objects
        return None

    async def _list(self, path: str, action: str, **params: str) -> Found:
        """Return all objects of a list, or `None` if the list is not served or may not be read."""
        try:
            return await self._connection.items(path, action=action, params=params)
        except (NotFound, PermissionDenied) as error:
            self._refused.append(error)
            return None
