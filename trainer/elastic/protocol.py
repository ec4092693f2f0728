"""Messages between the supervisors of an elastic run, in addition to those of `supervision.protocol`.

A node sends its complete state to its leader whenever it changes, and again when it finds another leader. The
leader answers with memberships. The handshake of the connection proves that both belong to this run.
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
"""Separates the hash of the data from the number of shards, in runs whose nodes need the same number of
shards."""
_MAX_PORT = 65535


@dataclass(frozen=True, slots=True)
class NodeState:
    """The state that a node reports. Its supervisor listens at `port`.

    `spawn` identifies the start of its processes; with `ready` they are prepared, and wait or train. `data`
    is the hash of their data, with the number of shards. `store_port` is free on this machine. `epoch` is the
    newest membership that the node received. `settled` is the membership with which its processes train, from
    `step` on. `broken` is the newest membership whose connections between processes broke; 0 if there is
    none. `leaving` is true after a signal.
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
    """Return the first message to a leader."""
    return {"elastic": VERSION, "state": asdict(state)}


@dataclass(frozen=True, slots=True, order=True)
class Claim:
    """The claim of a leader. When two leaders meet, the leader with the greater claim stays. A leader that
    `trains` comes first, then the higher `epoch`, then the lower rank."""

    trains: bool
    epoch: int
    before: int
    """The negative rank of the node."""


def call(claim: Claim, port: int) -> dict[str, Any]:
    """Return the leader's message to a node that has not reached it: the run continues at this port."""
    return {"elastic": VERSION, "led_at": port, "claim": asdict(claim)}


def check_version(message: Mapping[str, Any]) -> None:
    """Raise ProtocolError for a first message that no node of this version sends."""
    if "elastic" not in message:
        kind = (
            "the peer was started without --elastic"
            if "protocol" in message
            else "the peer did not send the greeting of a node"
        )
        raise ProtocolError(kind)
    version = read_integer(message, "elastic", 0)
    if version != VERSION:
        raise ProtocolError(f"the peer must have version {VERSION} of the protocol, not {version}")


def read_call(message: Mapping[str, Any], topology: Topology) -> tuple[int, Claim]:
    """Parse the leader's port and its claim. Raises ProtocolError."""
    fields = message.get("claim")
    if not isinstance(fields, dict):
        raise ProtocolError("the message has no claim")
    before = read_integer(fields, "before", 1 - topology.nodes, 0)
    claim = Claim(fields.get("trains") is True, read_integer(fields, "epoch", 0), before)
    return read_integer(message, "led_at", 1, _MAX_PORT), claim


def read_state(message: Mapping[str, Any], topology: Topology) -> NodeState:
    """Parse the state of a node. Raises ProtocolError."""
    fields = message.get("state")
    if not isinstance(fields, dict):
        raise ProtocolError("the message has no state")
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
        raise ProtocolError("follow must be an address")
    fields = {"address": pair[0], "port": pair[1]}
    return read_text(fields, "address"), read_integer(fields, "port", 1, _MAX_PORT)
