"""The supervisor of a node in an elastic run.

Each node starts its processes, which prepare themselves alone. When they are ready, the node joins the
training nodes. If a process is killed, the others continue without its node for a while.
"""

from __future__ import annotations

import signal
import time
from dataclasses import dataclass, field, replace

from trainer import exit_codes
from trainer.elastic.context import Event, NewMembership, NodeDropped, NodeRefused, RunFinished, StopTogether
from trainer.elastic.node import ElasticNode
from trainer.elastic.protocol import LINK
from trainer.elastic.rank_links import RankLinks
from trainer.elastic.run_end import RunEnd
from trainer.network.addresses import LOOPBACK, free_port
from trainer.supervision.failure import NodeFailures
from trainer.supervision.protocol import Attempt, AttemptEnd
from trainer.supervision.rendezvous import Peers, RendezvousError
from trainer.supervision.supervisor import TICK, Before, Supervisor, environments

_SIGNALLED = 128
"""Threshold of exit codes: higher codes are 128 + the signal that killed the process."""
LEAVE_SHARE = 0.4
"""Fraction of the grace period in which the others continue without a signalled node; afterwards all nodes
stop."""


@dataclass(slots=True)
class _Running:
    """The processes of this node in one attempt."""

    links: RankLinks
    failures: NodeFailures
    count: int
    codes: set[int] = field(default_factory=set)
    end: AttemptEnd | None = None
    killed: bool = False
    deadline: float = float("inf")
    """Time at which the remaining processes are killed."""
    reported: tuple[bool, tuple[int, int], int] = (False, (0, 0), 0)
    """The last values of the links that this node has sent."""
    member: bool = False
    waiting_since: float = field(default_factory=time.monotonic)
    signalled_at: float | None = None
    leaving: bool = False
    """Whether the others continue without this node after the signal."""
    stopping: bool = False
    """Whether the processes received a request to save and stop."""


