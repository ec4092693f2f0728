"""A node's place in the cluster."""

from __future__ import annotations

from dataclasses import dataclass, field


class TopologyError(Exception):
    """The variables are inconsistent or not enough: which ones, why, and what to do."""


@dataclass(frozen=True, slots=True)
class Topology:
    """This node's rank. `source` names the variables that it is from.

    Node 0 listens at `address`:`port`. `trains` is False for a replica that does not train (a reducer, a
    parameter server, an evaluator). `per_process` means that a launcher has already started one process for
    each device, so `node_rank` and `nodes` count processes. `job` is the same text on all nodes of a run, and
    another one in other runs as far as the variables tell.
    """

    source: str
    node_rank: int = 0
    nodes: int = 1
    """Of an elastic job the most nodes that it may have."""
    address: str = "127.0.0.1"
    port: int = 29500
    role: str = "node"
    trains: bool = True
    per_process: bool = False
    job: str = ""
    warnings: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    """`host:port` of each node, by rank, where the variables tell; empty if they only tell node 0's."""
    minimum: int = 0
    """The fewest nodes that an elastic job trains with; 0: all of them."""
    processes: int = 0
    """Processes of each node, where the variables tell; 0: one for each GPU, or one."""
    variables: dict[str, str] = field(default_factory=dict)
    """With `per_process`: torchrun's variables for this process, where another launcher has its own."""

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """Address and port of each node, node 0's first; the port is 0 where they are not known."""
        others = [split_port(host) for host in self.hosts[1:]] or [("", 0)] * (self.nodes - 1)
        return [(self.address, self.port), *others]

    @property
    def own_port(self) -> int:
        """Where the others reach this node; 0 if they don't know."""
        return self.addresses[self.node_rank][1]


def split_port(host: str, default: int = 29500) -> tuple[str, int]:
    """Name and port of `name:port`, or of a name alone."""
    name, _, port = host.rpartition(":")
    return (name, int(port)) if name and port.isdigit() else (host, default)
