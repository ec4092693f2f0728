"""The leader's part of a node: its connections to the other nodes, and the decisions of `Leader` for them."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from typing import Any

from trainer import exit_codes
from trainer.elastic import protocol
from trainer.elastic.context import Address, NodeContext, StopTogether
from trainer.elastic.leader import Decision, Leader
from trainer.elastic.protocol import Claim, NodeState
from trainer.network.addresses import LOOPBACK, local_address
from trainer.network.handshake import Handshake, HandshakeError, authenticate
from trainer.network.messages import MessageStream
from trainer.placement.topology import Topology
from trainer.supervision import protocol as rendezvous_protocol
from trainer.supervision.failure import AttemptFailure
from trainer.supervision.protocol import ProtocolError
from trainer.supervision.rendezvous import REPLACE_AFTER

CALL_PERIOD = 1.0
CALL_TIMEOUT = 1.0


class AbsentNodeCaller:
    """Sends the leader's address to absent nodes, in a thread, because connecting to an unused address takes
    a long time."""

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._changed, self._stop = threading.Lock(), threading.Event()
        self._to: list[Address] = []
        self._claim, self._port = protocol.Claim(False, 0, 0), 0
        self._thread: threading.Thread | None = None

    def call(self, addresses: list[Address], claim: protocol.Claim, port: int) -> None:
        """Connect to these addresses repeatedly and send the leader's claim; the leader listens at `port`."""
        with self._changed:
            self._to, self._claim, self._port = addresses, claim, port
        if self._to and self._thread is None:
            self._thread = threading.Thread(target=self._run, name="call absent nodes", daemon=True)
            self._thread.start()

    def close(self) -> None:
        self._stop.set()

    def _run(self) -> None:
        while not self._stop.wait(CALL_PERIOD):
            with self._changed:
                addresses = list(self._to)
                message = protocol.call(self._claim, self._port)
            for address in addresses:
                # OSError, EOFError: no node listens there yet. HandshakeError: another program listens
                # there.
                with (
                    contextlib.suppress(OSError, EOFError, HandshakeError),
                    socket.create_connection(address, timeout=CALL_TIMEOUT) as sock,
                ):
                    handshake = Handshake(self._topology.key, self._topology.job, serves=False)
                    authenticate(sock, handshake, CALL_TIMEOUT)
                    sock.sendall(json.dumps(message).encode() + b"\n")


