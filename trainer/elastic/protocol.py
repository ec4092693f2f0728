"""The messages between the supervisors of an elastic run, besides those of `supervision.protocol`.

A node sends its whole state to its leader whenever it changes, and again when it finds another leader. The
leader answers with memberships. The handshake of the connection has made sure that both are nodes of this
run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from trainer.placement.topology import Topology
from trainer.supervision.protocol import ProtocolError, read_integer, read_text

VERSION = 2
LINK = "VXTUI_ELASTIC"
"""Variable with the path of the supervisor's socket, in the processes of an elastic run."""
SHARDS = ", shards: "
"""Separates the hash of the data from the number of shards, where all nodes need the same number."""
_MAX_PORT = 65535


@dataclass(frozen=True, slots=True)
class NodeState:
    """What a node reports of itself. Its supervisor listens at `port`.

    `spawn` identifies the start of its processes; `ready`: they are prepared, and wait or train. `data` is
    the hash of their data, and the number of shards. `store_port` is free on this machine. `epoch` is the
    last membership it knows, `settled` the one with which its processes train, from `step` on; `broken` is
    the one whose connections between the processes broke, 0 if none did. `leaving`: it got a signal.
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


def hello(state: NodeState) -> dict[str, Any]:
    """The first message to a leader."""
    return {"elastic": VERSION, "state": asdict(state)}


@dataclass(frozen=True, slots=True, order=True)
class Claim:
    """A leader's claim: when two leaders meet, the one with the greater claim stays.

    A leader that `trains` comes first, then the higher `epoch`, then the lower rank.
    """

    trains: bool
    epoch: int
    before: int
    """The negative rank of the node."""


def call(claim: Claim, port: int) -> dict[str, Any]:
    """What a leader sends to a node that does not know it: the run continues at this port."""
    return {"elastic": VERSION, "led_at": port, "claim": asdict(claim)}


def check_version(message: Mapping[str, Any]) -> None:
    """Raise ProtocolError for a first message that no node of this version sends."""
    if "elastic" not in message:
        kind = (
            "it was started without --elastic"
            if "protocol" in message
            else "it did not send the hello of a node"
        )
        raise ProtocolError(kind)
    version = read_integer(message, "elastic", 0)
    if version != VERSION:
        raise ProtocolError(f"it has version {version} of the protocol, not {VERSION}")


def read_call(message: Mapping[str, Any], topology: Topology) -> tuple[int, Claim]:
    """Parse the leader's port and its claim. Raises ProtocolError."""
    fields = message.get("claim")
    if not isinstance(fields, dict):
        raise ProtocolError("it has no claim")
    before = read_integer(fields, "before", 1 - topology.nodes, 0)
    claim = Claim(fields.get("trains") is True, read_integer(fields, "epoch", 0), before)
    return read_integer(message, "led_at", 1, _MAX_PORT), claim


def read_state(message: Mapping[str, Any], topology: Topology) -> NodeState:
    """Parse the state of a node. Raises ProtocolError."""
    fields = message.get("state")
    if not isinstance(fields, dict):
        raise ProtocolError("it has no state")
    return NodeState(
        read_integer(fields, "node", 0, topology.nodes - 1),
        read_integer(fields, "processes", 1, 4096),
        read_integer(fields, "port", 1, _MAX_PORT),
        read_integer(fields, "spawn", 0),
        fields.get("ready") is True,
        read_text(fields, "data"),
        read_integer(fields, "store_port", 1, _MAX_PORT),
        read_integer(fields, "epoch", 0),
        read_integer(fields, "settled", 0),
        read_integer(fields, "step", 0),
        read_integer(fields, "broken", 0),
        fields.get("leaving") is True,
    )


def read_address(message: Mapping[str, Any]) -> tuple[str, int]:
    """Parse the address to which `follow` redirects a node. Raises ProtocolError."""
    pair = message.get("follow")
    if not isinstance(pair, list) or len(pair) != 2:
        raise ProtocolError("follow is not an address")
    fields = {"address": pair[0], "port": pair[1]}
    return read_text(fields, "address"), read_integer(fields, "port", 1, _MAX_PORT)
