"""The leader's decisions: the nodes that train together, derived from the state that each node reports.

The leader is one of the nodes and reports its own state like the other nodes. The leader need not train,
because it may have lost its processes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass

from trainer import exit_codes
from trainer.elastic.membership import Member, Membership, may_train
from trainer.elastic.protocol import SHARDS, NodeState
from trainer.supervision.failure import AttemptFailure
from trainer.supervision.protocol import AttemptEnd

START_WAIT = 30.0
"""Seconds to wait for missing nodes when enough nodes are ready."""
OPERATOR_START_WAIT = 10.0
"""`START_WAIT` if an operator sets the number of nodes, because some nodes may not exist and others join
later."""
SUCCESSION_WAIT = 3.0
"""Seconds in which the other nodes connect to a new leader."""
LEAVE_WAIT = 0.5
"""Seconds in which SIGTERM reaches the other nodes when the entire job is stopped."""
BROKEN_WAIT = 2.0
"""Seconds to wait for the loss of a node that explains broken connections between processes."""
MAX_WITHOUT_STEP = 10
"""Maximum number of consecutive memberships that end by a loss without a completed step; then all nodes
restart."""


@dataclass(frozen=True, slots=True)
class ElasticRules:
    """Rules of an elastic run. `nodes` is the size of the job, and `minimum` is the smallest number of nodes
    that may train.

    With `by_operator`, an operator sets the number of nodes, and never runs two nodes of the same rank.
    Therefore, a node that was never reached may not exist, and can't be training behind a network partition.
    """

    nodes: int
    minimum: int
    by_operator: bool = False
    usable: Callable[[int], bool] = lambda _: True
    """Whether this number of nodes can train, e.g. because it divides the batch. Surplus nodes wait."""
    join_wait: float = 0.0
    """Seconds to wait for further nodes before a membership admits new nodes."""

    @property
    def start_wait(self) -> float:
        """Seconds to wait for missing nodes."""
        return OPERATOR_START_WAIT if self.by_operator else START_WAIT

    def most(self, nodes: int) -> int:
        """Return the largest usable number of nodes up to `nodes`, or 0 if there is none."""
        return next((count for count in range(nodes, 0, -1) if self.usable(count)), 0)


@dataclass(frozen=True, slots=True)
class Decision:
    """A message to the `recipients`: a new membership, the end of the attempt, or a request to save and
    stop."""

    recipients: frozenset[int]
    membership: Membership | None = None
    end: AttemptEnd | None = None
    stop: bool = False
    refused: str = ""


class Leader:
    """The leader's view of the connected nodes. `decide` returns the next change."""

    def __init__(
        self,
        rules: ElasticRules,
        clock: Callable[[], float] = time.monotonic,
        before: Membership | None = None,
    ) -> None:
        """`before` is the membership that lost the last leader; its members have some time to connect."""
        self._rules, self._clock = rules, clock
        self.membership = before
        self.epoch = before.epoch if before is not None else 0
        """The highest epoch that any node reports."""
        self.states: dict[int, NodeState] = {}
        """States of the connected nodes."""
        self.addresses: dict[int, tuple[str, int]] = {}
        """The listening address of each node that ever connected."""
        self._silent: set[int] = set()
        self._unknown = set() if before is not None or rules.by_operator else set(range(rules.nodes))
        """Nodes from which this leader has received no message since the run began."""
        self._expected = set(range(rules.nodes))
        """Nodes to wait for before the first membership of an attempt."""
        self._awaited_until = clock() + SUCCESSION_WAIT if before is not None else 0.0
        self._enough_since: float | None = None
        self._leaving_since: float | None = None
        self._broken_since: float | None = None
        self._joining_since: float | None = None
        self._last_step, self._without_step = -1, 0
        self._done: set[int] = set()
        """Nodes that left with exit code 0."""
        self._reasons: dict[int, str] = {}
        self._stopped = False
        self._ended: dict[int, int] = {}
        """The start (`spawn`) of processes whose attempt ended, by node."""

    def update(self, state: NodeState, address: str) -> None:
        """Store the state that a connected node reports; `address` is the node's address for the others."""
        node = state.node
        self.states[node], self.addresses[node] = state, (address, state.port)
        self._silent.discard(node)
        self._unknown.discard(node)
        self.epoch = max(self.epoch, state.epoch)
        if state.settled == self.epoch and state.step > self._last_step:
            self._last_step, self._without_step = state.step, 0

    def remove(self, node: int, reason: str, *, silent: bool = False, code: int | None = None) -> None:
        """Remove a node that left with an exit code, closed its connection, or is silent."""
        self.states.pop(node, None)
        self._reasons[node] = reason
        if silent:
            self._silent.add(node)
        if code == exit_codes.DONE:
            self._done.add(node)

    def fail(self, node: int, failure: AttemptFailure) -> Decision | None:
        """End the attempt of all members: a process of the node failed by its own error."""
        if self.membership is None or node not in self.membership.nodes:
            return None
        return self._end(AttemptEnd(failure), except_node=node)

    def missing(self) -> str:
        """Return the nodes that did not join, as a clause of a message."""
        names = [str(node) for node in sorted(self._expected) if not self._is_ready(node)]
        return (
            f"node {names[0]} did not join" if len(names) == 1 else f"nodes {', '.join(names)} did not join"
        )

    def decide(self) -> Decision | None:
        """Return the next change, or None if there is none."""
        return self._form() if self.membership is None else self._change(self.membership)

    def _is_ready(self, node: int) -> bool:
        state = self.states.get(node)
        if state is None or self._ended.get(node) == state.spawn:
            return False
        return state.ready and not state.leaving

    def _form(self) -> Decision | None:
        """Form the first membership of an attempt: all nodes, or after a while enough of them."""
        ready = {node for node in self.states if self._is_ready(node)}
        if not may_train(ready, self._rules.minimum, self._silent - ready, self._unknown - ready):
            self._enough_since = None
            return None
        if self._enough_since is None:
            self._enough_since = self._clock()
        if not self._expected <= ready and self._clock() - self._enough_since < self._rules.start_wait:
            return None
        nodes = sorted(ready)[: self._rules.most(len(ready))]
        return self._new(nodes, joined=tuple(nodes)) if len(nodes) >= self._rules.minimum else None

    def _change(self, now: Membership) -> Decision | None:
        intact = [member.node for member in now.members if self._is_intact(member)]
        lost = [member.node for member in now.members if member.node not in intact]
        done = [node for node in lost if node in self._done]
        missing = [node for node in lost if node not in self.states and node not in self._reasons]
        if missing and self._clock() < self._awaited_until:
            return None
        self._silent.update(missing)
        ready = [
            node for node in self.states if self._is_ready(node) and (node not in now.nodes or node in lost)
        ]
        if self._done:
            ready = []
        leaving = [node for node in intact if self.states[node].leaving]
        if len(lost) > len(done) or (done and self._is_broken(now)):
            return self._lose(now, [node for node in intact if node not in leaving] or intact, lost, ready)
        if leaving:
            return self._leave(now, intact, leaving)
        if self._is_broken(now):
            return self._lose(now, intact, [], ready)
        if refused := self._other_data(now, ready):
            return refused
        joined = sorted(ready)[: self._rules.most(len(intact) + len(ready)) - len(intact)]
        if joined and self._is_settled(now) and self._have_waited(len(intact) + len(joined)):
            return self._new([*intact, *joined], joined=tuple(joined))
        return None

    def _have_waited(self, nodes: int) -> bool:
        """Return whether further nodes had enough time to join."""
        if self._joining_since is None:
            self._joining_since = self._clock()
        waited = self._clock() - self._joining_since
        return nodes == self._rules.nodes or waited >= self._rules.join_wait

    def _is_intact(self, member: Member) -> bool:
        state = self.states.get(member.node)
        return state is not None and state.ready and state.spawn == member.spawn

    def _is_settled(self, now: Membership) -> bool:
        """Return whether all members train with this membership."""
        return all(state.settled == now.epoch for node in now.nodes if (state := self.states.get(node)))

    def _is_broken(self, now: Membership) -> bool:
        """Return whether processes lost their connections, and no node was lost within `BROKEN_WAIT`
        seconds."""
        if not any(self.states[node].broken == now.epoch for node in now.nodes if node in self.states):
            self._broken_since = None
            return False
        if self._broken_since is None:
            self._broken_since = self._clock()
        return self._clock() - self._broken_since > BROKEN_WAIT

    def _other_data(self, now: Membership, ready: list[int]) -> Decision | None:
        """Refuse a node whose data differs from the members' data, and remove it from `ready`."""
        known = {self.states[node].data for node in now.nodes if node in self.states}
        for node in list(ready):
            if known and self.states[node].data not in known:
                ready.remove(node)
                own, _, shards = self.states[node].data.partition(SHARDS)
                why = f"node {node} has other data than the training nodes: all nodes must see the same data"
                if own in {data.partition(SHARDS)[0] for data in known}:
                    why = (
                        f"node {node} has {shards} processes, but the training nodes have a different number"
                    )
                return Decision(frozenset({node}), refused=why)
        return None

    def _lose(self, now: Membership, left: list[int], lost: list[int], ready: list[int]) -> Decision | None:
        silent = self._silent - set(left) - set(ready)
        minimum = 1 if self._done else self._rules.minimum
        why = self._reason_of_loss(lost)
        nodes = [*left, *sorted(ready)]
        nodes, waiting = nodes[: (most := self._rules.most(len(nodes)))], nodes[most:]
        if not left or not may_train(nodes, minimum, silent):
            count = f"{len(left)} node{'s are' if len(left) != 1 else ' is'} left"
            needed = f", and --elastic {self._rules.minimum} needs more" if len(left) < minimum else ""
            return self._end(AttemptEnd(_failure(f"{why}; {count}{needed}"), hangs=True))
        self._without_step += 1
        if self._without_step > MAX_WITHOUT_STEP:
            text = f"{why}; nodes were lost {self._without_step} times since the last completed step"
            return self._end(AttemptEnd(_failure(text), hangs=True))
        joined = tuple(node for node in nodes if node in ready)
        return self._new(nodes, urgent=True, lost=tuple(lost), joined=joined, also_tell=waiting)

    def _reason_of_loss(self, lost: list[int]) -> str:
        if not lost:
            return "the connections between the processes broke"
        return ", ".join(self._reasons.get(node) or f"node {node} has lost its processes" for node in lost)

    def _leave(self, now: Membership, intact: list[int], leaving: list[int]) -> Decision | None:
        """Let nodes with a signal leave after the current step; stop all nodes if too few would remain."""
        if self._leaving_since is None:
            self._leaving_since = self._clock()
        if self._stopped or self._clock() - self._leaving_since < LEAVE_WAIT or not self._is_settled(now):
            return None
        left = [node for node in intact if node not in leaving]
        most = self._rules.most(len(left))
        if may_train(left[:most], self._rules.minimum):
            self._leaving_since = None
            return self._new(left[:most], left=tuple(leaving), also_tell=[*leaving, *left[most:]])
        self._stopped = True
        return Decision(frozenset(now.nodes), stop=True)

    def _new(
        self,
        nodes: list[int],
        *,
        urgent: bool = False,
        lost: tuple[int, ...] = (),
        joined: tuple[int, ...] = (),
        left: tuple[int, ...] = (),
        also_tell: Collection[int] = (),
    ) -> Decision:
        """Train with these nodes, in this order."""
        members = tuple(self._member(node) for node in nodes)
        self.epoch += 1
        port = self.states[nodes[0]].store_port
        self.membership = Membership(self.epoch, members, port, urgent, lost, joined, left)
        self._broken_since, self._enough_since, self._joining_since = None, None, None
        for node in lost:
            self._reasons.pop(node, None)
        return Decision(frozenset([*nodes, *also_tell]), membership=self.membership)

    def _member(self, node: int) -> Member:
        state = self.states[node]
        return Member(node, state.processes, state.spawn, *self.addresses[node])

    def _end(self, end: AttemptEnd, except_node: int = -1) -> Decision:
        assert self.membership is not None
        recipients = frozenset(
            node for node in self.membership.nodes if node in self.states and node != except_node
        )
        # Connected nodes restart together; the others join when they connect.
        self._expected = set(self.states)
        self._ended = {member.node: member.spawn for member in self.membership.members}
        self.membership, self._enough_since, self._leaving_since = None, None, None
        self._without_step = 0
        self._done.clear()
        return Decision(recipients, end=end)


def _failure(text: str) -> AttemptFailure:
    return AttemptFailure(text, time.time(), exit_codes.PEER_LOST)
