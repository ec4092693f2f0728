"""A node's rank in the cluster."""

from __future__ import annotations

from dataclasses import dataclass, field


class TopologyError(Exception):
    """Inconsistent or incomplete variables; the message gives the variables, the reason and the remedy."""


@dataclass(frozen=True, slots=True)
class Topology:
    """This node's rank among the nodes of its job. `source` names the variables with the rank.

    Node 0 listens at `address`:`port`. `trains` is false for a replica that does not train (a reducer, a
    parameter server, an evaluator). With `per_process`, a launcher already started one process per device, so
    `node_rank` and `nodes` count processes. `job` is the same on all nodes of a run, and differs between runs
    if the variables do.
    """

    source: str
    node_rank: int = 0
    nodes: int = 1
    """Number of nodes; the maximum for an elastic job."""
    address: str = "127.0.0.1"
    port: int = 29500
    role: str = "node"
    trains: bool = True
    per_process: bool = False
    job: str = ""
    warnings: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    """`host:port` of each node, by rank; empty if only the host of node 0 is known."""
    minimum: int = 0
    """Minimum number of nodes with which an elastic job trains; 0 for other jobs."""
    processes: int = 0
    """Processes per node from the variables; 0 for one per GPU, or one."""
    variables: dict[str, str] = field(default_factory=dict)
    """torchrun's variables for this process, if another launcher started it (`per_process`)."""
    key: bytes = field(default=b"", repr=False)
    """The run's key for the handshakes between nodes; the launcher sets it (`network.run_key`)."""

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """Address and port of each node, node 0's first; the port is 0 if it is unknown."""
        others = [split_port(host) for host in self.hosts[1:]] or [("", 0)] * (self.nodes - 1)
        return [(self.address, self.port), *others]

    @property
    def peers(self) -> list[str]:
        """The known hosts of the run."""
        return [host for host, _ in self.addresses if host]

    @property
    def own_port(self) -> int:
        """Port at which the other nodes reach this node; 0 if it is unknown."""
        return self.addresses[self.node_rank][1]


def split_port(host: str, default: int = 29500) -> tuple[str, int]:
    """Return the name and port of `name:port`; a name without a port has the default port."""
    name, _, port = host.rpartition(":")
    return (name, int(port)) if name and port.isdigit() else (host, default)
