"""The supervisor of a node in a job whose operator changes the number of nodes, if processes can't stay.

GPUs, DeepSpeed and scripts keep their process groups. So the processes of all nodes save and end together
when the membership changes, and start again with the new one from what they have saved. The supervisors stay,
and agree on the membership as those of a run whose processes stay (`elastic.supervisor`).
"""

from __future__ import annotations

import signal
import time
from dataclasses import dataclass, field, replace

from trainer import exit_codes
from trainer.elastic.context import Event, MembershipTold, NodeDropped, NodeRefused, RunFinished, StopTogether
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
"""Seconds in which a change of the nodes shows that explains why a script has ended."""
JOIN_WAIT = 3.0
"""Seconds in which further new nodes may come, before all start again for them."""


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
    """Whether they got SIGTERM."""
    deadline: float = float("inf")
    began: float = field(default_factory=time.monotonic)
    settled: bool = False


class RestartingSupervisor(Supervisor):
    """An attempt is a series of memberships, which changes end and errors don't."""

    _led: MembershipTold | None = None
    """The membership to continue with."""
    _over: int | None = None
    """The exit code with which the run has ended for this node."""

    def _make_peers(self) -> Peers:
        launch = self._program.launch
        self._node = ElasticNode(
            self._topology, self._topology.minimum, launch.peer_timeout, usable=self._usable,
            join_wait=JOIN_WAIT,
        )  # fmt: skip
        self._run_end = RunEnd(self._program.is_done)
        return self._node

    def _run_attempt(self, number: int) -> tuple[int, int]:
        self._cause, self._led, self._over, self._stopped_at = None, None, None, time.monotonic()
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
            led = self._await_membership()
            if led is None:
                return number, exit_codes.PEER_LOST if self._over is None else self._over
            number = max(number + 1, led.membership.epoch)
            code = self._train_with(led, number)
        return number, code

    def _usable(self, nodes: int) -> bool:
        return self._program.can_use(nodes * self._count)

    def _check_sizes(self) -> None:
        """Refuse a job that no number of nodes suits."""
        top = self._topology
        if not any(map(self._usable, range(top.minimum, top.nodes + 1))):
            raise UsageError(
                f"--batch can't be split over {self._count} processes on each of {top.minimum} to {top.nodes}"
                " nodes: take a multiple of the processes"
            )

    def _await_imports(self) -> None:
        """The others stop for a new node: they need not wait until it has imported torch."""
        while self._processes.gpu_count(TICK) is None:
            if self._signal:
                raise ShutdownRequested

    def _offer(self) -> None:
        """Tell the others that this node can train."""
        self._node.begin(self._count)
        self._node.ready("")

    def _await_membership(self) -> MembershipTold | None:
        """The next one with this node; None if the attempt or the run is over."""
        deadline = time.monotonic() + self._program.launch.join_timeout
        while True:
            if self._signal:
                raise ShutdownRequested
            if self._led is not None:
                led, self._led = self._led, None
                return led
            self._node.poll()
            for event in self._node.events():
                if isinstance(event, AttemptEnd):
                    self._cause = event.failure
                    return None
                self._on_event(event, None)
            if self._over is None and self._node.is_alone and self._run_end.is_over():
                # The others have gone already: nobody tells this node.
                self._report("stopping", "the run is done, without this node", 0)
                self._over = exit_codes.DONE
            if self._over is not None:
                return None
            if time.monotonic() > deadline and not self._node.is_waited_for:
                seconds = self._program.launch.join_timeout
                raise RendezvousError(f"{self._node.missing()} within {seconds:.0f} s")
            time.sleep(TICK)

    def _train_with(self, led: MembershipTold, number: int) -> int | None:
        """Run this node's processes; their exit code, or None if the membership changes."""
        membership = led.membership
        index = membership.index(self._topology.node_rank)
        counts = tuple(member.processes for member in membership.members)
        failures = NodeFailures(self._errors, number, index, counts, self._final)
        run = _Running(membership, failures, self._program.last_step())
        attempt = Attempt(membership.epoch, led.store_address, membership.store_port, counts, led.own_address)
        place = replace(self._topology, node_rank=index, nodes=len(counts), hosts=())
        variables = environments(attempt, place, run.failures, self._program.launch.max_restarts)
        own = self._program.variables(led.own_address)
        self._record(number, time.time())
        self._processes.spawn([own | each for each in variables])
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
        """A process has failed, or has left; the deadline of the others."""
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
        """Tell the others that these processes train: then the nodes may change."""
        if run.settled:
            return
        step = self._program.last_step()
        # None: it is being written.
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
            case MembershipTold():
                self._led = event if event.membership.index(self._topology.node_rank) >= 0 else None
                if run is not None:
                    # Those that have done no step have nothing to save, and may wait for one that is lost.
                    self._stop(run, at_once=event.membership.urgent or not run.settled)
            case AttemptEnd():
                if run is not None:
                    run.end, run.deadline = event, 0.0
            case NodeDropped():
                self._report("failed", f"this node joins the others again: {event.reason}", 0, "WARNING")
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
        """The processes save and end with those of the other nodes, or just end."""
        run.deadline = min(run.deadline, 0.0 if at_once else time.monotonic() + self._shutdown_seconds())
        if not run.stopping:
            run.stopping = True
            self._processes.signal(signal.SIGTERM)

    def _outcome(self, run: _Running, number: int) -> int | None:
        """The exit code of the attempt after these processes; None to continue with another membership."""
        done = not self._signal and self._is_done(run)
        if self._over is not None:
            return self._over
        if self._signal or run.end is not None or done or not self._may_continue(run):
            return self._attempt_code(number, run.codes, run.end, run.failures)
        run.failures.report(is_cause=False)
        # A signal to another node stops all of them; its supervisor tells who trains on.
        self._settle(run, anyway=True)
        return None

    def _is_done(self, run: _Running) -> bool:
        """Whether the processes have done all steps, rather than ended because the nodes change."""
        if run.codes != {exit_codes.DONE}:
            return False
        if self._program.outcome(exit_codes.DONE, signalled=True) == exit_codes.DONE:
            return True
        # A script exits with 0 after SIGTERM too, which another node may have got.
        self._settle(run, anyway=True)
        until = time.monotonic() + (0 if run.stopping else CHANGE_WAIT)
        while self._led is None and run.end is None and self._over is None and time.monotonic() < until:
            self._node.poll()
            for event in self._node.events():
                self._on_event(event, run)
            time.sleep(TICK)
        return not run.stopping and run.end is None

    @staticmethod
    def _may_continue(run: _Running) -> bool:
        """Whether no error of their own has ended the processes."""
        cause = run.failures.cause
        if cause is None or cause.follower:
            return True
        saved = {exit_codes.PREEMPTED, exit_codes.STOPPED}
        return cause.code in saved or (run.stopping and cause.code != exit_codes.USAGE)
