"""Node 0 and the others in one process: who may take part, who has gone, who only says nothing."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from tests.trainer.test_nodes import free_port
from tests.waiting import wait_for
from trainer.meeting import Alone, Guest, Host, NodesMissing, Over, Plan, ToldToLeave, meeting
from trainer.topology import Topology

SILENCE = 1.0


class Nodes:
    """Meetings of one run; each turns in a thread of its own only while it waits."""

    def __init__(self, count: int) -> None:
        self.count, self.port = count, free_port()
        self.made: list[Host | Guest] = []
        self.pool = ThreadPoolExecutor(8)
        self.told = False

    def node(self, rank: int, timeout: float = 20, silence: float = SILENCE) -> Host | Guest:
        place = Topology("test", node_rank=rank, nodes=self.count, port=self.port)
        made = meeting(place, timeout, silence, lambda: self.told)
        assert isinstance(made, Host | Guest)
        self.made.append(made)
        return made

    def meet(self, *nodes: Host | Guest, attempt: int = 0) -> list[Plan]:
        waiting = [self.pool.submit(node.next, attempt, 1 + i) for i, node in enumerate(nodes)]
        return [one.result(30) for one in waiting]


@pytest.fixture
def nodes() -> Iterator[Callable[[int], Nodes]]:
    made: list[Nodes] = []

    def make(count: int) -> Nodes:
        made.append(Nodes(count))
        return made[-1]

    yield make
    for one in made:
        one.told = True
        one.pool.shutdown()
        for node in reversed(one.made):
            node.leave(0)


def over(node: Host | Guest, *others: Host | Guest) -> Over:
    """What ends the attempt for `node`, while `others` live."""

    def look() -> Over | None:
        for other in others:
            other.watch()
        return node.watch()

    return wait_for(look, "the end of the attempt", seconds=10, every=0.02)


def quiet(seconds: float, *nodes: Host | Guest) -> bool:
    """Nobody has ended the attempt."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if [found for node in nodes if (found := node.watch())]:
            return False
        time.sleep(0.02)
    return True


def test_all_get_the_same_plan_with_the_highest_attempt(nodes: Callable[[int], Nodes]) -> None:
    run = nodes(3)
    host, one, two = (run.node(rank) for rank in range(3))
    waiting = [run.pool.submit(n.next, a, c) for n, a, c in ((two, 0, 4), (one, 7, 2), (host, 3, 1))]
    found = [w.result(20) for w in waiting]
    assert found[0] == found[1] == found[2]
    assert (found[0].attempt, found[0].processes) == (7, (1, 2, 4))
    assert quiet(3 * SILENCE, host, one, two), "signs of life go both ways"


def test_a_failure_ends_it_for_all_and_they_meet_again(nodes: Callable[[int], Nodes]) -> None:
    run = nodes(3)
    host, one, two = (run.node(rank) for rank in range(3))
    first = run.meet(host, one, two)[0]
    two.failed(9)
    for node in (host, one):
        assert over(node, host) == Over("a process of node 2 ended with exit code 9")
    second = run.meet(two, one, host, attempt=1)[0]
    assert second.attempt == 1 and second.port != first.port
    host.failed(1)
    assert over(one).why == "a process of node 0 ended with exit code 1"


def test_who_says_nothing_is_given_up_and_who_left_well_is_not(nodes: Callable[[int], Nodes]) -> None:
    run = nodes(3)
    host, one, two = (run.node(rank) for rank in range(3))
    run.meet(host, one, two)
    run.pool.submit(two.leave, 75)
    assert quiet(2 * SILENCE, host, one), "it was done"
    # Node 1 is stopped: it neither speaks nor closes anything.
    found = over(host)
    assert found.hangs and found.why.startswith("node 1 has been silent for")
    assert over(one) == Over("node 0 is gone") or over(one).hangs


@pytest.mark.parametrize("rank", [0, 1])
def test_who_leaves_with_wrong_data_ends_it_for_all(nodes: Callable[[int], Nodes], rank: int) -> None:
    run = nodes(2)
    pair = [run.node(0), run.node(1)]
    run.meet(*pair)
    run.pool.submit(pair.pop(rank).leave, 2)
    assert over(pair[0]) == Over(f"node {rank} left with exit code 2")
    with pytest.raises(NodesMissing, match="left with exit code 2"):
        pair[0].next(1, 1)


def test_node_0_that_says_nothing_is_given_up(nodes: Callable[[int], Nodes]) -> None:
    run = nodes(2)
    host, one = run.node(0), run.node(1)
    run.meet(host, one)
    found = over(one)
    assert found.hangs and found.why.startswith("node 0 has been silent for")
    assert over(host).why.startswith("node 1 ")
    assert run.meet(host, one, attempt=1)[0].attempt == 1


def test_a_second_process_of_a_node_waits_until_the_first_is_gone(nodes: Callable[[int], Nodes]) -> None:
    run = nodes(2)
    host, one = run.node(0), run.node(1)
    run.meet(host, one)
    late = run.node(1)
    waiting = run.pool.submit(late.next, 0, 1)
    assert quiet(1.2, host, one), "the attempt goes on"
    assert not waiting.done()
    one.failed(1)
    assert isinstance(one, Guest) and one._line is not None
    one._line.close()
    assert over(host).why == "a process of node 1 ended with exit code 1"
    assert host.next(1, 1) == waiting.result(10)
    impatient = run.node(1, timeout=0.5)
    turn = run.pool.submit(impatient.next, 0, 1)
    with suppress(AssertionError):
        quiet(1.5, host, late)
    with pytest.raises(NodesMissing, match="another node 1 takes part"):
        turn.result(5)


def test_strangers_do_no_harm(nodes: Callable[[int], Nodes]) -> None:
    run = nodes(2)
    host, one = run.node(0), run.node(1)
    run.meet(host, one)
    for said in (b"GET / HTTP/1.0\r\n\r\n", b"[1]\n", b'{"rank": 9}\n', b'{"rank": "1"}\n', b"\xff\n", b""):
        with socket.create_connection(("127.0.0.1", run.port), timeout=5) as stranger:
            stranger.sendall(said)
            assert quiet(0.1, host, one)


def test_patience_ends_with_a_name_or_a_signal(nodes: Callable[[int], Nodes]) -> None:
    run = nodes(3)
    with pytest.raises(NodesMissing, match="nodes 1, 2 did not come within 0 s"):
        run.node(0, timeout=0.3).next(0, 1)
    run.told = True
    with pytest.raises(ToldToLeave):
        run.made[0].next(0, 1)
    place = Topology("test", node_rank=0, nodes=2, port=run.port)
    with pytest.raises(NodesMissing, match=f"port {run.port} of node 0 can't be used"):
        meeting(place, 0.2, SILENCE, lambda: False).next(0, 1)


def test_a_node_alone_waits_for_nobody() -> None:
    alone = Alone()
    assert alone.next(2, 4).processes == (4,)
    assert alone.watch() is None
