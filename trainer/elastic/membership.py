"""The nodes that train together, and whether the remaining nodes may continue to train."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from trainer.structured_log import emit
from trainer.supervision.protocol import ProtocolError, read_integer, read_text

_MAX_PORT = 65535
_MAX_NODES = 1 << 16
_MAX_PROCESSES = 4096


@dataclass(frozen=True, slots=True)
class Member:
    """A node with its processes. Its supervisor listens at `address`:`port`. `spawn` identifies one start of
    its processes; processes with another number are new."""

    node: int
    processes: int
    spawn: int
    address: str
    port: int


@dataclass(frozen=True, slots=True)
class Membership:
    """The nodes that train from now on. The `epoch` increases with each membership.

    The first process of the first member has rank 0 and serves torch's store at `store_port`. Members that
    stay keep their order, so that rank 0 always has trained. `lost` and `joined` are the changed nodes,
    `left` the nodes that leave after a signal. With `urgent`, the processes abort the step in progress;
    otherwise they complete it together.
    """

    epoch: int
    members: tuple[Member, ...]
    store_port: int
    urgent: bool = False
    lost: tuple[int, ...] = ()
    joined: tuple[int, ...] = ()
    left: tuple[int, ...] = ()

    @property
    def nodes(self) -> tuple[int, ...]:
        return tuple(member.node for member in self.members)

    @property
    def world_size(self) -> int:
        return sum(member.processes for member in self.members)

    def index(self, node: int) -> int:
        """Return the node's index among the members, or -1 if it is not a member."""
        return self.nodes.index(node) if node in self.nodes else -1

    def first_rank(self, node: int) -> int:
        return sum(member.processes for member in self.members[: self.index(node)])

    def message(self) -> dict[str, Any]:
        return asdict(self)

    def report(self, step: int, seconds: float) -> None:
        """Log that these nodes train from this step on, `seconds` after the last step."""
        changes = {"lost": self.lost, "left": self.left, "joined": self.joined}
        changed = [
            f"node{'s' * (len(nodes) > 1)} {', '.join(map(str, nodes))} {how}"
            for how, nodes in changes.items()
            if nodes
        ]
        count = len(self.members)
        text = f"{count} node{'s train' if count > 1 else ' trains'} on at step {step} after {seconds:.1f} s"
        severity = "WARNING" if self.lost else "INFO"
        emit(
            "phase",
            ", ".join([*changed, text]),
            phase="training",
            severity=severity,
            step=step,
            seconds=seconds,
            epoch=self.epoch,
            nodes=self.nodes,
            **changes,
        )


def read_membership(message: Mapping[str, Any]) -> Membership:
    """Parse the result of `Membership.message`. Raises ProtocolError."""
    members = message.get("members")
    if (
        not isinstance(members, list)
        or not members
        or not all(isinstance(member, dict) for member in members)
    ):
        raise ProtocolError("members must be a list of nodes")
    return Membership(
        read_integer(message, "epoch", 1),
        tuple(_member(member) for member in members),
        read_integer(message, "store_port", 1, _MAX_PORT),
        message.get("urgent") is True,
        _nodes(message, "lost"),
        _nodes(message, "joined"),
        _nodes(message, "left"),
    )


def _member(message: Mapping[str, Any]) -> Member:
    return Member(
        read_integer(message, "node", 0, _MAX_NODES),
        read_integer(message, "processes", 1, _MAX_PROCESSES),
        read_integer(message, "spawn", 0),
        read_text(message, "address"),
        read_integer(message, "port", 1, _MAX_PORT),
    )


def _nodes(message: Mapping[str, Any], name: str) -> tuple[int, ...]:
    nodes = message.get(name)
    if not isinstance(nodes, list):
        raise ProtocolError(f"{name} must be a list of nodes")
    return tuple(read_integer({name: node}, name, 0, _MAX_NODES) for node in nodes)


def may_train(
    nodes: Collection[int], minimum: int, silent: Collection[int] = (), unknown: Collection[int] = ()
) -> bool:
    """Return whether these nodes may train without the others.

    A node whose connection was closed has ended. A node that is only `silent`, or was never reached
    (`unknown`), may still train behind a network partition: `nodes` must outnumber the silent and unknown
    nodes. Of two equal halves that trained together, the half with the lowest node may train.
    """
    if len(nodes) < minimum:
        return False
    apart = len(silent) + len(unknown)
    if len(nodes) != apart:
        return len(nodes) > apart
    return not unknown and min(nodes) < min(silent)
