"""Rendezvous: the nodes start an attempt together, and notice its end together.

Node 0's supervisor is the leader and listens until it ends; the others are followers with a connection to it.
When all nodes have joined, the leader selects a free port and starts the attempt. During training each end
sends a heartbeat every second. An attempt ends for all nodes when processes of a node fail, when its
connection breaks, or when the node is silent for --peer-timeout, because a machine without power or network
closes no connection. Therefore, no node joins an attempt that is about to end, and a message names the
missing nodes.

This module does not import torch: a returning node joins while its fork server still imports torch.
"""

from __future__ import annotations

import contextlib
import select
import socket
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Protocol

from trainer import exit_codes
from trainer.network.addresses import (
    LOOPBACK,
    free_port,
    listen_on,
    listening_address,
    local_address,
    without_prefix,
)
from trainer.network.handshake import Handshake
from trainer.network.messages import MessageStream
from trainer.network.rejected_connections import RejectionLog
from trainer.placement.topology import Topology
from trainer.supervision import protocol
from trainer.supervision.failure import AttemptFailure
from trainer.supervision.protocol import Attempt, AttemptEnd, ProtocolError

POLL = 0.05
HEARTBEAT = 1.0
"""Seconds between heartbeats; at most a fifth of --peer-timeout."""
REJOIN_DELAY = 0.5
"""Seconds after which a node retries while another process has its rank."""
CLOSED_UNPROVED = (
    "the peer closed the connection before the handshake: "
    "all nodes need the same job, and the same VXTUI_RUN_KEY"
)
REPLACE_AFTER = 3.0
"""Seconds of silence after which another process with the node's rank replaces it."""
PART_DONE = frozenset({exit_codes.DONE, exit_codes.PREEMPTED, exit_codes.STORE_UNAVAILABLE})
"""Exit codes after which the other nodes complete their own part."""
MAX_UNIDENTIFIED = 256
"""Maximum number of unidentified connections; above it, the oldest connections are closed."""

Clock = Callable[[], float]


class RendezvousError(Exception):
    """The nodes did not join in time. The message names the missing nodes, `code` is the exit code."""

    def __init__(self, message: str, code: int = exit_codes.RENDEZVOUS_FAILED) -> None:
        super().__init__(message)
        self.code = code


class ShutdownRequested(Exception):
    """A signal reached the supervisor while it waited."""


class Peers(Protocol):
    """The other nodes, for the supervisor of one node."""

    def poll(self) -> AttemptEnd | None:
        """Exchange messages, many times a second; return the end if another node ended the attempt. A later
        report may replace the failure in the result with its cause."""

    def report_failure(self, failure: AttemptFailure) -> None:
        """Report the failure of this node's processes, which ends the attempt, to the other nodes."""

    def leave(self, code: int) -> None:
        """Send this node's exit code to the other nodes, and close the connections."""


class Rendezvous(Peers, Protocol):
    """One node's side of attempts that all nodes begin together."""

    def join(self, number: int, processes: int) -> Attempt:
        """Return the next attempt after all nodes have joined. `number` counts this node's attempts so far.

        Raises:
            RendezvousError: if the nodes do not join within the timeout.
            ShutdownRequested: after a signal to the supervisor.
        """

    def send_about_hang(self, message: dict[str, Any]) -> None:
        """Send a message about a hang: node 0 to all other nodes, another node to node 0."""

    def received_about_hang(self) -> list[tuple[int, dict[str, Any]]]:
        """Return the messages of other nodes about the running attempt since the last call, by node rank."""


class JoinTimeout:
    """The timeout of this node's wait for the others."""

    def __init__(self, seconds: float, shutdown_requested: Callable[[], bool]) -> None:
        self.seconds, self._shutdown_requested = seconds, shutdown_requested
        self._deadline = 0.0

    def start(self) -> None:
        self._deadline = time.monotonic() + self.seconds

    def check(self, missing: str, exit_codes_of_left: Iterable[int] = ()) -> None:
        """Raise RendezvousError after the timeout or a final exit, ShutdownRequested after a signal."""
        if self._shutdown_requested():
            raise ShutdownRequested
        if exit_codes.USAGE in exit_codes_of_left:
            raise RendezvousError(
                f"{missing} again: it left with exit code {exit_codes.USAGE}; see its log",
                exit_codes.USAGE,
            )
        if time.monotonic() > self._deadline:
            raise RendezvousError(f"{missing} within {self.seconds:.0f} s")


