"""The machines of the nodes that pods of jobs are on, read when such a node is first seen.

Labels of a node stay as they are, so nodes are not watched: a kubelet changes each of them every few minutes.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote

from tui.backends.errors import BackendError, NotFound, PermissionDenied
from tui.backends.kubernetes.connection import ClusterConnection
from tui.domain.kubernetes.nodes.machine import NodeMachine, machine_of

NODES = "/api/v1/nodes"
METADATA = "application/json;as=PartialObjectMetadata{};g=meta.k8s.io;v=v1,application/json"
"""Without status, in which a node lists its images."""
ONE_BY_ONE = 8
"""Most new nodes that are read by name; for more, all nodes are listed."""
PAGE = 500
AGAIN, AGAIN_DENIED = 30.0, 300.0
"""Seconds until a node that could not be read is asked for again."""


class NodeReader:
    """`machines` is by the name of the node, and keeps those that are gone: jobs ran there."""

    def __init__(self, connection: ClusterConnection) -> None:
        self.machines: dict[str, NodeMachine] = {}
        self.denied = False
        """Whether the login may not read nodes."""
        self._connection = connection
        self._not_before: dict[str, float] = {}
        self._reading = asyncio.Lock()

    def unknown(self, names: Iterable[str]) -> set[str]:
        """Those of these nodes that are to be read now."""
        now = time.monotonic()
        return {
            name for name in names
            if name and name not in self.machines and self._not_before.get(name, 0.0) <= now
        }  # fmt: skip

    async def learn(self, names: Iterable[str]) -> set[str]:
        """Read nodes that are not known; the names of those that are now. It never raises."""
        async with self._reading:
            wanted = self.unknown(names)
            if not wanted:
                return set()
            wait = AGAIN
            try:
                found = await self._read(wanted)
                self.denied = False
            except PermissionDenied:
                found, wait, self.denied = {}, AGAIN_DENIED, True
            except BackendError:
                found = {}
            self.machines |= found
            self._not_before |= dict.fromkeys(wanted - found.keys(), time.monotonic() + wait)
            return wanted & found.keys()

    async def _read(self, names: set[str]) -> dict[str, NodeMachine]:
        if len(names) > ONE_BY_ONE:
            return await self._all()
        found = await asyncio.gather(*map(self._one, sorted(names)))
        return {name: machine for name, machine in zip(sorted(names), found, strict=True) if machine}

    async def _one(self, name: str) -> NodeMachine | None:
        try:
            return machine_of(await self._get(f"{NODES}/{quote(name, safe='')}", "", {}))
        except NotFound:
            return None

    async def _all(self) -> dict[str, NodeMachine]:
        found: dict[str, NodeMachine] = {}
        go_on = ""
        while True:
            page = await self._get(NODES, "List", {"limit": PAGE, "continue": go_on})
            for node in page.get("items") or ():
                found[str(node["metadata"]["name"])] = machine_of(node)
            go_on = str((page.get("metadata") or {}).get("continue") or "")
            if not go_on:
                return found

    async def _get(self, path: str, form: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        reply: Mapping[str, Any] = await self._connection.request(
            "GET", path, what="read the nodes of jobs", params=params, patience=2.0,
            accept=METADATA.format(form),
        )  # fmt: skip
        return reply
