"""Quotas of a cluster: Kueue's queues, ResourceQuotas of namespaces, and what node pools have.

Each is read where it is served and may be read. A person who may read only a namespace sees that one's.
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

PAGE = 1000
KUEUE = "/apis/kueue.x-k8s.io"
VERSIONS = ("v1beta2", "v1beta1")
"""Of Kueue, the newest first: a cluster serves one or both."""
ON_NODES = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"

Found = list[dict[str, Any]] | None


class ClusterQuotas(QuotaService):
    """Quotas of the namespaces of a context, and of its whole cluster."""

    def __init__(self, connection: ClusterConnection, namespaces: Sequence[str]) -> None:
        self._connection = connection
        self._namespaces = tuple(namespaces)

    async def read(self, regions: Sequence[str] = ()) -> list[Quota]:
        """Quotas of these namespaces, by default the context's, and of the cluster.

        Raises:
            BackendError: where none of them can be read, with the first reason.
        """
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
        found = ClusterObjects(nodes, pods, queues, local, flavors, hard)
        if nodes is queues is local is hard is None:
            raise self._refused[0]
        return quotas_of(found, datetime.now(UTC))

    async def _in(self, namespaces: Sequence[str], plural: str) -> Found:
        """The objects of every namespace that may be read; `None` where none may."""
        what = "read the LocalQueues of {}" if plural == "localqueues" else "read the ResourceQuotas of {}"
        pages = await asyncio.gather(
            *(
                self._kueue(f"namespaces/{name}/{plural}", what.format(name))
                if plural == "localqueues"
                else self._list(f"/api/v1/namespaces/{name}/{plural}", what.format(name))
                for name in namespaces
            )
        )
        read = [page for page in pages if page is not None]
        return [each for page in read for each in page] if read else None

    async def _kueue(self, path: str, what: str) -> Found:
        for version in VERSIONS:
            found = await self._list(f"{KUEUE}/{version}/{path}", what)
            if found is not None:
                return found
        return None

    async def _list(self, path: str, what: str, **params: str) -> Found:
        """All objects of a list; `None` where it is not served, or may not be read."""
        found: list[dict[str, Any]] = []
        page = {"limit": PAGE, **params}
        while True:
            try:
                reply = await self._connection.request("GET", path, what=what, params=page)
            except (NotFound, PermissionDenied) as error:
                self._refused.append(error)
                return None
            found += reply.get("items") or []
            token = (reply.get("metadata") or {}).get("continue")
            if not token:
                return found
            page["continue"] = token