def make_rendezvous(
    topology: Topology, timeout: JoinTimeout, peer_timeout: float, clock: Clock = time.monotonic
) -> Rendezvous:
    """Create this node's side of the rendezvous. `clock` measures `peer_timeout` and the heartbeats, in
    seconds."""
    if topology.nodes == 1:
        return SingleNode()
    side = RendezvousLeader if topology.node_rank == 0 else Follower
    return side(topology, timeout, peer_timeout, clock)


class SingleNode:
    """A `Rendezvous` of one node."""

    def join(self, number: int, processes: int) -> Attempt:
        return Attempt(number, LOOPBACK, free_port(), (processes,), LOOPBACK, LOOPBACK)

    def poll(self) -> AttemptEnd | None:
        return None

    def report_failure(self, failure: AttemptFailure) -> None:
        return

    def send_about_hang(self, message: dict[str, Any]) -> None:
        return

    def received_about_hang(self) -> list[tuple[int, dict[str, Any]]]:
        return []

    def leave(self, code: int) -> None:
        return


class RendezvousLeader:
    """The `Rendezvous` of node 0."""

    def __init__(self, topology: Topology, timeout: JoinTimeout, peer_timeout: float, clock: Clock) -> None:
        self._topology, self._timeout, self._peer_timeout = topology, timeout, peer_timeout
        self._clock, self._heartbeat = clock, min(HEARTBEAT, peer_timeout / 5)
        self._server: socket.socket | None = None
        self._followers: dict[int, MessageStream] = {}
        self._unidentified: list[MessageStream] = []
        self._rejections = RejectionLog("rendezvous", "the peer must be a node of this run")
        """Addresses that were reported."""
        self._joined: dict[int, tuple[int, int]] = {}
        """The node's attempts so far and the number of its processes, by node rank."""
        self._left: dict[int, int] = {}
        """Exit codes of nodes that left, by node."""
        self._running = False
        self._last_id = 0
        """Id of the running attempt, or of the last attempt."""
        self._cause: AttemptFailure | None = None
        """The cause of the last attempt's end."""
        self._end: AttemptEnd | None = None
        """The end of the last attempt, if another node caused it."""
        self._hang_messages: list[tuple[int, dict[str, Any]]] = []
        self._last_heartbeat = 0.0

    def join(self, number: int, processes: int) -> Attempt:
        self._timeout.start()
        if self._server is None:
            self._server = self._listen()
        self._running, self._cause, self._end = False, None, None
        self._joined[0] = (number, processes)
        while missing := [str(rank) for rank in range(self._topology.nodes) if rank not in self._joined]:
            names = f"node {missing[0]}" if len(missing) == 1 else f"nodes {', '.join(missing)}"
            self._timeout.check(f"{names} did not join", self._left.values())
            self._exchange(POLL)
        return self._start()

    def _start(self) -> Attempt:
        """Start the attempt; each node gets the address at which it reached this node.

        On Vertex AI the name of node 0 belongs to a service with a few declared ports. The packets arrive at
        the pod's own address, which accepts any port (docs/facts/vertex.md 3.3). The name may also resolve to
        the loopback or to another interface.
        """
        processes = tuple(self._joined[rank][1] for rank in range(self._topology.nodes))
        number = max(seen for seen, _ in self._joined.values())
        port = free_port()
        self._joined.clear()
        self._last_id += 1
        self._running = True
        addresses = {rank: local_address(stream.sock) for rank, stream in self._followers.items()}
        own = next(filter(None, addresses.values()), LOOPBACK)
        # Nodes of several networks reach this node at several addresses.
        store_address = own if len(set(addresses.values())) == 1 else ""
        attempt = Attempt(number, own, port, processes, own, store_address)
        for rank, follower in self._followers.items():
            follower.send(**protocol.start(replace(attempt, address=addresses[rank]), self._last_id))
        return attempt

    def poll(self) -> AttemptEnd | None:
        self._exchange(0)
        return self._end

    def report_failure(self, failure: AttemptFailure) -> None:
        self._end_attempt(AttemptEnd(failure), informed=0)

    def send_about_hang(self, message: dict[str, Any]) -> None:
        for follower in self._followers.values():
            follower.send(**protocol.about_hang(message, self._last_id))

    def received_about_hang(self) -> list[tuple[int, dict[str, Any]]]:
        messages, self._hang_messages = self._hang_messages, []
        return messages

    def leave(self, code: int) -> None:
        if self._server is not None:
            self._server.close()
        close_all([*self._followers.values(), *self._unidentified], code)

    def _end_attempt(self, end: AttemptEnd, *, informed: int) -> None:
        """End the attempt for all nodes, or send them its cause, except to the node `informed`."""
        if not self._running and (self._cause is None or not end.failure.precedes(self._cause)):
            return
        self._running, self._cause = False, end.failure
        if informed != 0:
            self._end = end
        for rank, follower in self._followers.items():
            if rank != informed:
                follower.send(**protocol.end(end, self._last_id))

    def _exchange(self, wait: float) -> None:
        """Accept connections, read messages, send heartbeats; wait up to `wait` seconds for data."""
        assert self._server is not None
        streams = (*self._followers.values(), *self._unidentified)
        _wait_readable([self._server, *(stream.sock for stream in streams)], wait)
        for rank, follower in list(self._followers.items()):
            self._read(rank, follower)
        self._accept(self._server)
        for stream in list(self._unidentified):
            messages = stream.receive()
            if messages or stream.closed or stream.silent_seconds() > self._peer_timeout:
                self._unidentified.remove(stream)
                self._admit(stream, messages)
        if self._clock() - self._last_heartbeat > self._heartbeat:
            self._last_heartbeat = self._clock()
            for follower in self._followers.values():
                follower.send(heartbeat=True)

    def _accept(self, server: socket.socket) -> None:
        # OSError: no connection waits, the peer has disconnected, or this process has no free file
        # descriptor.
        with contextlib.suppress(OSError):
            while True:
                sock, peer = server.accept()
                self._unidentified.append(accepted(sock, peer[0], self._topology, self._clock))
                if len(self._unidentified) > MAX_UNIDENTIFIED:
                    self._unidentified.pop(0).close()

    def _admit(self, stream: MessageStream, messages: list[dict[str, Any]]) -> None:
        """Handle the first messages of a connection, which another program may have opened."""
        if stream.closed or not messages:
            self._refuse(stream, stream.problem)
            return
        try:
            rank = protocol.read_hello(messages[0], self._topology)
        except ProtocolError as error:
            stream.send(refused=str(error))
            self._refuse(stream, str(error))
            return
        current = self._followers.get(rank)
        if current is not None and current.silent_seconds() < REPLACE_AFTER:
            stream.send(rank_taken=True)
            stream.close()
            return
        if current is not None:
            self._drop(rank, f"node {rank} was replaced", hangs=True)
        self._followers[rank] = stream
        self._left.pop(rank, None)
        stream.send(heartbeat=True)
        self._handle_all(rank, stream, messages)
        if stream.closed:
            self._drop(rank, f"node {rank} is gone", hangs=False)

    def _refuse(self, stream: MessageStream, problem: str) -> None:
        """Close a connection that does not belong to a node."""
        self._rejections.report(stream.peer, problem)
        stream.close()

    def _read(self, rank: int, follower: MessageStream) -> None:
        self._handle_all(rank, follower, follower.receive())
        if follower.closed:
            self._drop(rank, f"node {rank} is gone", hangs=False)
        elif follower.silent_seconds() > self._peer_timeout:
            reason = f"node {rank} has been silent for {follower.silent_seconds():.0f} s"
            self._drop(rank, reason, hangs=True)

    def _handle_all(self, rank: int, follower: MessageStream, messages: list[dict[str, Any]]) -> None:
        try:
            for message in messages:
                self._handle(rank, message)
        except ProtocolError as error:
            self._refuse(follower, f"node {rank} sent an invalid message: {error}")

    def _handle(self, rank: int, message: dict[str, Any]) -> None:
        if "join" in message:
            self._joined[rank] = protocol.read_join(message)
        elif "failed" in message:
            failure, attempt_id = protocol.read_failed(message)
            if attempt_id == self._last_id:
                self._end_attempt(AttemptEnd(failure), informed=rank)
        elif "hang" in message:
            about, attempt_id = protocol.read_about_hang(message)
            if attempt_id == self._last_id and self._running:
                self._hang_messages.append((rank, about))
        elif "leave" in message:
            self._left[rank] = protocol.read_leave(message)
            self._followers[rank].close()

    def _drop(self, rank: int, reason: str, *, hangs: bool) -> None:
        self._followers.pop(rank).close()
        self._joined.pop(rank, None)
        code = self._left.get(rank)
        if code not in PART_DONE and self._running:
            reason = reason if code is None else f"node {rank} left with exit code {code}"
            failure = AttemptFailure(reason, time.time(), exit_codes.PEER_LOST if code is None else code)
            self._end_attempt(AttemptEnd(failure, hangs), informed=rank)

    def _listen(self) -> socket.socket:
        port = self._topology.port
        while True:
            try:
                server = listen_on(listening_address(self._topology.peers, self._topology.address), port)
                server.setblocking(False)
                return server
            except OSError as error:
                self._timeout.check(f"port {port} of node 0 can't be used: {error.strerror or error}")
                time.sleep(POLL)


