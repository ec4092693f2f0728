"""The leader and the followers in one process: who may join, who has left, who is only silent."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.trainer.test_multi_node import free_port
from tests.waiting import wait_for
from trainer.launch.rendezvous import (
    Attempt,
    AttemptEnd,
    Follower,
    JoinTimeout,
    Leader,
    RendezvousError,
    ShutdownRequested,
    SingleNode,
    make_rendezvous,
)
from trainer.launch.topology import Topology

PEER_TIMEOUT = 1.0
Node = Leader | Follower


class Nodes:
    """The nodes of one run. Their heartbeats and peer timeouts are measured by a clock that a test sets."""

    def __init__(self, count: int) -> None:
        self.count, self.port = count, free_port()
        self.made: list[Node] = []
        self.pool = ThreadPoolExecutor(8)
        self.shutdown = False
        self.now = 100.0

    def node(self, rank: int, timeout: float = 60) -> Node:
        place = Topology("test", node_rank=rank, nodes=self.count, port=self.port)
        limit = JoinTimeout(timeout, lambda: self.shutdown)
        made = make_rendezvous(place, limit, PEER_TIMEOUT, lambda: self.now)
        assert isinstance(made, Leader | Follower)
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
        """What ends the attempt for `node`, while `others` live too."""

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
    two.report_failure(9)
    for node in (leader, one):
        assert run.end_of(node, leader) == AttemptEnd("a process of node 2 ended with exit code 9")
    second = run.join(two, one, leader, number=1)[0]
    assert second.number == 1 and second.port != first.port
    leader.report_failure(1)
    assert run.end_of(one).reason == "a process of node 0 ended with exit code 1"


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
    assert end.hangs and end.reason.startswith("node 1 has been silent for")
    assert run.end_of(one) == AttemptEnd("node 0 is gone") or run.end_of(one).hangs


@pytest.mark.parametrize("rank", [0, 1])
def test_a_node_that_leaves_with_wrong_data_ends_the_run(nodes: Callable[[int], Nodes], rank: int) -> None:
    run = nodes(2)
    pair = [run.node(0), run.node(1)]
    run.join(*pair)
    run.pool.submit(pair.pop(rank).leave, 2)
    assert run.end_of(pair[0]) == AttemptEnd(f"node {rank} left with exit code 2")
    with pytest.raises(RendezvousError, match="left with exit code 2"):
        pair[0].join(1, 1)


def test_a_silent_leader_is_lost(nodes: Callable[[int], Nodes]) -> None:
    run = nodes(2)
    leader, one = run.node(0), run.node(1)
    run.join(leader, one)
    end = run.end_of(one)
    assert end.hangs and end.reason.startswith("node 0 has been silent for")
    assert run.end_of(leader).reason.startswith("node 1 ")
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
    one.report_failure(1)
    assert one._leader is not None
    one._leader.close()
    assert run.end_of(leader).reason == "a process of node 1 ended with exit code 1"
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


def test_other_clients_are_ignored(nodes: Callable[[int], Nodes]) -> None:
    run = nodes(2)
    leader, one = run.node(0), run.node(1)
    run.join(leader, one)
    for said in (b"GET / HTTP/1.0\r\n\r\n", b"[1]\n", b'{"rank": 9}\n', b'{"rank": "1"}\n', b"\xff\n", b""):
        with socket.create_connection(("127.0.0.1", run.port), timeout=60) as stranger:
            stranger.sendall(said)
            assert run.pass_time(PEER_TIMEOUT, leader, one)


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