class LeaderServer:
    """The leader's side of the connections to its followers."""

    def __init__(self, context: NodeContext, lead: Leader) -> None:
        self._context, self.lead = context, lead
        lead.epoch = max(lead.epoch, context.state.epoch)
        self.followers: dict[int, MessageStream] = {}
        self.abandoned = False
        """Whether a follower lost the connection to this node and follows another leader."""
        self._caller = AbsentNodeCaller(context.topology)
        self._update_own()

    def serve(self) -> None:
        """Read messages, decide, and send heartbeats."""
        context, lead = self._context, self.lead
        for node, stream in list(self.followers.items()):
            self._handle_all(node, stream, stream.receive())
            if node not in self.followers:
                continue
            if stream.closed:
                self._drop(node, f"node {node} is gone")
            elif stream.silent_seconds() > context.peer_timeout:
                silence = f"node {node} has been silent for {stream.silent_seconds():.0f} s"
                self._drop(node, silence, silent=True)
        self._update_own()
        self._carry_out(lead.decide())
        if context.heartbeat_due():
            for stream in self.followers.values():
                stream.send(heartbeat=True)
        self._caller.call(self._absent(), self.claim, context.state.port)

    @property
    def claim(self) -> Claim:
        """Return this leader's claim, for the comparison with another leader."""
        return Claim(self.lead.membership is not None, self.lead.epoch, -self._context.node)

    def admit(self, stream: MessageStream, state: NodeState, messages: list[dict[str, Any]]) -> None:
        """Admit a node; `messages` are the messages after the node's first message."""
        node, current = state.node, self.followers.get(state.node)
        is_taken = current is not None and current.silent_seconds() < REPLACE_AFTER
        if is_taken or node == self._context.node:
            stream.send(rank_taken=True)
            stream.close()
            return
        if current is not None:
            self._drop(node, f"node {node} was replaced")
        self.followers[node] = stream
        stream.send(welcome=self._context.node)
        self.lead.update(state, stream.peer)
        self._handle_all(node, stream, messages)

    def fail(self, failure: AttemptFailure) -> None:
        """Handle the failure of a process of this node."""
        self._carry_out(self.lead.fail(self._context.node, failure))

    def stand_down(self, address: Address | None = None) -> None:
        """Stop leading: another node leads, at this address if known. Redirect the followers to that node."""
        for stream in self.followers.values():
            if address is not None:
                stream.send(follow=list(address))
            stream.close()
        self._caller.close()

    def close(self) -> list[MessageStream]:
        """Stop connecting to absent nodes; return the connections, for the last message."""
        self._caller.close()
        return list(self.followers.values())

    def is_done(self) -> bool:
        """Return whether this node completed all steps and the other members have left too."""
        self.lead.remove(self._context.node, "the node is done", code=exit_codes.DONE)
        membership = self.lead.membership
        return membership is None or not any(node in self.followers for node in membership.nodes)

    def own_address(self) -> str:
        """Return the address at which the other nodes reach this node."""
        addresses = (local_address(stream.sock) for stream in self.followers.values())
        return next(filter(None, addresses), LOOPBACK)

    def _update_own(self) -> None:
        self.lead.update(self._context.state, self.own_address())

    def _absent(self) -> list[Address]:
        """Return known addresses of the nodes that are not connected."""
        lead = self.lead
        known = dict(enumerate(self._context.topology.addresses))
        for node, address in lead.addresses.items():
            if not known[node][1]:
                known[node] = address
        return [address for node, address in known.items() if node not in lead.states and address[1]]

    def _handle_all(self, node: int, stream: MessageStream, messages: list[dict[str, Any]]) -> None:
        try:
            for message in messages:
                if "state" in message:
                    self.lead.update(protocol.read_state(message, self._context.topology), stream.peer)
                elif "failed" in message:
                    failure, _ = rendezvous_protocol.read_failed(message)
                    self._carry_out(self.lead.fail(node, failure))
                elif "abandoned" in message:
                    self.abandoned = True
                elif "leave" in message:
                    code = rendezvous_protocol.read_leave(message)
                    self._drop(node, f"node {node} left with exit code {code}", code=code)
        except ProtocolError as error:
            self._drop(node, f"node {node} sent an invalid message: {error}")

    def _drop(self, node: int, reason: str, *, silent: bool = False, code: int | None = None) -> None:
        stream = self.followers.pop(node, None)
        if stream is not None:
            # A node that was only suspended reads this message when it resumes.
            stream.send(dropped=reason)
            stream.close()
        self.lead.remove(node, reason, silent=silent, code=code)

    def _carry_out(self, decision: Decision | None) -> None:
        if decision is None:
            return
        for node in decision.recipients:
            stream = self.followers.get(node)
            if node == self._context.node:
                self._apply(decision)
            elif stream is None:
                continue
            elif decision.membership is not None:
                own = local_address(stream.sock)
                stream.send(membership=decision.membership.message(), leader_address=own)
            elif decision.end is not None:
                stream.send(**rendezvous_protocol.end(decision.end, 0))
            elif decision.refused:
                stream.send(refused=decision.refused)
            else:
                stream.send(stop=True)

    def _apply(self, decision: Decision) -> None:
        """Apply a decision to this node itself."""
        context = self._context
        if decision.membership is not None:
            context.enter(decision.membership, context.node, "", self.own_address())
        elif decision.end is not None:
            context.membership = None
            context.events.append(decision.end)
        elif decision.stop:
            context.events.append(StopTogether())
