"""The process groups of a rank whose membership changes while it runs."""

from __future__ import annotations

import gc
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path

import torch
import torch.distributed as dist

from trainer.distributed.process_group import ProcessGroup, new_group
from trainer.distributed.replica_group import ModelReplica
from trainer.elastic.link import MembershipNotice
from trainer.elastic.store import AbortableStore, Superseded
from trainer.torch_private import name_groups_from, set_cpu_timeout

_FDS = Path("/proc/self/fd")
CONNECT_TIMEOUT = 0.6
"""Timeout for a connection of a group, in seconds. gloo waits five times as long (`waitUntilConnected` in its
transport/tcp/pair.cc). Nothing else ends its wait for a lost rank."""
_NETWORK = {socket.AF_INET, socket.AF_INET6}


class ElasticGroup(ProcessGroup):
    """The process group of an elastic run: a rank joins and leaves memberships, and another thread can abort
    collective calls."""

    def __init__(self) -> None:
        super().__init__()
        self._others: frozenset[tuple[int, int]] | None = None
        """Sockets that were open before this membership; None outside a membership."""
        self.replica: ModelReplica | None = None
        """The ranks of this node, if they share one replica of the model."""
        self.counterparts: dist.ProcessGroup | None = None
        """The ranks of all nodes with the same shards of a replica; None if there is no replica, or no other
        node."""
        self._own_interface = "GLOO_SOCKET_IFNAME" in os.environ

    def make_replica(self, timeout: float) -> ModelReplica:
        """Create the replica group of this node's ranks, before the first membership."""
        self.replica = ModelReplica(timeout)
        return self.replica

    def join(
        self, notice: MembershipNotice, device: torch.device, timeout: float, superseded: Callable[[], bool]
    ) -> None:
        """Create the groups of this membership; a collective call of its ranks.

        Raises:
            Superseded: as soon as another membership replaces it, or a rank is lost.
        """
        membership = notice.membership
        self.rank = membership.first_rank(notice.node) + self.local_rank
        self.world_size = membership.world_size
        self.node_rank, self.nodes = membership.index(notice.node), len(membership.members)
        os.environ.update(RANK=str(self.rank), WORLD_SIZE=str(self.world_size))
        if notice.interface and not self._own_interface:
            os.environ["GLOO_SOCKET_IFNAME"] = notice.interface
        store: dist.Store = dist.HashStore()
        if self.world_size > 1:
            store = AbortableStore(
                notice.store_address,
                membership.store_port,
                serves=self.rank == 0,
                superseded=superseded,
                timeout=timeout,
            )
        self._others = frozenset(_sockets())
        try:
            self._create(store, device, timeout, CONNECT_TIMEOUT)
            if self.replica is not None:
                self._find_counterparts(self.replica, timeout)
        except RuntimeError as error:
            raise Superseded(f"the ranks did not reach one another: {error}") from error

    def _find_counterparts(self, replica: ModelReplica, timeout: float) -> None:
        replica.renumber(self.rank - self.local_rank)
        if self.nodes == 1:
            return
        for local_rank in range(replica.size):
            group = new_group(list(range(local_rank, self.world_size, replica.size)), CONNECT_TIMEOUT)
            if local_rank == self.local_rank:
                self.counterparts = group
                set_cpu_timeout(group, timeout)

    def leave(self) -> None:
        """Free all groups except the group of the replica. Ranks that wait in them fail immediately."""
        self._others, self.counterparts = None, None
        with self.replica.kept() if self.replica is not None else nullcontext():
            self.destroy()
        # torch numbers groups for their names in the store, and restarts only when it destroys the groups.
        # A rank that failed to create its groups would wait for other names than the rest.
        name_groups_from(0)
        for name in ("store", "control_group", "checkpoint_group", "node_group"):
            self.__dict__.pop(name, None)
        # A reference cycle would keep the connections of a group open.
        gc.collect()

    def abort(self) -> None:
        """Fail the collective calls in progress in all threads. The method is thread-safe.

        gloo has no call for an abort: `ProcessGroupGloo.abort` of torch 2.13 does not end a waiting call, but
        a closed connection does. torch's listening socket must stay open: gloo ends the process if accepting
        fails.
        """
        others = self._others
        if others is None:
            return
        for descriptor, inode in _sockets():
            if (descriptor, inode) not in others:
                with suppress(OSError), _duplicate(descriptor, inode) as connection:
                    listens = connection.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
                    if connection.family in _NETWORK and not listens:
                        connection.shutdown(socket.SHUT_RDWR)


def _sockets() -> Iterator[tuple[int, int]]:
    """Yield descriptors of this process's sockets, with their inodes."""
    for link in _FDS.iterdir():
        with suppress(OSError):
            target = str(link.readlink())
            if target.startswith("socket:["):
                yield int(link.name), int(target[len("socket:[") : -1])


@contextmanager
def _duplicate(descriptor: int, inode: int) -> Iterator[socket.socket]:
    """Duplicate the socket, unless its descriptor was reused. Raises OSError."""
    with socket.socket(fileno=os.dup(descriptor)) as duplicate:
        if os.fstat(duplicate.fileno()).st_ino != inode:
            raise OSError("the socket was closed")
        yield duplicate
