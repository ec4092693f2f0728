"""How the nodes agree on an attempt, and notice together that it is over.

Node 0's supervisor listens for as long as it lives; each other one keeps a connection to it. A node says
that it is there; once all are, node 0 picks a free port and tells them to go. While they train, each end
speaks once a second. An attempt is over for everybody when a node's processes fail, when its connection
breaks, or when it has been silent for --peer-timeout: a machine without power or network closes nothing.
So nobody joins an attempt that is about to die, whoever was restarted, and whoever is missing has a name.

Torch is not imported here: a node that comes back meets the others while its processes still load it.
"""

from __future__ import annotations

import contextlib
import select
import socket
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from trainer.topology import Topology
from trainer.wire import Line

POLL = 0.05
BEAT = 1.0
"""Seconds between two signs of life; a fifth of --peer-timeout where that is less."""
AGAIN = 0.5
"""Seconds until a node that was not needed asks again."""
TAKEN = 3.0
"""A node that has been silent for so long loses its place to another process with its number."""


WELL = (0, 75)
"""Exit codes of a node whose part is done: the others have theirs to finish."""
WRONG = 2


class NodesMissing(Exception):
    """The nodes did not come together in time; the message names who is missing."""


class ToldToLeave(Exception):
    """The supervisor was told to end while it waited."""


@dataclass(frozen=True, slots=True)
class Plan:
    """An attempt. `processes` are those of each node, in the order of nodes; `attempt` is the same on all."""

    attempt: int
    address: str
    port: int
    processes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Over:
    """Why the attempt is over for this node. `hangs`: its processes won't notice by themselves."""

    why: str
    hangs: bool = False


class Meeting(Protocol):
    """One node's side of it."""

    def next(self, attempt: int, processes: int) -> Plan:
        """The next attempt, once all nodes are there; `attempt` is how many this node has seen.

        Raises:
            NodesMissing: when they are not within the timeout.
            ToldToLeave: when the supervisor is told to end meanwhile.
        """

    def watch(self) -> Over | None:
        """Speak, listen; whether others have ended the attempt. To be called many times a second."""

    def failed(self, code: int) -> None:
        """Tell the others that this attempt is over because a process of this node ended with `code`."""

    def leave(self, code: int) -> None:
        """Say goodbye with this exit code; after 0 and 75 nobody has to end because of that."""


def meeting(topology: Topology, timeout: float, silence: float, told: Callable[[], bool]) -> Meeting:
    """`timeout`: seconds to wait for the others; `silence`: after which one is given up."""
    if topology.nodes == 1:
        return Alone()
    kind = Host if topology.node_rank == 0 else Guest
    return kind(topology, _Patience(timeout, told), silence)


class Alone:
    """Implements `Meeting` for one node."""

    def next(self, attempt: int, processes: int) -> Plan:
        return Plan(attempt, "127.0.0.1", free_port("127.0.0.1"), (processes,))

    def watch(self) -> Over | None:
        return None

    def failed(self, code: int) -> None:
        return

    def leave(self, code: int) -> None:
        return


class _Patience:
    """How long the others are waited for."""

    def __init__(self, timeout: float, told: Callable[[], bool]) -> None:
        self.timeout, self._told = timeout, told
        self._deadline = 0.0

    def begin(self) -> None:
        self._deadline = time.monotonic() + self.timeout

    def check(self, missing: str, left: Iterable[int] = ()) -> None:
        """`left`: exit codes of those that said goodbye; wrong flags or data stay so after a restart."""
        if self._told():
            raise ToldToLeave
        if WRONG in left:
            raise NodesMissing(f"{missing} again: it left with exit code {WRONG}, and says above why")
        if time.monotonic() > self._deadline:
            raise NodesMissing(f"{missing} within {self.timeout:.0f} s")


