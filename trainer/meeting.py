"""How the nodes agree on an attempt: all are there, all are fresh, and this is its address.

Node 0's supervisor keeps a small store open for as long as it lives. Before each attempt a node says that
it is there, under a mark that it has never used. Node 0 waits until every mark is new, picks a free port
and publishes it with the marks; a node takes part once it finds its own mark among them. So nobody joins
an attempt that is about to die, whoever was restarted, and whoever is missing has a name.
"""

from __future__ import annotations

import contextlib
import json
import socket
import time
import uuid
from collections.abc import Callable
from datetime import timedelta

from torch.distributed import DistNetworkError, DistStoreError, TCPStore

from trainer.topology import Topology

POLL = 0.1
CALL = timedelta(seconds=10)
"""Longest wait for one answer of the store; a machine that vanished sends none."""


class NodesMissing(Exception):
    """The nodes did not come together in time; the message names who is missing."""


class ToldToLeave(Exception):
    """The supervisor was told to end while it waited."""


class Meeting:
    """One node's side of it. `told` says whether the supervisor has been told to leave."""

    def __init__(self, topology: Topology, timeout: float, told: Callable[[], bool]) -> None:
        self._topology, self._timeout, self._told = topology, timeout, told
        self._store: TCPStore | None = None
        self._used: set[str] = set()
        self._attempt = 0

    def next(self) -> tuple[str, int]:
        """Address and port of the next attempt, once all nodes are there.

        Raises:
            NodesMissing: when they are not within the timeout.
            ToldToLeave: when the supervisor is told to end meanwhile.
        """
        top = self._topology
        if top.nodes == 1:
            return "127.0.0.1", free_port("127.0.0.1")
        deadline = time.monotonic() + self._timeout
        mark = uuid.uuid4().hex
        return self._call_together(mark, deadline) if top.node_rank == 0 else self._come(mark, deadline)

    def _call_together(self, mark: str, deadline: float) -> tuple[str, int]:
        top = self._topology
        if self._store is None:
            self._store = self._open(deadline, master=True)
        marks = {0: mark}
        while len(marks) < top.nodes:
            for rank in range(1, top.nodes):
                found = self._read(f"here/{rank}")
                if found and found not in self._used:
                    marks[rank] = found
            missing = [str(rank) for rank in range(top.nodes) if rank not in marks]
            if missing:
                names = f"node {missing[0]}" if len(missing) == 1 else f"nodes {', '.join(missing)}"
                self._wait(deadline, f"{names} did not come within {self._timeout:.0f} s")
        self._used.update(marks.values())
        # A node may have been replaced while the others were waited for: its newest mark counts.
        address = reachable_address(top.address)
        port = free_port(address)
        word = json.dumps({"marks": list(marks.values()), "address": address, "port": port})
        self._attempt += 1
        self._store.set("attempt", word)
        return address, port

    def _come(self, mark: str, deadline: float) -> tuple[str, int]:
        top = self._topology
        where = f"node 0 was not reached at {top.address}:{top.port} within {self._timeout:.0f} s"
        missing = f"{where} (this is node {top.node_rank})"
        while True:
            if self._store is None:
                self._store = self._open(deadline, master=False)
            try:
                self._store.set(f"here/{top.node_rank}", mark)
                word = self._read("attempt")
            except (DistNetworkError, DistStoreError, RuntimeError):
                # Node 0 has gone; the next one at that address has a store of its own.
                self._store, word = None, ""
            if word and mark in (found := json.loads(word))["marks"]:
                return str(found["address"]), int(found["port"])
            self._wait(deadline, missing)

    def _open(self, deadline: float, *, master: bool) -> TCPStore:
        top = self._topology
        host = "" if master else top.address
        while True:
            try:
                if not master:
                    # TCPStore itself waits long and loudly for a host that is not there.
                    socket.create_connection((top.address, top.port), timeout=5).close()
                return TCPStore(
                    host or reachable_address(top.address),
                    top.port,
                    None,
                    master,
                    CALL,
                    wait_for_workers=False,
                )
            except (OSError, DistNetworkError, DistStoreError, RuntimeError) as error:
                what = f"port {top.port} can't be used on node 0: {error}" if master else str(error)
                lead = what if master else f"node 0 was not reached at {top.address}:{top.port}"
                self._wait(deadline, f"{lead} within {self._timeout:.0f} s (this is node {top.node_rank})")

    def _read(self, key: str) -> str:
        assert self._store is not None
        return self._store.get(key).decode() if self._store.check([key]) else ""

    def _wait(self, deadline: float, missing: str) -> None:
        if self._told():
            raise ToldToLeave
        if time.monotonic() > deadline:
            raise NodesMissing(missing)
        time.sleep(POLL)


def reachable_address(name: str) -> str:
    """Where the other nodes reach this one.

    On Vertex the name of node 0 is a service with a few declared ports, and only the pod's own address
    takes any port (vertex facts 3.3); a name that means this machine's loopback stays as it is.
    """
    with contextlib.suppress(OSError):
        found = socket.gethostbyname(name)
        if found.startswith("127."):
            return found
        return socket.gethostbyname(socket.gethostname())
    return name


def free_port(address: str) -> int:
    """A port that is free now. If it is taken before we use it, the attempt fails, the next has another."""
    with socket.socket() as probe:
        try:
            probe.bind((address, 0))
        except OSError:
            probe.bind(("", 0))
        return int(probe.getsockname()[1])
