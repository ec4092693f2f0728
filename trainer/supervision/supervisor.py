"""A node's supervisor: it joins the rendezvous, starts one process per device, and restarts failed attempts.

All nodes start each attempt together (`supervision.rendezvous`). `launch.fork_server` forks the processes.
The supervisor itself never imports torch, so a returning node joins immediately. In a container it is a child
of `launch.container_init`.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainer import exit_codes
from trainer.hang.incidents import Incidents
from trainer.hang.limits import Limits
from trainer.hang.node import NodeRanks
from trainer.metrics.goodput import RecordedStep
from trainer.network.addresses import interface_of
from trainer.placement.topology import Topology
from trainer.structured_log import emit, end_line
from trainer.supervision.failure import ERROR_FILE, TORCH_ERROR_FILE, AttemptFailure, NodeFailures
from trainer.supervision.fork_server_client import ForkServerClient
from trainer.supervision.program import Program
from trainer.supervision.protocol import Attempt, AttemptEnd
from trainer.supervision.rendezvous import (
    JoinTimeout,
    Peers,
    RendezvousError,
    ShutdownRequested,
    make_rendezvous,
)

TICK = 0.05
FAILURE_GRACE = 3.0
"""Seconds in which processes can notice and report the loss of another process."""
MIN_SHUTDOWN = 30.0
"""Minimum time for processes to save and exit after a signal, in seconds."""
CAUSE_SECONDS = 1.0
"""Seconds to wait for the cause from another node, if this node has only consequences."""


@dataclass(frozen=True, slots=True)
class Before:
    """Checkpoints and last step at the start of an attempt, to determine its progress."""

    saves: frozenset[tuple[str, int]]
    step: RecordedStep | None


class Supervisor:
    """Runs attempts until an attempt succeeds, no restart is left, or a signal ends them."""

    def __init__(self, program: Program, topology: Topology) -> None:
        self._program, self._topology = program, topology
        self._signal = 0
        self._hangs: Incidents | None = None
        self._peers = self._make_peers()
        self._processes = ForkServerClient(program.arguments())
        self._cause: AttemptFailure | None = None
        """The cause of the last attempt's end."""

    def _make_peers(self) -> Peers:
        timeout = JoinTimeout(self._program.launch.join_timeout, lambda: bool(self._signal))
        self._rendezvous = make_rendezvous(self._topology, timeout, self._program.launch.peer_timeout)
        self._hangs = Incidents(
            self._topology.node_rank,
            self._topology.nodes,
            self._rendezvous,
            self._program.hang_folder,
            self._program.launch.hang_floor,
        )
        return self._rendezvous

    def run(self) -> int:
        """Run the attempts; return the container's exit code."""
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._on_signal)
        signal.signal(signal.SIGUSR1, self._on_report_request)
        code = 1
        with tempfile.TemporaryDirectory(prefix="trainer-errors-", ignore_cleanup_errors=True) as errors:
            self._errors = Path(errors)
            self._program.open(self._topology)
            try:
                code = self._run_attempts()
            finally:
                self._processes.close()
                self._program.close()
                self._peers.leave(code)
        return code

    def _run_attempts(self) -> int:
        number, without_progress = 0, 0
        while True:
            began, began_at = time.time(), time.monotonic()
            before = Before(self._program.saves(), self._program.last_step())
            try:
                number, code = self._run_attempt(number)
            except ShutdownRequested:
                return self._stopped_code()
            except RendezvousError as error:
                emit("phase", str(error), severity="ERROR", phase="rendezvous", attempt=number)
                return error.code
            code = self._program.outcome(code, signalled=bool(self._signal))
            self._record(number, began, code)
            if self._signal and code not in self._final():
                return self._stopped_code()
            if code in self._final():
                return code
            # Only consecutive attempts without a new checkpoint count against --max-restarts.
            without_progress = 0 if self._made_progress(before) else without_progress + 1
            if without_progress > self._program.launch.max_restarts:
                count = f"{without_progress} attempt{'s' if without_progress > 1 else ''}"
                text = f"giving up after {count} without a new checkpoint, exit code {code}"
                if self._cause is not None:
                    text += f": {self._cause.message}"
                self._report("stopping", text, number, "ERROR")
                return code
            number += 1
            # The delay is for a program that fails immediately, and for a disk without space for a
            # checkpoint; otherwise the attempt trained.
            trained = self._made_steps(before) and code != exit_codes.SAVE_FAILED
            self._delay(number, 0 if trained else without_progress, time.monotonic() - began_at)
            if self._signal:
                return self._stopped_code()

    def _made_progress(self, before: Before) -> bool:
        """Return whether the attempt completed a new checkpoint."""
        return not self._program.saves() <= before.saves

    def _made_steps(self, before: Before) -> bool:
        """Return whether the attempt completed a step."""
        return self._program.last_step() not in {None, before.step}

    def _delay(self, number: int, failures: int, lasted: float) -> None:
        """Wait longer after each consecutive attempt without a step; a signal ends the wait."""
        seconds = random.uniform(0.5, 1.0) * min(30.0, 0.5 * 2**failures) if failures else 0.0
        text = f"attempt {number} in {seconds:.1f} s (the previous one took {lasted:.0f} s)"
        self._report("restarting", text, number, "WARNING")
        until = time.monotonic() + seconds
        while not self._signal and time.monotonic() < until:
            self._peers.poll()
            time.sleep(TICK)

    def _on_signal(self, number: int, _: object) -> None:
        self._signal = number

    def _on_report_request(self, number: int, _: object) -> None:
        """Report the state of the ranks, on SIGUSR1."""
        if self._hangs is not None:
            self._hangs.ask()

    def _run_attempt(self, number: int) -> tuple[int, int]:
        """Run an attempt; return its number, which is the same on all nodes, and its exit code."""
        top, self._cause = self._topology, None
        self._report("rendezvous", f"node {top.node_rank} of {top.nodes} waits for the others", number)
        try:
            count = self._process_count()
        except RuntimeError as error:
            self._report("failed", str(error), number, "ERROR")
            return number, exit_codes.PEER_LOST
        attempt = self._rendezvous.join(number, count)
        self._record(attempt.number, time.time())
        failures = NodeFailures(self._errors, attempt.number, top.node_rank, attempt.processes, self._final)
        variables = environments(attempt, top, failures, self._program.launch.max_restarts)
        launch, first = self._program.launch, sum(attempt.processes[: top.node_rank])
        limits = Limits(launch.hang_factor, launch.hang_floor)
        self._ranks = NodeRanks(self._errors, attempt.number, range(first, first + count), limits)
        common = self._program.variables(attempt.own_address)
        self._processes.spawn(
            [common | own | self._ranks.variables(local) for local, own in enumerate(variables)],
            attempt.store_address,
        )
        if self._hangs is not None:
            self._hangs.begin(self._ranks, attempt.number)
        return attempt.number, self._watch(attempt.number, count, failures)

    def _process_count(self) -> int:
        """Return the number of processes of this node."""
        processes = self._program.launch.nproc or self._topology.processes
        if processes or not self._program.uses_gpus:
            return processes or 1
        while (gpus := self._processes.gpu_count(TICK)) is None:
            if self._signal:
                raise ShutdownRequested
        return max(1, gpus)

    def _watch(self, number: int, running: int, failures: NodeFailures) -> int:
        """Wait for all processes of this node; return the node's exit code for the attempt."""
        end: AttemptEnd | None = None
        ended_at, deadline, forwarded, killed = float("inf"), float("inf"), False, False
        codes: set[int] = set()
        while running:
            for local_rank, code in self._processes.ended(TICK):
                running -= 1
                codes.add(code)
                self._ranks.codes[local_rank] = code
                # Processes that this supervisor kills are not a cause.
                if code and not killed and failures.add(local_rank, code, ended_at):
                    deadline = min(deadline, self._on_failure(failures))
            reported = self._peers.poll()
            if reported is not None and reported != end:
                if end is None:
                    ended_at, deadline = time.time(), min(deadline, self._on_attempt_end(reported))
                end = reported
            if running and not killed and not self._signal and self._hangs is not None:
                self._hangs.poll()
            if self._signal and not forwarded:
                forwarded, deadline = True, min(deadline, time.monotonic() + self._shutdown_seconds())
                self._processes.signal(signal.SIGTERM)
            if time.monotonic() > deadline:
                killed = True
                self._processes.signal(signal.SIGKILL)
        return self._attempt_code(number, codes, self._wait_for_cause(end, failures), failures)

    def _wait_for_cause(self, end: AttemptEnd | None, failures: NodeFailures) -> AttemptEnd | None:
        """Wait for another node's end, which arrives later than the broken connections between processes."""
        until = time.monotonic() + CAUSE_SECONDS
        while self._topology.nodes > 1 and time.monotonic() < until and not self._signal:
            other = None if end is None else end.failure
            known = [failure for failure in (failures.cause, other) if failure is not None]
            if not known or not all(failure.follower for failure in known):
                break
            time.sleep(TICK)
            end = self._peers.poll() or end
        return end

    def _attempt_code(
        self, number: int, codes: set[int], end: AttemptEnd | None, failures: NodeFailures
    ) -> int:
        """Report the cause of the attempt's end; return the node's exit code for the attempt."""
        own, other = failures.cause, None if end is None else end.failure
        self._cause = other if other is not None and other.precedes(own) else own
        if own is not None and self._program.prints_text:
            end_line()
        failures.report(is_cause=self._cause is own)
        all_refuse = own is not None and own.code in self._final()
        if other is not None and self._cause is other and not all_refuse:
            self._report("failed", other.message, number, "ERROR")
        if self._cause is not None and self._cause.code == exit_codes.USAGE:
            return exit_codes.USAGE
        if self._cause is own or codes <= self._final():
            # Processes may also have failed without a cause: this supervisor kills processes that do not end
            # in time.
            return max(codes) if own is None else own.code
        return exit_codes.PEER_LOST

    def _on_failure(self, failures: NodeFailures) -> float:
        """Handle a failed process of this node; return the deadline of its other processes."""
        cause = failures.cause
        assert cause is not None
        if failures.others_finish(cause.code):
            self._processes.signal(signal.SIGTERM)
            return time.monotonic() + self._shutdown_seconds()
        if not self._signal:
            self._peers.report_failure(cause)
        return time.monotonic() + FAILURE_GRACE

    @staticmethod
    def _on_attempt_end(end: AttemptEnd) -> float:
        """Handle an end caused by another node; return the deadline of this node's processes."""
        return time.monotonic() + (0 if end.hangs else FAILURE_GRACE)

    def _shutdown_seconds(self) -> float:
        return max(MIN_SHUTDOWN, self._program.grace)

    def _final(self) -> frozenset[int]:
        """Return the exit codes after which another attempt is pointless."""
        return self._program.final_codes(signalled=bool(self._signal))

    def _stopped_code(self) -> int:
        """Return the exit code after a signal: 75 promises a checkpoint, so there must be one."""
        return exit_codes.PREEMPTED if self._program.has_checkpoint() else exit_codes.STOPPED

    def _record(self, number: int, began: float, code: int | None = None) -> None:
        """Write the attempt's number, start and exit code to attempt.json in the working directory."""
        record = {
            "attempt": number,
            "node_rank": self._topology.node_rank,
            "nodes": self._topology.nodes,
            "started": began,
            "exit_code": code,
            "ended": None if code is None else time.time(),
            "checkpoint_step": self._program.newest_step(),
        }
        with contextlib.suppress(OSError):
            Path("attempt.json").write_text(json.dumps(record))

    def _report(self, phase: str, text: str, number: int, severity: str = "INFO") -> None:
        fields: dict[str, Any] = {"node_rank": self._topology.node_rank, "nodes": self._topology.nodes}
        emit("phase", text, severity=severity, phase=phase, attempt=number, **fields)


