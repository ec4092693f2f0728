"""Which nodes train together, from the states that they report to the leader."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from trainer import exit_codes
from trainer.elastic.leader import (
    BROKEN_WAIT,
    LEAVE_WAIT,
    MAX_WITHOUT_STEP,
    OPERATOR_START_WAIT,
    START_WAIT,
    SUCCESSION_WAIT,
    Decision,
    ElasticRules,
    Leader,
)
from trainer.elastic.membership import Membership, may_train, read_membership
from trainer.elastic.protocol import SHARDS, NodeState
from trainer.supervision.failure import AttemptFailure
from trainer.supervision.protocol import ProtocolError

GONE = "it is gone"


class Nodes:
    """The nodes' reports; `now` is the leader's clock."""

    def __init__(self, count: int, minimum: int, before: Membership | None = None) -> None:
        self.now = 0.0
        self.leader = Leader(ElasticRules(count, minimum), lambda: self.now, before)
        self.states: dict[int, NodeState] = {}

    def tell(self, node: int, **changes: object) -> None:
        state = self.states.get(node) or NodeState(node, 1, 5000 + node, spawn=100 * node + 1, store_port=7)
        self.states[node] = replace(state, **changes)  # type: ignore[arg-type]
        self.leader.update(self.states[node], "10.0.0.1")

    def ready(self, *nodes: int) -> None:
        for node in nodes:
            self.tell(node, ready=True, data="the same")

    def settle(self, step: int = 0) -> None:
        membership = self.leader.membership
        assert membership is not None
        for node in membership.nodes:
            self.tell(node, settled=membership.epoch, epoch=membership.epoch, step=step)

    def decide(self) -> Decision:
        decision = self.leader.decide()
        assert decision is not None
        return decision

    def change(self) -> Membership:
        membership = self.decide().membership
        assert membership is not None
        return membership


@pytest.fixture
def three() -> Nodes:
    """Three training nodes, of which two are enough."""
    nodes = Nodes(3, 2)
    nodes.ready(0, 1, 2)
    assert nodes.change().nodes == (0, 1, 2)
    nodes.settle()
    return nodes


@pytest.mark.parametrize(
    ("left", "minimum", "silent", "unknown", "may"),
    [
        ({0, 1}, 2, {2}, (), True),
        ({0, 1}, 3, (), (), False),
        ({2}, 1, {0, 1}, (), False),
        # One half of a run in two halves, of which each finds the other one silent.
        ({0}, 1, {1}, (), True),
        ({1}, 1, {0}, (), False),
        # At the start another node may train already.
        ({0}, 1, (), {1}, False),
        ({0, 1}, 1, (), {2}, True),
        ((), 0, (), (), False),
    ],
)
def test_two_halves_never_train_apart(
    left: set[int], minimum: int, silent: set[int], unknown: set[int], may: bool
) -> None:
    assert may_train(left, max(1, minimum), silent, unknown) is may


def test_a_membership_survives_its_message() -> None:
    nodes = Nodes(2, 1)
    nodes.ready(0, 1)
    membership = nodes.change()
    assert read_membership(json.loads(json.dumps(membership.message()))) == membership
    with pytest.raises(ProtocolError):
        read_membership({**membership.message(), "members": [{"node": -1}]})


def test_the_start_waits_for_all_nodes_or_for_a_while() -> None:
    nodes = Nodes(4, 2)
    nodes.ready(0, 1)
    assert nodes.leader.decide() is None
    nodes.now = START_WAIT + 1
    assert nodes.leader.decide() is None, "two of four may train apart from the other two"
    nodes.ready(3)
    assert nodes.leader.decide() is None
    assert "node 2" in nodes.leader.missing()
    nodes.now += START_WAIT + 1
    assert nodes.change().nodes == (0, 1, 3)


def test_a_lost_node_leaves_at_once_and_comes_back_at_the_end_of_a_step(three: Nodes) -> None:
    three.leader.remove(0, GONE)
    change = three.change()
    assert (change.nodes, change.lost, change.urgent) == ((1, 2), (0,), True)
    three.ready(0)
    assert three.leader.decide() is None, "the others have not settled yet"
    three.settle(step=5)
    change = three.change()
    # Rank 0 is a node that has trained.
    assert (change.nodes, change.joined, change.urgent) == ((1, 2, 0), (0,), False)
    assert change.first_rank(0) == 2


def test_killed_processes_count_as_a_lost_node_while_its_supervisor_lives(three: Nodes) -> None:
    three.tell(1, ready=False)
    assert three.change().nodes == (0, 2)
    # New processes that are ready before the loss was noticed are other ones.
    three.settle(step=3)
    three.tell(2, spawn=999)
    change = three.change()
    assert (change.nodes, change.lost, change.joined) == ((0, 2), (2,), (2,))


def test_too_few_nodes_end_the_attempt_for_all(three: Nodes) -> None:
    three.leader.remove(1, GONE)
    three.leader.remove(2, GONE)
    decision = three.decide()
    assert decision.end is not None and "--elastic 2" in decision.end.failure.message
    assert decision.recipients == {0}
    assert three.leader.decide() is None, "its old processes are no member of a new attempt"


def test_a_node_with_a_signal_leaves_and_the_last_ones_stop_together(three: Nodes) -> None:
    three.tell(2, leaving=True)
    assert three.leader.decide() is None
    three.now += LEAVE_WAIT + 0.1
    decision = three.decide()
    assert decision.membership is not None and decision.membership.left == (2,)
    assert not decision.membership.urgent and 2 in decision.recipients
    three.settle(step=4)
    three.leader.remove(2, "it left with exit code 75", code=75)
    three.tell(1, leaving=True)
    assert three.leader.decide() is None
    three.now += LEAVE_WAIT + 0.1
    assert three.decide().stop
    assert three.leader.decide() is None, "it is said once"


def test_broken_connections_without_a_lost_node_make_a_new_membership(three: Nodes) -> None:
    three.tell(1, broken=1)
    assert three.leader.decide() is None
    three.now += BROKEN_WAIT + 0.1
    change = three.change()
    assert (change.nodes, change.lost, change.urgent) == ((0, 1, 2), (), True)


def test_losses_without_a_step_end_the_attempt(three: Nodes) -> None:
    for number in range(MAX_WITHOUT_STEP):
        three.tell(2, spawn=1000 + number)
        three.change()
        three.settle()
    three.tell(2, spawn=5)
    end = three.decide().end
    assert end is not None and "since the last completed step" in end.failure.message


def test_a_node_with_other_data_is_refused_and_the_others_train_on(three: Nodes) -> None:
    three.leader.remove(2, GONE)
    three.change()
    three.settle(step=1)
    three.tell(2, ready=True, data="other")
    decision = three.decide()
    assert decision.recipients == {2} and "node 2 has other data" in decision.refused


def test_a_node_with_another_number_of_shards_is_refused_by_it(three: Nodes) -> None:
    for node, shards in enumerate((2, 2, 1)):
        three.tell(node, data=f"data{SHARDS}{shards}")
    three.leader.remove(2, GONE)
    three.change()
    three.settle(step=1)
    three.tell(2, ready=True, data=f"data{SHARDS}1")
    assert "node 2 has 1 processes" in three.decide().refused


def test_an_error_of_a_member_ends_the_attempt_and_that_of_another_node_does_not(three: Nodes) -> None:
    three.leader.remove(2, GONE)
    three.change()
    failure = AttemptFailure("rank 0: ValueError: x", 1.0)
    assert three.leader.fail(2, failure) is None
    decision = three.leader.fail(1, failure)
    assert decision is not None and decision.end is not None
    assert decision.end.failure is failure and decision.recipients == {0}


def test_a_new_leader_awaits_the_others_and_changes_nothing_without_need(three: Nodes) -> None:
    before = three.leader.membership
    assert before is not None
    later = Nodes(3, 1, before)
    later.states = three.states
    later.tell(1)
    later.leader.remove(0, GONE)
    assert later.leader.decide() is None, "node 2 may come"
    later.tell(2)
    assert later.change().nodes == (1, 2)
    # Without node 2, of which nothing is known, it is one of two.
    alone = Nodes(3, 1, before)
    alone.states = three.states
    alone.tell(1)
    alone.leader.remove(0, GONE)
    alone.now = SUCCESSION_WAIT + 1
    assert alone.change().nodes == (1,)


def test_a_leader_that_has_left_without_its_processes_changes_nothing(three: Nodes) -> None:
    three.tell(0, leaving=True)
    assert three.leader.decide() is None
    three.now += LEAVE_WAIT + 0.1
    before = three.change()
    three.settle(step=2)
    later = Nodes(3, 2, before)
    later.states = {node: three.states[node] for node in (1, 2)}
    later.tell(1)
    later.tell(2)
    later.leader.remove(0, "it left with exit code 75")
    assert later.leader.decide() is None


def test_a_node_that_is_done_is_no_loss(three: Nodes) -> None:
    three.leader.remove(1, "it is done", code=exit_codes.DONE)
    assert three.leader.decide() is None
    # Another one is lost before it has done its last part: the rest ends the run, however few they are.
    three.leader.remove(2, GONE)
    assert three.change().nodes == (0,)


def test_nodes_that_an_operator_need_not_run_are_not_waited_for() -> None:
    nodes = Nodes(3, 1)
    nodes.leader = Leader(ElasticRules(3, 1, by_operator=True), lambda: nodes.now)
    nodes.ready(0)
    assert nodes.leader.decide() is None, "the others may be on their way"
    nodes.now = OPERATOR_START_WAIT + 1
    assert nodes.change().nodes == (0,)
    nodes.settle()
    nodes.ready(1, 2)
    assert nodes.change().nodes == (0, 1, 2)
    nodes.settle()
    for node in (1, 2):
        nodes.tell(node, leaving=True)
    assert nodes.leader.decide() is None, "it may be a signal to all"
    nodes.now += LEAVE_WAIT + 0.1
    change = nodes.change()
    assert (change.nodes, change.left, change.lost, change.urgent) == ((0,), (1, 2), (), False)


def test_nodes_beyond_a_number_that_the_batch_can_be_split_over_wait() -> None:
    nodes = Nodes(4, 1)
    rules = ElasticRules(4, 1, by_operator=True, usable=lambda count: count != 3)
    nodes.leader = Leader(rules, lambda: nodes.now)
    nodes.ready(0, 1, 2)
    assert nodes.leader.decide() is None
    nodes.now = OPERATOR_START_WAIT + 1
    assert nodes.change().nodes == (0, 1)
    nodes.settle()
    assert nodes.leader.decide() is None, "node 2 waits"
    nodes.ready(3)
    assert nodes.change().nodes == (0, 1, 2, 3)
    nodes.settle()
    nodes.leader.remove(1, GONE)
    decision = nodes.decide()
    assert decision.membership is not None and decision.membership.nodes == (0, 2)
    assert decision.recipients == {0, 2, 3}, "node 3 stops, and waits"


def test_new_nodes_are_taken_in_together_where_that_starts_all_again() -> None:
    nodes = Nodes(4, 1)
    nodes.leader = Leader(ElasticRules(4, 1, by_operator=True, join_wait=3.0), lambda: nodes.now)
    nodes.ready(0)
    nodes.leader.decide()
    nodes.now = 20.0
    assert nodes.change().nodes == (0,)
    nodes.settle()
    nodes.ready(1)
    assert nodes.leader.decide() is None
    nodes.now += 2
    nodes.ready(2)
    assert nodes.leader.decide() is None
    nodes.now += 1
    assert nodes.change().joined == (1, 2)
