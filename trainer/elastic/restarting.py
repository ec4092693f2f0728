"""A node's supervisor in a job whose operator changes the number of nodes, with processes that can't regroup.

GPUs, DeepSpeed and scripts keep their process groups. Therefore, when the membership changes, the processes
of all nodes save and end together, and restart with the new membership from their checkpoint. The supervisors
stay, and agree on the membership as in `elastic.supervisor`.
"""

from __future__ import annotations

import signal
import time
from dataclasses import dataclass, field, replace

from trainer import exit_codes
from trainer.elastic.context import Event, NewMembership, NodeDropped, NodeRefused, RunFinished, StopTogether
from trainer.elastic.membership import Membership
from trainer.elastic.node import ElasticNode
from trainer.elastic.run_end import RunEnd
from trainer.errors import UsageError
from trainer.metrics.goodput import RecordedStep
from trainer.supervision.failure import NodeFailures
from trainer.supervision.protocol import Attempt, AttemptEnd
from trainer.supervision.rendezvous import Peers, RendezvousError, ShutdownRequested
from trainer.supervision.supervisor import FAILURE_GRACE, TICK, Supervisor, environments

SETTLED_AFTER = 30.0
"""Seconds after which processes that report no step count as training."""

CHANGE_WAIT = 2.0
"""Seconds to wait for a change of the nodes that explains the end of a script."""
JOIN_WAIT = 3.0
"""Seconds to wait for more new nodes before all processes restart."""


@dataclass(slots=True)
class _Running:
    """The processes of this node with one membership."""

    membership: Membership
    failures: NodeFailures
    before: RecordedStep | None
    codes: set[int] = field(default_factory=set)
    end: AttemptEnd | None = None
    killed: bool = False
    stopping: bool = False
    """Whether the processes got SIGTERM."""
    deadline: float = float("inf")
    began: float = field(default_factory=time.monotonic)
    settled: bool = False