class ElasticSupervisor(Supervisor):
    """Runs attempts of this node only: each attempt is one start of its processes."""

    _lost_code: int | None = None
    """Exit code of an attempt that ended because this node was lost; None after any other end."""

    def _make_peers(self) -> Peers:
        launch = self._program.launch
        self._node = ElasticNode(self._topology, launch.elastic, launch.peer_timeout)
        self._run_end = RunEnd(self._program.is_done)
        return self._node

    def _made_progress(self, before: Before) -> bool:
        # The completed steps are in the memory of the other nodes.
        if self._lost_code is not None and self._made_steps(before):
            return True
        return super()._made_progress(before)

    def _run_attempt(self, number: int) -> tuple[int, int]:
        self._cause, self._lost_code = None, None
        top = self._topology
        self._report("rendezvous", f"node {top.node_rank} of {top.nodes} prepares its processes", number)
        try:
            count = self._process_count()
        except RuntimeError as error:
            self._report("failed", str(error), number, "ERROR")
            return number, exit_codes.PEER_LOST
        links = RankLinks(self._errors, top.node_rank, count, self._node.begin(count))
        attempt = Attempt(number, LOOPBACK, free_port(), (count,))
        failures = NodeFailures(self._errors, number, top.node_rank, (count,) * top.nodes)
        alone = replace(top, node_rank=0, nodes=1)
        variables = environments(attempt, alone, failures, self._program.launch.max_restarts)
        own = self._program.variables("") | {LINK: str(links.path)}
        self._record(number, time.time())
        self._processes.spawn([own | process for process in variables], LOOPBACK)
        try:
            return number, self._watch_all(number, _Running(links, failures, count))
        finally:
            links.close()

    def _watch_all(self, number: int, run: _Running) -> int:
        """Wait for all processes of this node; return its exit code for the attempt."""
        left = run.count
        while left:
            for local_rank, code in self._processes.ended(TICK):
                left -= 1
                run.codes.add(code)
                if code and not run.killed:
                    self._on_exit(run, local_rank, code)
            self._pass_on(run)
            self._node.poll()
            for event in self._node.events():
                self._on_event(run, event, number)
            self._check_signal(run)
            self._check_timeout(run, number)
            if time.monotonic() > run.deadline:
                run.killed = True
                self._processes.signal(signal.SIGKILL)
        if self._lost_code is not None:
            return self._lost_code
        return self._attempt_code(number, run.codes, run.end, run.failures)

    def _on_exit(self, run: _Running, local_rank: int, code: int) -> None:
        """Handle a process that failed, was killed, or left after a signal."""
        signalled = code > _SIGNALLED and code not in exit_codes.FINAL
        if not signalled or run.failures.has_record(local_rank):
            if run.failures.add(local_rank, code):
                run.deadline = min(run.deadline, self._on_failure(run.failures))
            return
        name = signal.Signals(code - _SIGNALLED).name
        text = f"local rank {local_rank} was killed by {name}: the other nodes train on"
        self._report("failed", text, run.failures.attempt, "ERROR")
        self._lose(run, code)

    def _lose(self, run: _Running, code: int) -> None:
        self._node.lost()
        self._lost_code, run.deadline = code, 0.0

    def _pass_on(self, run: _Running) -> None:
        """Send the reports of this node's processes to the other nodes."""
        links = run.links
        links.poll()
        ready, settled, broken = links.ready, links.settled, links.broken
        was_ready, was_settled, was_broken = run.reported
        if ready and not was_ready:
            self._node.ready(links.data)
            run.waiting_since = time.monotonic()
        if settled != was_settled:
            self._node.settled(*settled)
        if broken != was_broken:
            self._node.broken(broken)
        run.reported = (ready, settled, broken)

    def _on_event(self, run: _Running, event: Event, number: int) -> None:
        match event:
            case NewMembership():
                run.member = self._node.membership is not None
                run.links.tell(event)
            case AttemptEnd():
                run.end, run.deadline = event, 0.0
            case NodeDropped():
                text = f"the other nodes lost this node; this node rejoins them: {event.reason}"
                self._report("failed", text, number, "WARNING")
                self._lose(run, exit_codes.PEER_LOST)
            case StopTogether():
                self._stop(run)
            case NodeRefused():
                raise RendezvousError(event.reason, exit_codes.USAGE)
            case RunFinished():
                self._finish(run, event.code, number)

    def _stop(self, run: _Running) -> None:
        """Save and stop together with all nodes."""
        if not run.stopping:
            run.stopping = True
            run.deadline = min(run.deadline, time.monotonic() + self._shutdown_seconds())
            run.links.stop()
            # Signal processes that still prepare and have no connection yet.
            self._processes.signal(signal.SIGTERM)

    def _check_signal(self, run: _Running) -> None:
        """Leave the run after a signal; stop all nodes if too few would remain."""
        if not self._signal or run.stopping:
            return
        now = time.monotonic()
        if run.signalled_at is None:
            run.signalled_at = now
            run.deadline = min(run.deadline, now + self._shutdown_seconds())
            run.leaving = run.member
            self._node.leaving()
        if not run.leaving or now - run.signalled_at > LEAVE_SHARE * self._program.grace:
            self._stop(run)

    def _finish(self, run: _Running, code: int, number: int) -> None:
        """Handle the end of the run on the other nodes, with this exit code."""
        run.deadline, self._lost_code = 0.0, code
        if code == exit_codes.DONE:
            self._report("stopping", "the run ended without this node", number)

    def _check_timeout(self, run: _Running, number: int) -> None:
        launch, waited = self._program.launch, time.monotonic() - run.waiting_since
        if not run.reported[0] or run.member or run.stopping or self._lost_code is not None:
            return
        if self._node.is_alone and self._run_end.is_over():
            # The other nodes have disconnected already, so no node sends the end of the run to this node.
            self._finish(run, exit_codes.DONE, number)
        elif waited > launch.join_timeout:
            raise RendezvousError(f"{self._node.missing()} within {launch.join_timeout:.0f} s")
