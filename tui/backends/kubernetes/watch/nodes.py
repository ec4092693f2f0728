"""Reads the machines of the nodes that run pods of jobs, when a node is first seen.

Nodes are not watched: their labels do not change, but a kubelet changes other fields every few minutes.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from urllib.parse import quote

from tui.backends.errors import BackendError, NotFound, PermissionDenied
from tui.backends.kubernetes.connection import ClusterConnection
from tui.domain.kubernetes.nodes.machine import NodeMachine, machine_of

NODES = "/api/v1/nodes"
METADATA = "application/json;as=PartialObjectMetadata{};g=meta.k8s.io;v=v1,application/json"
"""Media type without the status, which lists the images of a node."""
ONE_BY_ONE = 8
"""Maximum number of new nodes that are read individually. For more nodes, all nodes are listed."""
_ACTION = "read the nodes of jobs"
AGAIN, AGAIN_DENIED = 30.0, 300.0
"""Seconds before a node is read again, after an error and after a denial."""


class NodeReader:
    """Reads nodes. `machines` is keyed by node name and includes deleted nodes, on which jobs ran."""

    def __init__(self, connection: ClusterConnection) -> None:
        self.machines: dict[str, NodeMachine] = {}
        self.denied = False
        """Whether the login may not read nodes."""
        self._connection = connection
        self._not_before: dict[str, float] = {}
        self._reading = asyncio.Lock()

    def unknown(self, names: Iterable[str]) -> set[str]:
        """Return the given nodes that should be read now."""
        now = time.monotonic()
        unread = {*names} - self.machines.keys() - {""}
        return {name for name in unread if self._not_before.get(name, 0.0) <= now}

    async def learn(self, names: Iterable[str]) -> set[str]:
        """Read unknown nodes. Return the names of the newly known nodes. Never raises."""
        async with self._reading:
            due = self.unknown(names)
            if not due:
                return set()
            wait = AGAIN
            try:
                read = await self._read(due)
                self.denied = False
            except PermissionDenied:
                read, wait, self.denied = {}, AGAIN_DENIED, True
            except BackendError:
                read = {}
            self.machines |= read
            self._not_before |= dict.fromkeys(due - read.keys(), time.monotonic() + wait)
            return due & read.keys()

    async def _read(self, names: set[str]) -> dict[str, NodeMachine]:
        if len(names) > ONE_BY_ONE:
            return await self._all()
        machines = await asyncio.gather(*map(self._read_one, sorted(names)))
        return {name: machine for name, machine in zip(sorted(names), machines, strict=True) if machine}

    async def _read_one(self, name: str) -> NodeMachine | None:
        try:
            path = f"{NODES}/{quote(name, safe='')}"
            node = await self._connection.request(
                "GET", path, action=_ACTION, accept=METADATA.format(""), patience=2.0
            )
            return machine_of(node)
        except NotFound:
            return None

    async def _all(self) -> dict[str, NodeMachine]:
        nodes = await self._connection.items(
            NODES, action=_ACTION, accept=METADATA.format("List"), patience=2.0
        )
        return {str(node["metadata"]["name"]): machine_of(node) for node in nodes}