class Host:
    """Implements `Meeting` for node 0."""

    def __init__(self, topology: Topology, patience: _Patience, silence: float) -> None:
        self._topology, self._patience, self._silence = topology, patience, silence
        self._beat = min(BEAT, silence / 5)
        self._server: socket.socket | None = None
        self._guests: dict[int, Line] = {}
        self._strangers: list[Line] = []
        self._here: dict[int, tuple[int, int]] = {}
        self._left: dict[int, int] = {}
        """Exit codes of nodes that said goodbye."""
        self._number = 0
        """Of the attempt that runs, counted here; 0 between two."""
        self._last = 0
        self._over: Over | None = None
        self._spoke = 0.0

    def next(self, attempt: int, processes: int) -> Plan:
        top = self._topology
        self._patience.begin()
        if self._server is None:
            self._server = self._open()
        self._number, self._over = 0, None
        self._here[0] = (attempt, processes)
        while missing := [str(rank) for rank in range(top.nodes) if rank not in self._here]:
            names = f"node {missing[0]}" if len(missing) == 1 else f"nodes {', '.join(missing)}"
            self._patience.check(f"{names} did not come", self._left.values())
            self._turn(POLL)
        return self._go()

    def _go(self) -> Plan:
        address = reachable_address(self._topology.address)
        counts = tuple(self._here[rank][1] for rank in range(self._topology.nodes))
        plan = Plan(max(seen for seen, _ in self._here.values()), address, free_port(address), counts)
        self._here.clear()
        self._last += 1
        self._number = self._last
        for guest in self._guests.values():
            guest.send(go=asdict(plan), number=self._number)
        return plan

    def watch(self) -> Over | None:
        self._turn(0)
        return self._over

    def failed(self, code: int) -> None:
        self._end(f"a process of node 0 ended with exit code {code}", hangs=False, but=0)

    def leave(self, code: int) -> None:
        if self._server is not None:
            self._server.close()
        _part([*self._guests.values(), *self._strangers], code)

    def _end(self, why: str, *, hangs: bool, but: int) -> None:
        """The attempt is over, for all nodes; node `but` knows."""
        if not self._number:
            return
        for rank, guest in self._guests.items():
            if rank != but:
                guest.send(end=why, number=self._number, hangs=hangs)
        self._number, self._over = 0, Over(why, hangs)

    def _turn(self, wait: float) -> None:
        assert self._server is not None
        _ready([self._server, *(line.sock for line in (*self._guests.values(), *self._strangers))], wait)
        for rank, guest in list(self._guests.items()):
            self._listen(rank, guest)
        with contextlib.suppress(BlockingIOError):
            while True:
                self._strangers.append(Line(self._server.accept()[0]))
        for line in list(self._strangers):
            words = line.receive()
            if words or line.closed or line.silent() > self._silence:
                self._strangers.remove(line)
                self._seat(line, words)
        if time.monotonic() - self._spoke > self._beat:
            self._spoke = time.monotonic()
            for guest in self._guests.values():
                guest.send(beat=True)

    def _seat(self, line: Line, words: list[dict[str, Any]]) -> None:
        """A node that says for the first time who it is; or somebody who is no node, or has left again."""
        rank = words[0].get("rank") if words and not line.closed else None
        if not isinstance(rank, int) or not 0 < rank < self._topology.nodes:
            line.close()
            return
        old = self._guests.get(rank)
        if old is not None and old.silent() < TAKEN:
            line.send(taken=True)
            line.close()
            return
        if old is not None:
            self._lose(rank, f"node {rank} was replaced", hangs=True)
        self._guests[rank] = line
        self._left.pop(rank, None)
        line.send(beat=True)
        for word in words:
            self._hear(rank, word)

    def _listen(self, rank: int, guest: Line) -> None:
        for word in guest.receive():
            self._hear(rank, word)
        if guest.closed:
            self._lose(rank, f"node {rank} is gone", hangs=False)
        elif guest.silent() > self._silence:
            self._lose(rank, f"node {rank} has been silent for {guest.silent():.0f} s", hangs=True)

    def _hear(self, rank: int, word: dict[str, Any]) -> None:
        if "here" in word:
            self._here[rank] = (int(word["here"]), int(word["processes"]))
        elif "failed" in word and word.get("number") == self._number:
            self._end(
                f"a process of node {rank} ended with exit code {word['failed']}", hangs=False, but=rank
            )
        elif "bye" in word:
            self._left[rank] = int(word["bye"])
            self._guests[rank].close()

    def _lose(self, rank: int, why: str, *, hangs: bool) -> None:
        self._guests.pop(rank).close()
        self._here.pop(rank, None)
        code = self._left.get(rank)
        if code not in WELL:
            why = why if code is None else f"node {rank} left with exit code {code}"
            self._end(why, hangs=hangs, but=rank)

    def _open(self) -> socket.socket:
        port = self._topology.port
        while True:
            try:
                server = _listen_on(port)
                server.setblocking(False)
                return server
            except OSError as error:
                self._patience.check(f"port {port} of node 0 can't be used: {error.strerror or error}")
                time.sleep(POLL)


