"""The messages of the rendezvous, validated: after the handshake, a node may still have another version. A
node begins with a greeting (`hello`): the version of the protocol and its rank."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from trainer.placement.topology import Topology
from trainer.supervision.failure import AttemptFailure

VERSION = 2
_MAX_TEXT = 20_000
_MAX_PROCESSES = 4096
_MAX_COUNT = 1 << 53


class ProtocolError(Exception):
    """A message that no node of this run sends; the text names the problem."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt. `processes` are the numbers of processes, by node rank.

    `address`:`port` is the address of torch.distributed's store for this node's processes. `own_address` is
    this node's address on the same network; each node sets it, no message carries it. `store_address` is the
    address at which this node must host the store: "" for all of its addresses, `None` if another node hosts
    it.
    """

    number: int
    address: str
    port: int
    processes: tuple[int, ...]
    own_address: str = ""
    store_address: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class AttemptEnd:
    """The end of an attempt for this node. With `hangs`, its processes would not notice the end."""

    failure: AttemptFailure
    hangs: bool = False


def hello(topology: Topology, number: int, processes: int) -> dict[str, Any]:
    """Return the first message of a connection, which also joins the next attempt."""
    return {
        "protocol": VERSION,
        "rank": topology.node_rank,
        "join": number,
        "processes": processes,
    }


def read_hello(message: Mapping[str, Any], topology: Topology) -> int:
    """Parse the greeting of another node; return its rank. Raises ProtocolError."""
    if "protocol" not in message:
        raise ProtocolError("the peer did not send the greeting of a node")
    version = read_integer(message, "protocol", 0)
    if version != VERSION:
        raise ProtocolError(f"the peer must have version {VERSION} of the protocol, not {version}")
    rank = read_integer(message, "rank", 1, topology.nodes - 1)
    read_join(message)
    return rank


def read_join(message: Mapping[str, Any]) -> tuple[int, int]:
    """Parse a node's number of attempts so far and its number of processes. Raises ProtocolError."""
    return read_integer(message, "join", 0), read_integer(message, "processes", 1, _MAX_PROCESSES)


def start(attempt: Attempt, attempt_id: int) -> dict[str, Any]:
    return {
        "start": attempt.number,
        "address": attempt.address,
        "port": attempt.port,
        "processes": attempt.processes,
        "attempt_id": attempt_id,
    }


def read_start(message: Mapping[str, Any], topology: Topology, own_address: str) -> tuple[Attempt, int]:
    """Parse the attempt and its id. Raises ProtocolError."""
    processes = message.get("processes")
    if not isinstance(processes, list) or len(processes) != topology.nodes:
        raise ProtocolError(f"processes must be a list of {topology.nodes} numbers")
    counts = [read_integer({"processes": count}, "processes", 1, _MAX_PROCESSES) for count in processes]
    attempt = Attempt(
        read_integer(message, "start", 0),
        read_text(message, "address"),
        read_integer(message, "port", 1, 65535),
        tuple(counts),
        own_address,
    )
    return attempt, read_integer(message, "attempt_id", 1)


def failed(failure: AttemptFailure, attempt_id: int) -> dict[str, Any]:
    return {"failed": write_failure(failure), "attempt_id": attempt_id}


def read_failed(message: Mapping[str, Any]) -> tuple[AttemptFailure, int]:
    """Parse the failure and the attempt's id. Raises ProtocolError."""
    return read_failure(message, "failed"), read_integer(message, "attempt_id", 0)


def end(ended: AttemptEnd, attempt_id: int) -> dict[str, Any]:
    return {"end": write_failure(ended.failure), "hangs": ended.hangs, "attempt_id": attempt_id}


def read_end(message: Mapping[str, Any]) -> tuple[AttemptEnd, int]:
    """Parse the end and the attempt's id. Raises ProtocolError."""
    ended = AttemptEnd(read_failure(message, "end"), message.get("hangs") is True)
    return ended, read_integer(message, "attempt_id", 0)


def about_hang(message: dict[str, Any], attempt_id: int) -> dict[str, Any]:
    return {"hang": message, "attempt_id": attempt_id}


def read_about_hang(message: Mapping[str, Any]) -> tuple[dict[str, Any], int]:
    """Parse a message for `hang.exchange`, and the attempt's id. Raises ProtocolError."""
    about = message["hang"]
    if not isinstance(about, dict):
        raise ProtocolError("hang must be an object")
    return about, read_integer(message, "attempt_id", 1)


def read_leave(message: Mapping[str, Any]) -> int:
    """Parse the node's exit code. Raises ProtocolError."""
    return read_integer(message, "leave", 0, 255)


def write_failure(failure: AttemptFailure) -> dict[str, Any]:
    """Return the failure as a message field."""
    return {
        "message": failure.message[:_MAX_TEXT],
        "time": float(failure.time),
        "code": failure.code,
        "follower": failure.follower,
    }


def read_failure(message: Mapping[str, Any], name: str) -> AttemptFailure:
    """Parse the result of `write_failure` in this field. Raises ProtocolError."""
    fields = message[name]
    if not isinstance(fields, dict):
        raise ProtocolError(f"{name} must be an object")
    time = fields.get("time")
    if not isinstance(time, float) or not math.isfinite(time):
        raise ProtocolError("time must be a number")
    return AttemptFailure(
        read_text(fields, "message"),
        time,
        read_integer(fields, "code", 0, 255),
        fields.get("follower") is True,
    )


def read_integer(message: Mapping[str, Any], name: str, low: int, high: int = _MAX_COUNT) -> int:
    """Return an integer field. Raises ProtocolError."""
    value = message.get(name)
    # In Python True is an int.
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise ProtocolError(f"{name} must be a number from {low} to {high}")
    return value


def read_text(message: Mapping[str, Any], name: str) -> str:
    """Return a string field. Raises ProtocolError."""
    value = message.get(name)
    if not isinstance(value, str) or len(value) > _MAX_TEXT:
        raise ProtocolError(f"{name} must be a string")
    return value
