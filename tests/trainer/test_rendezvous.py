"""The leader and the followers in one process: who may join, who left, who is only silent."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.waiting import wait_for
from trainer.network.addresses import LISTEN, free_port, interface_of
from trainer.network.handshake import NO_KEY
from trainer.network.messages import MessageStream
from trainer.placement.topology import Topology
from trainer.supervision import protocol
from trainer.supervision.failure import AttemptFailure
from trainer.supervision.protocol import Attempt, AttemptEnd
from trainer.supervision.rendezvous import (
    Follower,
    JoinTimeout,
    RendezvousError,
    RendezvousLeader,
    ShutdownRequested,
    SingleNode,
    make_rendezvous,
)

PEER_TIMEOUT = 1.0
FAILED = AttemptFailure("rank 0: ValueError: x", 10.0)
Node = RendezvousLeader | Follower


class Nodes:
    """The nodes of one run. Their heartbeats and peer timeouts are measured by a clock that a test sets."""

    def __init__(self, count: int) -> None:
        self.count, self.port = count, free_port()
        self.made: list[Node] = []
        self.pool = ThreadPoolExecutor(8)
        self.shutdown = False
        self.now = 100.0

    def place(self, rank: int, address: str = "127.0.0.1", job: str = "this") -> Topology:
        return Topology("test", rank, self.count, address, self.port, job=job)

    def node(self, rank: int, timeout: float = 60, address: str = "127.0.0.1", job: str = "this") -> Node:
        limit = JoinTimeout(timeout, lambda: self.shutdown)
        made = make_rendezvous(self.place(rank, address, job), limit, PEER_TIMEOUT, lambda: self.now)
        assert isinstance(made, RendezvousLeader | Follower)
        self.made.append(made)
        return made

    def join(self, *nodes: Node, number: int = 0) -> list[Attempt]:
        waiting = [self.pool.submit(node.join, number, 1 + i) for i, node in enumerate(nodes)]
        return [one.result(60) for one in waiting]

    def pass_time(self, seconds: float, *nodes: Node) -> bool:
        """Whether the attempt continues while only these nodes send heartbeats for so long.

        Between two steps of the clock every message is read: the loopback delivers one within microseconds,
        and the pauses leave a loaded machine a thousand times that.
        """
        until = self.now + seconds
        while self.now < until:
            self.now += PEER_TIMEOUT / 10
            for _ in range(3):
                if [end for node in nodes if (end := node.poll())]:
                    return False
                time.sleep(0.005)
        return True

    def end_of(self, node: Node, *others: Node) -> AttemptEnd:
        """What ends the attempt for `node`, while `others` are alive."""

        def look() -> AttemptEnd | None:
            self.now += PEER_TIMEOUT / 20
            for other in others:
                other.poll()
            return node.poll()

        return wait_for(look, "the end of the attempt", every=0.02)


@pytest.fixture
def nodes() -> Iterator[Callable[[int], Nodes]]:
    made: list[Nodes] = []

    def make(count: int) -> Nodes:
        made.append(Nodes(count))
        return made[-1]

    yield make
    for one in made:
        one.shutdown = True
        one.pool.shutdown()
        for node in reversed(one.made):
            node.leave(0)


def test_all_get_the_same_attempt_with_the_highest_number(nodes: Callable[[int], Nodes]) -> None:
    run = nodes(3)
    leader, one, two = (run.node(rank) for rank in range(3))
    waiting = [run.pool.submit(n.join, a, c) for n, a, c in ((two, 0, 4), (one, 7, 2), (leader, 3, 1))]
    found = [w.result(60) for w in waiting]
    assert found[0] == found[1] == found[2]
    assert (found[0].number, found[0].processes) == (7, (1, 2, 4))
    assert run.pass_time(3 * PEER_TIMEOUT, leader, one, two), "heartbeats go both ways"


def test_a_failure_ends_the_attempt_for_all_and_they_join_again(nodes: Callable[[int], Nodes]) -> None:
    run = nodes(3)
    leader, one, two = (run.node(rank) for rank in range(3))
    first = run.join(leader, one, two)[0]
    killed = AttemptFailure("rank 2 was killed", 5.0, 137)
    two.report_failure(killed)
    for node in (leader, one):
        assert run.end_of(node, leader) == AttemptEnd(killed)
    second = run.join(two, one, leader, number=1)[0]
    assert second.number == 1 and second.port != first.port
    leader.report_failure(FAILED)
    assert run.end_of(one).failure == FAILED
    assert leader.poll() is None, "its own failure is no end by another node"


def test_a_silent_node_is_lost_and_one_that_left_after_its_part_is_not(
    nodes: Callable[[int], Nodes],
) -> None:
    run = nodes(3)
    leader, one, two = (run.node(rank) for rank in range(3))
    run.join(leader, one, two)
    run.pool.submit(two.leave, 75)
    assert run.pass_time(2 * PEER_TIMEOUT, leader, one), "its part was done"
    # Node 1 is stopped: it neither sends nor closes anything.
    end = run.end_of(leader)
    assert end.hangs and end.failure.message.startswith("node 1 has been silent for")
    assert run.end_of(one).failure.message == "node 0 is gone" or run.end_of(one).hangs


@pytest.mark.parametrize("rank", [0, 1])
def test_a_node_that_leaves_with_wrong_data_ends_the_run(nodes: Callable[[int], Nodes], rank: int) -> None:
    run = nodes(2)
    pair = [run.node(0), run.node(1)]
    run.join(*pair)
    run.pool.submit(pair.pop(rank).leave, 2)
    failure = run.end_of(pair[0]).failure
    assert (failure.message, failure.code) == (f"node {rank} left with exit code 2", 2)
    with pytest.raises(RendezvousError, match="left with exit code 2") as error:
        pair[0].join(1, 1)
    assert error.value.code == 2, "wrong flags or data: this node does not try again either"


def test_a_silent_leader_is_lost(nodes: Callable[[int], Nodes]) -> None:
    run = nodes(2)
    leader, one = run.node(0), run.node(1)
    run.join(leader, one)
    end = run.end_of(one)
    assert end.hangs and end.failure.message.startswith("node 0 has been silent for")
    assert run.end_of(leader).failure.message.startswith("node 1 ")
    assert run.join(leader, one, number=1)[0].number == 1


def test_a_second_process_of_a_node_waits_until_the_first_is_gone(nodes: Callable[[int], Nodes]) -> None:
    run = nodes(2)
    leader, one = run.node(0), run.node(1)
    run.join(leader, one)
    late = run.node(1)
    assert isinstance(late, Follower) and isinstance(one, Follower)
    waiting = run.pool.submit(late.join, 0, 1)

    def refused() -> bool:
        assert not (leader.poll() or one.poll()), "the attempt continues"
        return late.rank_taken

    wait_for(refused, "the answer that the rank is taken", every=0.01)
    assert not waiting.done()
    one.report_failure(FAILED)
    assert one._leader is not None
    one._leader.close()
    assert run.end_of(leader).failure == FAILED
    assert leader.join(1, 1) == waiting.result(60)
    impatient = run.node(1, timeout=0.5)
    turn = run.pool.submit(impatient.join, 0, 1)

    def gave_up() -> bool:
        leader.poll()
        late.poll()
        return turn.done()

    wait_for(gave_up, "the end of the patience", every=0.01)
    with pytest.raises(RendezvousError, match="another node 1 has joined"):
        turn.result()


def test_the_timeout_names_who_is_missing_and_a_signal_ends_the_wait(nodes: Callable[[int], Nodes]) -> None:
    run = nodes(3)
    with pytest.raises(RendezvousError, match="nodes 1, 2 did not join within 0 s"):
        run.node(0, timeout=0.3).join(0, 1)
    run.shutdown = True
    with pytest.raises(ShutdownRequested):
        run.made[0].join(0, 1)
    run.shutdown = False
    second = run.node(0, timeout=0.2)
    with pytest.raises(RendezvousError, match=f"port {run.port} of node 0 can't be used"):
        second.join(0, 1)
    run.made.remove(second)


def test_a_single_node_waits_for_nobody() -> None:
    alone = SingleNode()
    assert alone.join(2, 4).processes == (4,)
    assert alone.poll() is None


def test_the_cause_replaces_the_report_of_a_node_that_only_noticed_it(nodes: Callable[[int], Nodes]) -> None:
    run = nodes(3)
    leader, one, two = (run.node(rank) for rank in range(3))
    run.join(leader, one, two)
    noticed = AttemptFailure("rank 1: Connection closed by peer", 9.0, follower=True)
    one.report_failure(noticed)
    assert run.end_of(leader).failure == run.end_of(two, leader).failure == noticed
    two.report_failure(FAILED)

    def told(node: Node) -> bool:
        end = node.poll()
        return end is not None and end.failure == FAILED

    wait_for(lambda: told(leader) and told(one), "the cause", every=0.01)
    two.report_failure(AttemptFailure("later", 20.0))
    one.report_failure(noticed)
    for _ in range(10):
        assert told(leader) and told(one)
        time.sleep(0.005)
    assert run.join(leader, one, two, number=1)[0].number == 1
    assert run.pass_time(PEER_TIMEOUT, leader, one, two), "the new attempt knows nothing of the old one's end"


def test_each_node_gets_the_address_at_which_it_reached_node_0(
    nodes: Callable[[int], Nodes], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Node 0's own name is that of its loopback, as in Debian's /etc/hosts, or of another interface.
    monkeypatch.setattr(socket, "gethostbyname", lambda name: "127.0.1.1")
    monkeypatch.setenv(LISTEN, "0.0.0.0")
    run = nodes(3)
    leader, one, two = run.node(0), run.node(1, address="127.0.0.2"), run.node(2, address="127.0.0.3")
    found = run.join(leader, one, two)
    assert [attempt.address for attempt in found[1:]] == ["127.0.0.2", "127.0.0.3"]
    assert found[0].address in {"127.0.0.2", "127.0.0.3"}
    assert len({attempt.port for attempt in found}) == 1
    assert interface_of("127.0.0.1") == "lo" and interface_of("203.0.113.9") == ""


def test_a_node_of_another_job_is_closed_without_a_word_and_one_of_another_version_with_its_name(
    nodes: Callable[[int], Nodes], capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = nodes(2)
    leader, one = run.node(0), run.node(1)
    run.join(leader, one)
    other = run.node(1, timeout=0.3, job="another")
    turn = run.pool.submit(other.join, 0, 1)
    wait_for(lambda: [leader.poll(), one.poll()] and turn.done(), "the end of its patience", every=0.01)
    with pytest.raises(RendezvousError, match="refused this node: the peer closed the connection") as error:
        turn.result()
    assert "the same VXTUI_RUN_KEY" in str(error.value) and "this" not in str(error.value).split("node: ")[1]
    assert f"127.0.0.1 is closed: the peer must be a node of this run: {NO_KEY}" in capfd.readouterr().out
    monkeypatch.setattr(protocol, "VERSION", 99)
    with pytest.raises(protocol.ProtocolError, match="version 99 of the protocol, not 2"):
        protocol.read_hello({"protocol": 2, "rank": 1}, run.place(0))
    assert run.pass_time(PEER_TIMEOUT, leader, one)


HELLO = {"protocol": 2, "rank": 1, "join": 0, "processes": 1}
ODD = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
    | st.just(10**400) | st.lists(st.integers(), max_size=3)
    | st.dictionaries(st.text(max_size=4), st.integers(), max_size=3)
)  # fmt: skip
FAILURES = st.fixed_dictionaries({}, optional=dict.fromkeys(("message", "time", "code", "follower"), ODD))
MESSAGES = st.fixed_dictionaries(
    {},
    optional={
        **{name: st.just(value) | ODD for name, value in HELLO.items()},
        **dict.fromkeys(("leave", "heartbeat", "rank_taken", "refused", "attempt_id", "hangs"), ODD),
        **dict.fromkeys(("failed", "end", "start"), ODD | FAILURES),
    },
)
LINES = st.binary(max_size=200) | MESSAGES.map(lambda said: json.dumps(said).encode() + b"\n")
STRANGERS = (
    b"GET / HTTP/1.0\r\n\r\n", b"[1]\n", b"3\n", b"null\n", b'{"rank": 9}\n', b'{"rank": "1"}\n', b"\xff\n",
    b"", b"\n", b'{"rank": 1, "join": 1}\n', b"[" * 100_000 + b"\n", b'{"a":' * 100_000 + b"\n",
    b"9" * 5000 + b"\n",
    b"x" * (2 << 20), b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", json.dumps(HELLO).encode()[:-1],
)  # fmt: skip


def test_strangers_neither_end_the_attempt_nor_the_supervisor(
    nodes: Callable[[int], Nodes], capfd: pytest.CaptureFixture[str]
) -> None:
    run = nodes(2)
    leader, one = run.node(0), run.node(1)
    run.join(leader, one)

    @settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.lists(LINES, max_size=4))
    def connect(lines: list[bytes]) -> None:
        said = b"".join(lines)
        with socket.create_connection(("127.0.0.1", run.port), timeout=60) as stranger:
            send(stranger, said)
            assert not leader.poll() and not one.poll()
        assert not leader.poll() and not one.poll()

    connect()
    for said in STRANGERS:
        with socket.create_connection(("127.0.0.1", run.port), timeout=60) as stranger:
            sent = run.pool.submit(send, stranger, said)
            wait_for(
                lambda sent=sent: not leader.poll() and sent.done(), "the end of what it sends", every=0.001
            )
            assert run.pass_time(PEER_TIMEOUT / 10, leader, one)
    lines = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert [line["severity"] for line in lines] == ["WARNING"], "one for each address"
    one.report_failure(FAILED)
    assert run.end_of(leader).failure == FAILED


def send(sock: socket.socket, said: bytes) -> None:
    with suppress(OSError):
        sock.sendall(said)


@given(st.lists(MESSAGES, max_size=5))
@settings(max_examples=100, deadline=None)
def test_a_node_that_sends_nonsense_is_dropped_and_the_leader_lives(
    messages: list[dict[str, object]],
) -> None:
    leader = RendezvousLeader(
        Topology("test", nodes=2, job="this"), JoinTimeout(1, lambda: False), 1.0, time.monotonic
    )
    here, there = socket.socketpair()
    with here, there:
        leader._admit(MessageStream(here), [HELLO])
        for message in messages:
            if 1 in leader._followers:
                leader._handle_all(1, leader._followers[1], [json.loads(json.dumps(message))])
        for rank, counts in leader._joined.items():
            assert rank == 1 and all(isinstance(count, int) and count >= 0 for count in counts)


@given(MESSAGES)
@settings(max_examples=100, deadline=None)
def test_a_follower_survives_whatever_node_0s_port_answers(message: dict[str, object]) -> None:
    top = Topology("test", node_rank=1, nodes=2, job="this")
    follower = Follower(top, JoinTimeout(1, lambda: False), 1.0, time.monotonic)
    here, there = socket.socketpair()
    with here, there:
        follower._leader = MessageStream(here)
        there.sendall(json.dumps(message).encode() + b"\n")
        assert follower.poll() is None or "end" in message