def environments(
    attempt: Attempt, topology: Topology, failures: NodeFailures, max_restarts: int
) -> list[dict[str, str]]:
    """Return the variables of each process of a node, with the same names as in torchrun."""
    node = topology.node_rank
    first, count, world = sum(attempt.processes[:node]), attempt.processes[node], str(sum(attempt.processes))
    common = {
        "MASTER_ADDR": attempt.address,
        "MASTER_PORT": str(attempt.port),
        "WORLD_SIZE": world,
        "LOCAL_WORLD_SIZE": str(count),
        "ROLE_WORLD_SIZE": world,
        "ROLE_NAME": "default",
        "GROUP_RANK": str(node),
        "GROUP_WORLD_SIZE": str(len(attempt.processes)),
        "TORCHELASTIC_RUN_ID": topology.job or "none",
        "TORCHELASTIC_USE_AGENT_STORE": "True",
        "TORCHELASTIC_RESTART_COUNT": str(attempt.number),
        "TORCHELASTIC_MAX_RESTARTS": str(max_restarts),
        "TORCH_NCCL_ASYNC_ERROR_HANDLING": os.environ.get("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"),
    }
    interface = interface_of(attempt.own_address)
    if interface and "GLOO_SOCKET_IFNAME" not in os.environ:
        # Otherwise gloo uses the address of this machine's own name, which may be the loopback address.
        common["GLOO_SOCKET_IFNAME"] = interface
    return [
        common
        | {"RANK": str(first + i), "LOCAL_RANK": str(i), "ROLE_RANK": str(first + i)}
        | dict.fromkeys((ERROR_FILE, TORCH_ERROR_FILE), str(failures.file(i)))
        for i in range(count)
    ]
