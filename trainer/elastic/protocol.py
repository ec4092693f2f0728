"""The messages between the supervisors of an elastic run, beside those of `supervision.protocol`.

A node tells its leader its whole state whenever that changes, and again when it finds another leader. The
leader answers with memberships. Everything carries the job's id, as anything may connect to the port.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from trainer.placement.topology import Topology
from trainer.supervision.protocol import ProtocolError, read_integer, read_text

VERSION = 1
LINK = "VXTUI_ELASTIC"
"""Variable with the path of the supervisor's socket, in the processes of an elastic run."""
SHARDS = ", shards: "
"""Before their number, in what a node tells of its data, where all nodes need as many."""
_MAX_PORT = 65535


@dataclass(frozen=True, slots=True)
class NodeState:
    """What a node tells of itself. Its supervisor listens at `port`.

    `spawn` counts the starts of its processes; `ready`: they are prepared, and wait or train. `data` is the
    hash of their data, and the number of shards. `store_port` is free on this machine. `epoch` is the last
    membership it knows, `settled` the one with which its processes train, from `step` on; `broken` is one
    whose connections between the processes broke, 0 if none did. `leaving`: it got a signal.
    """

    node: int
    processes: int
    port: int
    spawn: int = 0
    ready: bool = False
    data: str = ""
    store_port: int = 1
    epoch: int = 0
    settled: int = 0
    step: int = 0
    broken: int = 0
    leaving: bool = False


def hello(topology: Topology, state: NodeState) -> dict[str, Any]:
    """The first message to a leader."""
    return {"elastic": VERSION, "job": topology.job, "state": asdict(state)}


@dataclass(frozen=True, slots=True, order=True)
class Claim:
    """Of two leaders that find each other the one with the greater claim stays.

    It `trains`, has the higher `epoch`, or is the node with the lower rank.
    """

    trains: bool
    epoch: int
    before: int
    """The negative rank of the node."""


def call(topology: Topology, claim: Claim, port: int) -> dict[str, Any]:
    """What a leader tells a node that does not know it: the run goes on at this port."""
    return {"elastic": VERSION, "job": topology.job, "led_at": port, "claim": asdict(claim)}


def check_job(message: Mapping[str, Any], topology: Topology) -> None:
    """Raises ProtocolError for a first message that no node of this run sends."""
    if "elastic" not in message:
        kind = "it was started without --elastic" if "protocol" in message else "it does not begin as a node"
        raise ProtocolError(kind)
    version, job = read_integer(message, "elastic", 0), read_text(message, "job")
    if version != VERSION:
        raise ProtocolError(f"it has version {version} of the protocol, not {VERSION}")
    if job != topology.job:
        raise ProtocolError(f"it belongs to job {job[:60]}, not to {topology.job}")


def read_call(message: Mapping[str, Any], topology: Topology) -> tuple[int, Claim]:
    """The leader's port and its claim. Raises ProtocolError."""
    said = message.get("claim")
    if not isinstance(said, dict):
        raise ProtocolError("it has no claim")
    before = read_integer(said, "before", 1 - topology.nodes, 0)
    claim = Claim(said.get("trains") is True, read_integer(said, "epoch", 0), before)
    return read_integer(message, "led_at", 1, _MAX_PORT), claim


def read_state(message: Mapping[str, Any], topology: Topology) -> NodeState:
    """The state in this message. Raises ProtocolError."""
    said = message.get("state")
    if not isinstance(said, dict):
        raise ProtocolError("it has no state")
    return NodeState(
        read_integer(said, "node", 0, topology.nodes - 1), read_integer(said, "processes", 1, 4096),
        read_integer(said, "port", 1, _MAX_PORT), read_integer(said, "spawn", 0), said.get("ready") is True,
        read_text(said, "data"), read_integer(said, "store_port", 1, _MAX_PORT),
        read_integer(said, "epoch", 0), read_integer(said, "settled", 0), read_integer(said, "step", 0),
        read_integer(said, "broken", 0), said.get("leaving") is True,
    )  # fmt: skip


def read_address(message: Mapping[str, Any]) -> tuple[str, int]:
    """Where `follow` sends a node. Raises ProtocolError."""
    found = message.get("follow")
    if not isinstance(found, list) or len(found) != 2:
        raise ProtocolError("follow is no address")
    said = {"address": found[0], "port": found[1]}
    return read_text(said, "address"), read_integer(said, "port", 1, _MAX_PORT)
