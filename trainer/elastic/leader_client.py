"""The follower part of a node, which finds the leader and, after the loss of the leader, its successor."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from typing import Any

from trainer import exit_codes
from trainer.elastic import protocol
from trainer.elastic.context import Address, NodeContext, NodeRefused, RunFinished, StopTogether
from trainer.elastic.membership import read_membership
from trainer.network.addresses import local_address
from trainer.network.handshake import Handshake
from trainer.network.messages import MessageStream
from trainer.supervision import protocol as rendezvous_protocol
from trainer.supervision.failure import AttemptFailure
from trainer.supervision.protocol import ProtocolError, read_integer, read_text
from trainer.supervision.rendezvous import CLOSED_UNPROVED, PART_DONE

CONNECT_TIMEOUT = 1.0
RETRY = 0.25
"""Seconds between attempts to find a leader."""
ANSWER_WAIT = 2.0
"""Seconds in which a leader must answer."""
SUCCESSION_LIMIT = 10.0
"""Seconds after which a node ends its processes if it finds no new leader."""
FINISH_WAIT = 10.0
"""Seconds for which a leader waits for the other nodes after the last step."""


@dataclass(slots=True)
class Succession:
    """The search for a successor of the leader `lost`; `candidates` are the possible leaders, in order."""

    lost: int
    reason: str
    silent: bool
    candidates: list[int]
    until: float


class LeaderClient:
    """The follower's side of the connection to the leader."""

    def __init__(self, context: NodeContext) -> None:
        self._context = context
        self.stream: MessageStream | None = None
        self._welcomed, self._leader_node, self._address = False, -1, ("", 0)
        self._connected_at, self._next_try, self._tries = 0.0, 0.0, 0
        self.redirect: Address | None = None
        """Address of the leader, as another node sent it."""
        self._succession: Succession | None = None

    @property
    def knows_no_leader(self) -> bool:
        """Whether this node has no address of a leader."""
        return self.stream is None and self._succession is None and self.redirect is None

    @property
    def leader_address(self) -> Address | None:
        return self._address if self._welcomed else None

    def exchange(self) -> Succession | None:
        """Read messages, or search for a leader; return the succession if this node must lead now."""
        if self.stream is None:
            return self._seek()
        self._follow(self.stream)
        return None

    def send_state(self) -> None:
        if self.stream is not None:
            self.stream.send(**protocol.hello(self._context.state))

    def fail(self, failure: AttemptFailure) -> None:
        """Report that a process of this node failed."""
        if self.stream is not None:
            self.stream.send(**rendezvous_protocol.failed(failure, self._context.state.epoch))

    def on_call(self, address: Address) -> None:
        """Handle a connection of a leader from this address."""
        if self.stream is None or not self._welcomed:
            self.redirect, self._next_try = address, 0.0

    def own_address(self) -> str:
        return local_address(self.stream.sock) if self.stream is not None else ""

    def waiting_for(self) -> str:
        """Return the event that this node waits for, as text."""
        if self._welcomed:
            return f"node {self._leader_node} did not gather enough nodes"
        top = self._context.topology
        return f"no leader was reached; node 0 is {top.address}:{top.port} (this is node {top.node_rank})"

    def _follow(self, leader: MessageStream) -> None:
        context = self._context
        for message in leader.receive():
            try:
                self._handle(leader, message)
            except ProtocolError as error:
                context.problem = f"the leader sent an invalid message: {error}"
                leader.close()
        if self.stream is not leader:
            return
        waited, silence = context.clock() - self._connected_at, leader.silent_seconds()
        if leader.closed:
            if not leader.is_authentic:
                context.problem = leader.problem or CLOSED_UNPROVED
            self._lose_leader(f"node {self._leader_node} is gone", silent=False)
        elif not self._welcomed and waited > ANSWER_WAIT:
            self._leave_leader(leader)
        elif silence > context.peer_timeout:
            self._lose_leader(f"node {self._leader_node} has been silent for {silence:.0f} s", silent=True)
        elif context.heartbeat_due():
            leader.send(heartbeat=True)

    def _handle(self, leader: MessageStream, message: dict[str, Any]) -> None:
        context = self._context
        if "welcome" in message:
            self._on_welcome(read_integer(message, "welcome", 0))
        elif "membership" in message:
            membership, address = message["membership"], message.get("leader_address")
            if not isinstance(membership, dict) or not isinstance(address, str):
                raise ProtocolError("the message must be a membership")
            context.enter(read_membership(membership), self._leader_node, address, self.own_address())
            self.send_state()
        elif "end" in message:
            context.membership = None
            context.events.append(rendezvous_protocol.read_end(message)[0])
        elif "stop" in message:
            context.events.append(StopTogether())
        elif "dropped" in message:
            self._leave_leader(leader)
            context.drop(read_text(message, "dropped"))
        elif "follow" in message:
            self._on_redirect(leader, protocol.read_address(message))
        elif "rank_taken" in message or "refused" in message or "wait" in message:
            self._on_refusal(leader, message)
        elif "leave" in message:
            self._on_leave(leader, rendezvous_protocol.read_leave(message))

    def _on_welcome(self, node: int) -> None:
        lost, self._succession = self._succession, None
        self._leader_node, self._welcomed, self.redirect = node, True, None
        self._context.problem = ""
        if lost is not None and node == lost.lost:
            self._context.drop("the leader had lost its connection to this node")

    def _on_redirect(self, leader: MessageStream, target: Address) -> None:
        """Follow the redirect, except in a succession, when that node has not noticed the loss of the leader
        yet."""
        self._leave_leader(leader)
        if self._succession is None:
            self.redirect = target
            if self._context.membership is not None:
                self._context.drop("the run continues under another leader")

    def _on_refusal(self, leader: MessageStream, message: dict[str, Any]) -> None:
        context, welcomed = self._context, self._welcomed
        self._leave_leader(leader)
        if "wait" in message:
            return
        problem = f"another node {context.node} has joined"
        context.problem = problem if "rank_taken" in message else read_text(message, "refused")
        if welcomed:
            context.events.append(NodeRefused(context.problem))

    def _on_leave(self, leader: MessageStream, code: int) -> None:
        """Handle the leader's exit: after the last step the run is over; otherwise another node leads."""
        context = self._context
        membership = context.membership
        if membership is None and code in {exit_codes.DONE, exit_codes.USAGE}:
            self._leave_leader(leader)
            context.events.append(RunFinished(code))
        elif membership is not None and self._leader_node in membership.nodes and code in PART_DONE:
            # This node's processes are about to end as well.
            self._leave_leader(leader)
            self._next_try = context.clock() + FINISH_WAIT
        else:
            leader.close()

    def _leave_leader(self, leader: MessageStream) -> None:
        leader.close()
        self.stream, self._welcomed = None, False
        self._next_try = self._context.clock() + RETRY

    def _lose_leader(self, reason: str, *, silent: bool) -> None:
        leader, was_welcome, membership = self.stream, self._welcomed, self._context.membership
        assert leader is not None
        if not leader.closed:
            # A leader that was only suspended reads this message when it resumes.
            leader.send(abandoned=True)
        self._leave_leader(leader)
        self.redirect = None
        if not was_welcome or membership is None:
            return
        # Reconnect to the leader first: it may have lost only this connection.
        others = [node for node in membership.nodes if node != self._leader_node]
        candidates = others if silent else [self._leader_node, *others]
        until = self._context.clock() + SUCCESSION_LIMIT
        self._succession = Succession(self._leader_node, reason, silent, candidates, until)
        self._next_try = 0.0

    def _seek(self) -> Succession | None:
        """Try the next possible address of a leader."""
        clock = self._context.clock
        if clock() < self._next_try:
            return None
        self._next_try = clock() + RETRY
        lost = self._succession
        if lost is None:
            self._seek_anywhere()
            return None
        if clock() > lost.until or not lost.candidates:
            self._succession = None
            self._context.drop(f"{lost.reason}, and no other leader was found")
            return None
        node = lost.candidates[0]
        if node == self._context.node:
            self._succession = None
            return lost
        if not self._connect(self._address_of(node, lost)):
            lost.candidates.pop(0)
            self._next_try = 0.0
        return None

    def _seek_anywhere(self) -> None:
        if self.redirect is not None:
            if not self._connect(self.redirect):
                self.redirect = None
            return
        top = self._context.topology
        targets = [
            address for node, address in enumerate(top.addresses) if node != top.node_rank and address[1]
        ]
        self._tries += 1
        if targets:
            self._connect(targets[self._tries % len(targets)])

    def _address_of(self, node: int, lost: Succession) -> Address:
        if node == lost.lost:
            return self._address
        membership = self._context.membership
        assert membership is not None
        member = membership.members[membership.index(node)]
        return (member.address, member.port)

    def _connect(self, address: Address) -> bool:
        try:
            sock = socket.create_connection(address, timeout=CONNECT_TIMEOUT)
        except OSError:
            return False
        handshake = Handshake(self._context.topology.key, self._context.topology.job, serves=False)
        self.stream, self._welcomed = MessageStream(sock, self._context.clock, handshake=handshake), False
        if self._succession is None or address != self._address:
            self._address = address
        self._connected_at = self._context.clock()
        self.send_state()
        return True