class RestartingSupervisor(Supervisor):
    """Runs an attempt as a series of memberships. A change of nodes does not end an attempt; an error ends
    it."""

    _next: NewMembership | None = None
    """The next membership."""
    _over: int | None = None
    """The exit code of this node after the end of the run."""

    def _make_peers(self) -> Peers:
        launch = self._program.launch
        self._node = ElasticNode(
            self._topology,
            self._topology.minimum,
            launch.peer_timeout,
            usable=self._usable,
            join_wait=JOIN_WAIT,
        )
        self._run_end = RunEnd(self._program.is_done)
        return self._node

    def _run_attempt(self, number: int) -> tuple[int, int]:
        self._cause, self._next, self._over, self._stopped_at = None, None, None, time.monotonic()
        top = self._topology
        text = f"node {top.node_rank} waits for the others ({top.minimum} to {top.nodes} nodes)"
        self._report("rendezvous", text, number)
        try:
            self._count = self._process_count()
            self._check_sizes()
            self._await_imports()
        except RuntimeError as error:
            self._report("failed", str(error), number, "ERROR")
            return number, exit_codes.PEER_LOST
        self._offer()
        code: int | None = None
        while code is None:
            next_membership = self._await_membership()
            if next_membership is None:
                return number, exit_codes.PEER_LOST if self._over is None else self._over
            number = max(number + 1, next_membership.membership.epoch)
            code = self._train_with(next_membership, number)
        return number, code

    def _usable(self, nodes: int) -> bool:
        return self._program.can_use(nodes * self._count)

    def _check_sizes(self) -> None:
        """Refuse a job whose batch can't be split for any allowed number of nodes."""
        top = self._topology
        if not any(map(self._usable, range(top.minimum, top.nodes + 1))):
            raise UsageError(
                f"--batch can't be split over {self._count} processes on each of {top.minimum} to {top.nodes}"
                " nodes: use a multiple of the number of processes"
            )

    def _await_imports(self) -> None:
        """Import torch before joining, because the other nodes stop for a new node and would otherwise wait
        for its imports."""
        while self._processes.gpu_count(TICK) is None:
            if self._signal:
                raise ShutdownRequested

    def _offer(self) -> None:
        """Announce that this node can train."""
        self._node.begin(self._count)
        self._node.ready("")

    def _await_membership(self) -> NewMembership | None:
        """Wait for the next membership with this node; return None if the attempt or the run is over."""
        deadline = time.monotonic() + self._program.launch.join_timeout
        while True:
            if self._signal:
                raise ShutdownRequested
            if self._next is not None:
                event, self._next = self._next, None
                return event
            self._node.poll()
            for news in self._node.events():
                if isinstance(news, AttemptEnd):
                    self._cause = news.failure
                    return None
                self._on_event(news, None)
            if self._over is None and self._node.is_alone and self._run_end.is_over():
                # The other nodes have disconnected already, so no node sends the end of the run to this node.
                self._report("stopping", "the run ended without this node", 0)
                self._over = exit_codes.DONE
            if self._over is not None:
                return None
            if time.monotonic() > deadline and not self._node.is_waited_for:
                seconds = self._program.launch.join_timeout
                raise RendezvousError(f"{self._node.missing()} within {seconds:.0f} s")
            time.sleep(TICK)

    def _train_with(self, event: NewMembership, number: int) -> int | None:
        """Run this node's processes; return their exit code, or None if the membership changes."""
        membership = event.membership
        index = membership.index(self._topology.node_rank)
        counts = tuple(member.processes for member in membership.members)
        failures = NodeFailures(self._errors, number, index, counts, self._final)
        run = _Running(membership, failures, self._program.last_step())
        attempt = Attempt(
            membership.epoch, event.store_address, membership.store_port, counts, event.own_address
        )
        place = replace(self._topology, node_rank=index, nodes=len(counts), hosts=())
        variables = environments(attempt, place, run.failures, self._program.launch.max_restarts)
        own = self._program.variables(event.own_address)
        self._record(number, time.time())
        hosts_store = event.store_address if index == 0 else None
        self._processes.spawn([own | process for process in variables], hosts_store)
        self._watch_all(run, self._count)
        self._stopped_at = time.monotonic()
        return self._outcome(run, number)

    def _watch_all(self, run: _Running, left: int) -> None:
        """Wait for all processes of this node."""
        while left:
            for local_rank, code in self._processes.ended(TICK):
                left -= 1
                run.codes.add(code)
                if code and not run.killed and run.failures.add(local_rank, code):
                    run.deadline = min(run.deadline, self._on_exit(run))
            self._settle(run)
            self._node.poll()
            for event in self._node.events():
                self._on_event(event, run)
            if self._signal and not run.stopping:
                self._node.leaving()
                self._settle(run, anyway=True)
                self._stop(run)
            if time.monotonic() > run.deadline and not run.killed:
                run.killed = True
                self._processes.signal(signal.SIGKILL)

    def _on_exit(self, run: _Running) -> float:
        """Handle a process that failed or left; return the deadline for the remaining processes."""
        cause = run.failures.cause
        assert cause is not None
        if run.stopping or cause.code in self._program.final_codes(signalled=True) - {exit_codes.USAGE}:
            return time.monotonic() + self._shutdown_seconds()
        if cause.follower:
            self._node.broken(run.membership.epoch)
        elif not self._signal:
            self._node.report_failure(cause)
        return time.monotonic() + FAILURE_GRACE

    def _settle(self, run: _Running, *, anyway: bool = False) -> None:
        """Announce that these processes train: from then on the nodes may change."""
        if run.settled:
            return
        step = self._program.last_step()
        # None: the file is being written.
        has_trained = step is not None and step != run.before
        if anyway or has_trained or time.monotonic() - run.began > SETTLED_AFTER:
            run.settled = True
            at = 0 if step is None else step.step
            self._node.settled(run.membership.epoch, at)
            first = run.membership.nodes[0] == self._topology.node_rank
            if first and step is not None and not anyway:
                run.membership.report(at, time.monotonic() - self._stopped_at)

    def _on_event(self, event: Event, run: _Running | None) -> None:
        match event:
            case NewMembership():
                self._next = event if event.membership.index(self._topology.node_rank) >= 0 else None
                if run is not None:
                    # Processes without a completed step have nothing to save, and may wait for a lost
                    # process.
                    self._stop(run, at_once=event.membership.urgent or not run.settled)
            case AttemptEnd():
                if run is not None:
                    run.end, run.deadline = event, 0.0
            case NodeDropped():
                self._report("failed", f"this node rejoins the others: {event.reason}", 0, "WARNING")
                self._offer()
                if run is not None:
                    run.deadline = 0.0
            case StopTogether():
                self._over = exit_codes.PREEMPTED
                if run is not None:
                    self._stop(run)
            case NodeRefused():
                raise RendezvousError(event.reason, exit_codes.USAGE)
            case RunFinished():
                self._over = event.code
                if run is not None:
                    run.deadline = 0.0

    def _stop(self, run: _Running, *, at_once: bool = False) -> None:
        """Stop the processes together with the other nodes' processes, or `at_once` without a save."""
        run.deadline = min(run.deadline, 0.0 if at_once else time.monotonic() + self._shutdown_seconds())
        if not run.stopping:
            run.stopping = True
            self._processes.signal(signal.SIGTERM)

    def _outcome(self, run: _Running, number: int) -> int | None:
        """Return the exit code of the attempt after these processes, or None to continue with another
        membership."""
        done = not self._signal and self._is_done(run)
        if self._over is not None:
            return self._over
        if self._signal or run.end is not None or done or not self._may_continue(run):
            return self._attempt_code(number, run.codes, run.end, run.failures)
        run.failures.report(is_cause=False)
        # A signal to another node stops all nodes; its supervisor decides which nodes continue.
        self._settle(run, anyway=True)
        return None

    def _is_done(self, run: _Running) -> bool:
        """Return whether the processes completed all steps; otherwise they ended because the nodes change."""
        if run.codes != {exit_codes.DONE}:
            return False
        if self._program.outcome(exit_codes.DONE, signalled=True) == exit_codes.DONE:
            return True
        # A script exits with 0 also after SIGTERM, which another node may have received.
        self._settle(run, anyway=True)
        until = time.monotonic() + (0 if run.stopping else CHANGE_WAIT)
        while self._next is None and run.end is None and self._over is None and time.monotonic() < until:
            self._node.poll()
            for event in self._node.events():
                self._on_event(event, run)
            time.sleep(TICK)
        return not run.stopping and run.end is None

    @staticmethod
    def _may_continue(run: _Running) -> bool:
        """Return whether no process ended by its own error."""
        cause = run.failures.cause
        if cause is None or cause.follower:
            return True
        saved = {exit_codes.PREEMPTED, exit_codes.STOPPED}
        return cause.code in saved or (run.stopping and cause.code != exit_codes.USAGE)
