"""A node's side of an elastic run: the node leads, or it follows the leader.

Every supervisor listens. Node 0 leads first. When a leader is lost, the first of the other members becomes
the leader as soon as nothing answers at the old address; the other members connect to it. A leader connects
to absent nodes, so that a node that returns, node 0 too, gets the address of the run.
"""

from __future__ import annotations

import contextlib
import secrets
import socket
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from trainer import exit_codes
from trainer.elastic import protocol
from trainer.elastic.context import Address, Event, NodeContext, NodeRefused, RunFinished
from trainer.elastic.leader import ElasticRules, Leader
from trainer.elastic.leader_client import FINISH_WAIT, LeaderClient, Succession
from trainer.elastic.leader_server import LeaderServer
from trainer.elastic.membership import Membership
from trainer.network.addresses import free_port, listen_on, listening_address
from trainer.network.messages import MessageStream
from trainer.network.rejected_connections import RejectionLog
from trainer.placement.topology import Topology
from trainer.structured_log import emit
from trainer.supervision.failure import AttemptFailure
from trainer.supervision.protocol import AttemptEnd, ProtocolError
from trainer.supervision.rendezvous import MAX_UNIDENTIFIED, accepted, close_all

_POLL = 0.05


class ElasticNode:
    """The `Peers` of an elastic run. Call `poll` many times a second, then read `events`; no call blocks for
    long."""

    def __init__(
        self,
        topology: Topology,
        minimum: int,
        peer_timeout: float,
        clock: Callable[[], float] = time.monotonic,
        **more: Any,
    ) -> None:
        """`minimum` is the value of --elastic, `peer_timeout` is in seconds of `clock`. `ElasticRules` has
        `more`."""
        rules = ElasticRules(topology.nodes, minimum, by_operator=topology.minimum > 0, **more)
        self._context = NodeContext(topology, rules, peer_timeout, clock)
        self._following = LeaderClient(self._context)
        self._serving: LeaderServer | None = None
        self._server: socket.socket | None = None
        self._unidentified: list[MessageStream] = []
        self._rejections = RejectionLog("rendezvous", "the peer must be a node of this run")

    @property
    def membership(self) -> Membership | None:
        """The newest membership that includes this node's processes."""
        return self._context.membership

    @property
    def leads(self) -> bool:
        return self._serving is not None

    @property
    def is_alone(self) -> bool:
        """Whether this node follows and has found no leader."""
        return not self.leads and not self.is_waited_for

    @property
    def is_waited_for(self) -> bool:
        """Whether there is a leader that may need this node later."""
        if self._serving is not None:
            return self._serving.lead.membership is not None
        return self._following.leader_address is not None

    def begin(self, processes: int) -> int:
        """Announce new processes, which are not ready yet; return the number of this start."""
        context = self._context
        context.membership = None
        context.events = [event for event in context.events if isinstance(event, RunFinished | NodeRefused)]
        spawn = secrets.randbits(50)
        self._tell(processes=processes, spawn=spawn, ready=False, settled=0, broken=0, step=0, data="")
        return spawn

    def ready(self, data: str) -> None:
        """Announce that the processes wait for a membership; `data` is the hash of their data."""
        self._tell(ready=True, data=data, store_port=free_port())

    def settled(self, epoch: int, step: int) -> None:
        """Announce that the processes train with this membership, from this step on."""
        self._tell(settled=epoch, step=step)

    def broken(self, epoch: int) -> None:
        """Announce that the processes lost their connections."""
        self._tell(broken=epoch)

    def lost(self) -> None:
        """Announce that a process was killed: the other nodes train on without this node."""
        self._context.membership = None
        self._tell(ready=False)

    def leaving(self) -> None:
        """Announce that this node got a signal."""
        self._tell(leaving=True)

    def report_failure(self, failure: AttemptFailure) -> None:
        """Report that a process failed by its own error, which ends the attempt of all members."""
        self._context.membership = None
        (self._serving or self._following).fail(failure)

    def leave(self, code: int) -> None:
        """Send this node's exit code to the others. A leader whose run is done waits for the others."""
        serving, deadline = self._serving, time.monotonic() + FINISH_WAIT
        if serving is not None and code == exit_codes.DONE:
            self._context.state = replace(self._context.state, ready=False)
            while not serving.is_done() and time.monotonic() < deadline:
                self.poll()
                time.sleep(_POLL)
        if self._server is not None:
            self._server.close()
        streams = [*self._unidentified, *(serving.close() if serving is not None else [])]
        if self._following.stream is not None:
            streams.append(self._following.stream)
        close_all(streams, code)

    def missing(self) -> str:
        """Return the event that this node waits for, as text."""
        if self._serving is not None:
            return self._serving.lead.missing()
        if self._context.problem:
            return f"the run refused node {self._context.node}: {self._context.problem}"
        return self._following.waiting_for()

    def poll(self) -> AttemptEnd | None:
        """Exchange messages; `events` returns their content, which includes the end of an attempt."""
        if self._server is None:
            self._listen()
        self._accept()
        if self._serving is not None:
            self._serving.serve()
            if self._serving.abandoned:
                self._stand_down("this node did not answer, and the others follow another leader")
        elif self._context.node == 0 and self._following.knows_no_leader:
            self._serving = LeaderServer(self._context, Leader(self._context.rules, self._context.clock))
        else:
            succession = self._following.exchange()
            if succession is not None:
                self._succeed(succession)
        return None

    def events(self) -> list[Event]:
        """Return the events since the last call."""
        events, self._context.events = self._context.events, []
        return events

    def _tell(self, **changes: Any) -> None:
        self._context.state = replace(self._context.state, **changes)
        self._following.send_state()

    def _succeed(self, succession: Succession) -> None:
        context = self._context
        lead = Leader(context.rules, context.clock, context.membership)
        self._serving = LeaderServer(context, lead)
        lead.remove(succession.lost, succession.reason, silent=succession.silent)
        text = f"{succession.reason}: node {context.node} leads the run now"
        emit("phase", text, severity="WARNING", phase="rendezvous", node_rank=context.node)

    def _listen(self) -> None:
        """Listen at the port that the other nodes use, or at any free port; in the second case no node can
        connect to this node."""
        context, own_port = self._context, self._context.topology.own_port
        top = context.topology
        address = listening_address(top.peers, top.addresses[top.node_rank][0])
        for port in (own_port,) if context.node == 0 else dict.fromkeys((own_port, 0)):
            try:
                self._server = listen_on(address, port)
            except OSError as error:
                context.problem = f"port {port} can't be used: {error.strerror or error}"
                continue
            self._server.setblocking(False)
            context.state = replace(context.state, port=self._server.getsockname()[1])
            context.problem = ""
            return

    def _accept(self) -> None:
        # OSError: no connection waits, the peer has disconnected, or this process has no free file
        # descriptor.
        with contextlib.suppress(OSError):
            while self._server is not None:
                sock, peer = self._server.accept()
                context = self._context
                self._unidentified.append(accepted(sock, peer[0], context.topology, context.clock))
                if len(self._unidentified) > MAX_UNIDENTIFIED:
                    self._unidentified.pop(0).close()
        for stream in list(self._unidentified):
            messages = stream.receive()
            if messages or stream.closed or stream.silent_seconds() > self._context.peer_timeout:
                self._unidentified.remove(stream)
                self._admit(stream, messages)

    def _admit(self, stream: MessageStream, messages: list[dict[str, Any]]) -> None:
        """Handle the first messages of a connection, which another program may have opened."""
        try:
            if not messages:
                raise ProtocolError(stream.problem)
            protocol.check_version(messages[0])
            if "led_at" in messages[0]:
                port, claim = protocol.read_call(messages[0], self._context.topology)
                stream.close()
                self._on_call((stream.peer, port), claim)
                return
            state = protocol.read_state(messages[0], self._context.topology)
        except ProtocolError as error:
            stream.send(refused=str(error))
            stream.close()
            self._rejections.report(stream.peer, str(error))
            return
        if self._serving is not None:
            self._serving.admit(stream, state, messages[1:])
            return
        leader = self._following.leader_address
        stream.send(**({"wait": True} if leader is None else {"follow": list(leader)}))
        stream.close()

    def _on_call(self, address: Address, claim: protocol.Claim) -> None:
        """Handle the connection of another leader at this address."""
        if self._serving is not None:
            if claim <= self._serving.claim:
                return
            self._stand_down(f"the run continues at {address[0]}", address)
        self._following.on_call(address)

    def _stand_down(self, reason: str, address: Address | None = None) -> None:
        """Stop leading: another node leads, at this address if known."""
        assert self._serving is not None
        self._serving.stand_down(address)
        self._serving = None
        if self._context.membership is not None:
            self._context.drop(reason)