class Follower:
    """The `Rendezvous` of any other node."""

    def __init__(self, topology: Topology, timeout: JoinTimeout, peer_timeout: float, clock: Clock) -> None:
        self._topology, self._timeout, self._peer_timeout = topology, timeout, peer_timeout
        self._clock, self._heartbeat = clock, min(HEARTBEAT, peer_timeout / 5)
        self._leader: MessageStream | None = None
        self._running = False
        self._last_id = 0
        """Id of the running or last attempt, set by the leader; 0 before the first attempt."""
        self._end: AttemptEnd | None = None
        self._attempt: Attempt | None = None
        self._hang_messages: list[tuple[int, dict[str, Any]]] = []
        self._last_heartbeat = 0.0
        self.rank_taken = False
        """Whether the leader answered that another process has this node's rank."""
        self._refused = ""
        """Why the leader refuses this node."""
        self._leader_left: int | None = None
        """Exit code of a leader that left."""

    def join(self, number: int, processes: int) -> Attempt:
        request = protocol.hello(self._topology, number, processes)
        self._timeout.start()
        self._running, self._end, self._attempt = False, None, None
        if self._leader is not None:
            self._leader.send(**request)
        while self._attempt is None:
            if self._leader is None:
                self._connect(request)
            self._exchange(POLL)
            left = () if self._leader_left is None else (self._leader_left,)
            self._timeout.check(self._missing(), left)
        return self._attempt

    def _missing(self) -> str:
        top = self._topology
        if self.rank_taken:
            return f"another node {top.node_rank} has joined; this node was not needed"
        if self._refused:
            return f"node 0 at {top.address}:{top.port} refused this node: {self._refused}"
        if self._leader is not None:
            return f"node 0 at {top.address}:{top.port} did not gather all nodes"
        return f"node 0 was not reached at {top.address}:{top.port} (this is node {top.node_rank})"

    def poll(self) -> AttemptEnd | None:
        self._exchange(0)
        return self._end

    def report_failure(self, failure: AttemptFailure) -> None:
        if self._leader is not None and self._last_id:
            self._leader.send(**protocol.failed(failure, self._last_id))
        self._running = False

    def send_about_hang(self, message: dict[str, Any]) -> None:
        if self._leader is not None and self._last_id:
            self._leader.send(**protocol.about_hang(message, self._last_id))

    def received_about_hang(self) -> list[tuple[int, dict[str, Any]]]:
        messages, self._hang_messages = self._hang_messages, []
        return messages

    def leave(self, code: int) -> None:
        if self._leader is not None:
            close_all([self._leader], code)

    def _connect(self, request: dict[str, Any]) -> None:
        if self.rank_taken or self._refused:
            time.sleep(REJOIN_DELAY)
        with contextlib.suppress(OSError):
            sock = socket.create_connection((self._topology.address, self._topology.port), timeout=5)
            handshake = Handshake(self._topology.key, self._topology.job, serves=False)
            self._leader = MessageStream(sock, self._clock, handshake=handshake)
            self._leader.send(**request)

    def _exchange(self, wait: float) -> None:
        """Read messages and send heartbeats; wait up to `wait` seconds for data."""
        leader = self._leader
        _wait_readable([leader.sock] if leader is not None else [], wait)
        if leader is None:
            return
        messages = leader.receive()
        try:
            for message in messages:
                self._handle(leader, message)
        except ProtocolError as error:
            self._refused = f"the leader sent an invalid message: {error}"
            leader.close()
        if leader.closed and not leader.is_authentic:
            self._refused = leader.problem or CLOSED_UNPROVED
        if leader.closed or (messages and (self.rank_taken or self._refused)):
            code = self._leader_left
            self._drop(
                "node 0 is gone" if code is None else f"node 0 left with exit code {code}", hangs=False
            )
        elif leader.silent_seconds() > self._peer_timeout:
            self._drop(f"node 0 has been silent for {leader.silent_seconds():.0f} s", hangs=True)
        elif self._clock() - self._last_heartbeat > self._heartbeat:
            self._last_heartbeat = self._clock()
            leader.send(heartbeat=True)

    def _handle(self, leader: MessageStream, message: dict[str, Any]) -> None:
        self.rank_taken, self._leader_left = "rank_taken" in message, None
        refused = message.get("refused")
        self._refused = refused[:200] if isinstance(refused, str) else ""
        if "start" in message:
            own = local_address(leader.sock)
            self._attempt, self._last_id = protocol.read_start(message, self._topology, own)
            self._running, self._end = True, None
        elif "end" in message:
            end, attempt_id = protocol.read_end(message)
            if attempt_id == self._last_id:
                self._running, self._end = False, end
        elif "hang" in message:
            about, attempt_id = protocol.read_about_hang(message)
            if attempt_id == self._last_id:
                self._hang_messages.append((0, about))
        elif "leave" in message:
            self._leader_left = protocol.read_leave(message)
            self._running = False if self._leader_left in PART_DONE else self._running
            leader.close()

    def _drop(self, reason: str, *, hangs: bool) -> None:
        assert self._leader is not None
        self._leader.close()
        self._leader = None
        if self._running:
            code = exit_codes.PEER_LOST if self._leader_left is None else self._leader_left
            self._running, self._end = False, AttemptEnd(AttemptFailure(reason, time.time(), code), hangs)


def accepted(sock: socket.socket, peer: str, topology: Topology, clock: Clock) -> MessageStream:
    """Return the stream of a connection from `peer`, which must first prove that it has the run's key."""
    handshake = Handshake(topology.key, topology.job, serves=True)
    return MessageStream(sock, clock, without_prefix(peer), handshake)


def close_all(streams: Iterable[MessageStream], code: int) -> None:
    """Send the exit code, and wait up to a second: an immediate close could discard it."""
    waiting, deadline = list(streams), time.monotonic() + 1
    for stream in waiting:
        stream.send(leave=code)
    while (waiting := [stream for stream in waiting if not stream.closed]) and time.monotonic() < deadline:
        _wait_readable([stream.sock for stream in waiting], POLL)
        for stream in waiting:
            stream.receive()
    for stream in waiting:
        stream.close()


def _wait_readable(sockets: Iterable[socket.socket], wait: float) -> None:
    """Return after `wait` seconds, or as soon as a socket has data."""
    poll = select.poll()
    for sock in sockets:
        if sock.fileno() < 0:
            # This side has closed the socket; the caller drops the connection now.
            return
        poll.register(sock, select.POLLIN)
    poll.poll(wait * 1000)
