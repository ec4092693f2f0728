"""State and events that the parts of a node's supervisor share."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from trainer.elastic.leader import ElasticRules
from trainer.elastic.membership import Membership
from trainer.elastic.protocol import NodeState
from trainer.network.addresses import LOOPBACK, free_port
from trainer.placement.topology import Topology
from trainer.supervision.protocol import AttemptEnd
from trainer.supervision.rendezvous import HEARTBEAT

Address = tuple[str, int]


@dataclass(frozen=True, slots=True)
class NewMembership:
    """A new membership: the address of its store, and this node's own address ("" if unknown)."""

    membership: Membership
    store_address: str
    own_address: str


@dataclass(frozen=True, slots=True)
class NodeDropped:
    """The run continues without this node's processes: they must end, and new processes may join."""

    reason: str


@dataclass(frozen=True, slots=True)
class StopTogether:
    """All nodes save and stop together."""


@dataclass(frozen=True, slots=True)
class RunFinished:
    """The run ended on the other nodes with this exit code."""

    code: int


@dataclass(frozen=True, slots=True)
class NodeRefused:
    """The run refuses this node."""

    reason: str


Event = NewMembership | AttemptEnd | NodeDropped | StopTogether | RunFinished | NodeRefused


@dataclass(slots=True)
class NodeContext:
    """The state of one node. `clock` returns seconds."""

    topology: Topology
    rules: ElasticRules
    peer_timeout: float
    clock: Callable[[], float] = time.monotonic
    state: NodeState = field(init=False)
    membership: Membership | None = None
    """The newest membership with this node's processes."""
    events: list[Event] = field(default_factory=list)
    problem: str = ""
    """Why this node has not joined a run so far."""
    _last_heartbeat: float = 0.0

    def __post_init__(self) -> None:
        self.state = NodeState(self.topology.node_rank, 1, 1)

    @property
    def node(self) -> int:
        return self.topology.node_rank

    def heartbeat_due(self) -> bool:
        """Return whether to send a heartbeat; true once in each period."""
        if self.clock() - self._last_heartbeat <= min(HEARTBEAT, self.peer_timeout / 5):
            return False
        self._last_heartbeat = self.clock()
        return True

    def enter(self, membership: Membership, leader_node: int, leader_address: str, own: str) -> None:
        """Adopt a membership. Each node uses the address at which it reached the leader."""
        # The store of this membership may still be open when the next membership begins, which needs
        # another port.
        self.state = replace(self.state, epoch=membership.epoch, store_port=free_port())
        self.membership = membership if self.node in membership.nodes else None
        first = membership.members[0]
        address = leader_address if first.node == leader_node and leader_address else first.address
        if first.node == self.node:
            address = own or LOOPBACK
        self.events.append(NewMembership(membership, address, own))

    def drop(self, reason: str) -> None:
        """Leave the membership: the run continues without this node."""
        self.membership = None
        self.events.append(NodeDropped(reason))