class Guest:
    """Implements `Meeting` for any other node."""

    def __init__(self, topology: Topology, patience: _Patience, silence: float) -> None:
        self._topology, self._patience, self._silence = topology, patience, silence
        self._beat = min(BEAT, silence / 5)
        self._line: Line | None = None
        self._number = 0
        """Of the attempt that runs, as node 0 counts them; 0 between two."""
        self._over: Over | None = None
        self._plan: Plan | None = None
        self._spoke, self._taken = 0.0, False
        self._left: int | None = None

    def next(self, attempt: int, processes: int) -> Plan:
        top = self._topology
        here = {"rank": top.node_rank, "here": attempt, "processes": processes}
        self._patience.begin()
        self._number, self._over, self._plan = 0, None, None
        if self._line is not None:
            self._line.send(**here)
        while self._plan is None:
            if self._line is None:
                self._connect(here)
            self._turn(POLL)
            missing = f"node 0 was not reached at {top.address}:{top.port} (this is node {top.node_rank})"
            if self._taken:
                missing = f"another node {top.node_rank} takes part, this one was not needed"
            elif self._line is not None:
                missing = f"node 0 at {top.address}:{top.port} did not get all nodes together"
            self._patience.check(missing, () if self._left is None else (self._left,))
        return self._plan

    def watch(self) -> Over | None:
        self._turn(0)
        return self._over

    def failed(self, code: int) -> None:
        if self._line is not None and self._number:
            self._line.send(failed=code, number=self._number)
        self._number = 0

    def leave(self, code: int) -> None:
        if self._line is not None:
            _part([self._line], code)

    def _connect(self, here: dict[str, int]) -> None:
        if self._taken:
            time.sleep(AGAIN)
        with contextlib.suppress(OSError):
            sock = socket.create_connection((self._topology.address, self._topology.port), timeout=5)
            self._line = Line(sock)
            self._line.send(**here)

    def _turn(self, wait: float) -> None:
        line = self._line
        _ready([line.sock] if line is not None else [], wait)
        if line is None:
            return
        for word in line.receive():
            self._hear(word)
        if line.closed or self._taken:
            gone = "node 0 is gone" if self._left is None else f"node 0 left with exit code {self._left}"
            self._lose(gone, hangs=False)
        elif line.silent() > self._silence:
            self._lose(f"node 0 has been silent for {line.silent():.0f} s", hangs=True)
        elif time.monotonic() - self._spoke > self._beat:
            self._spoke = time.monotonic()
            line.send(beat=True)

    def _hear(self, word: dict[str, Any]) -> None:
        self._taken, self._left = "taken" in word, None
        if "go" in word:
            go = dict(word["go"])
            self._plan = Plan(go["attempt"], go["address"], go["port"], tuple(go["processes"]))
            self._number = int(word["number"])
        elif "end" in word and word["number"] == self._number:
            self._number, self._over = 0, Over(str(word["end"]), bool(word["hangs"]))
        elif "bye" in word and self._line is not None:
            self._left = int(word["bye"])
            self._number = 0 if self._left in WELL else self._number
            self._line.close()

    def _lose(self, why: str, *, hangs: bool) -> None:
        assert self._line is not None
        self._line.close()
        self._line = None
        if self._number:
            self._number, self._over = 0, Over(why, hangs)


def _part(lines: Iterable[Line], code: int) -> None:
    """Say goodbye, and wait a moment until it was read: what closes before that takes its word with it."""
    left, until = list(lines), time.monotonic() + 1
    for line in left:
        line.send(bye=code)
    while (left := [line for line in left if not line.closed]) and time.monotonic() < until:
        _ready([line.sock for line in left], POLL)
        for line in left:
            line.receive()
    for line in left:
        line.close()


def _ready(sockets: Iterable[socket.socket], wait: float) -> None:
    """Return after `wait` seconds, or as soon as one of the sockets has something."""
    found = select.poll()
    for sock in sockets:
        found.register(sock, select.POLLIN)
    found.poll(wait * 1000)


def _listen_on(port: int) -> socket.socket:
    """For both kinds of addresses where this machine has both."""
    if socket.has_dualstack_ipv6():
        with contextlib.suppress(OSError):
            return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=512)
    return socket.create_server(("", port), backlog=512)


def reachable_address(name: str) -> str:
    """Where the other nodes reach this one.

    On Vertex the name of node 0 is a service with a few declared ports, and only the pod's own address
    takes any port (vertex facts 3.3); a name that means this machine's loopback stays as it is.
    """
    with contextlib.suppress(OSError):
        found = socket.gethostbyname(name)
        if found.startswith("127."):
            return found
        return socket.gethostbyname(socket.gethostname())
    return name


def free_port(address: str) -> int:
    """A port that is free now. If it is taken before we use it, the attempt fails, the next has another."""
    with socket.socket() as probe:
        try:
            probe.bind((address, 0))
        except OSError:
            probe.bind(("", 0))
        return int(probe.getsockname()[1])
