"""A node's supervisor: it joins the rendezvous, starts one process a device, and restarts on a failure.

All nodes start each attempt together (`launch.rendezvous`); `launch.fork_server` forks its processes. Neither
needs torch here, so that a node that comes back joins at once. In a container the supervisor is a child of
`launch.container_init`.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from trainer import exit_codes
from trainer.checkpoint.locations import checkpoint_folder, open_store, upload_uri
from trainer.checkpoint.manifest import last_save, step_folders, step_of
from trainer.checkpoint.remote_store import RemoteStoreError
from trainer.checkpoint.run_identity import RUN_ID, launch_id
from trainer.config import Config
from trainer.launch.fork_server import ForkServer
from trainer.launch.rendezvous import (
    Attempt,
    AttemptEnd,
    JoinTimeout,
    RendezvousError,
    ShutdownRequested,
    make_rendezvous,
)
from trainer.launch.topology import Topology
from trainer.metrics.goodput import last_step_time
from trainer.structured_log import emit

TICK = 0.05
FAILURE_GRACE = 3.0
"""Seconds in which processes can notice and report that another is lost."""
MIN_SHUTDOWN = 30.0
"""Fewest seconds that processes have to save and exit after a signal."""


class Supervisor:
    """Runs attempts until one succeeds, no restart is left, or a signal ends them."""

    def __init__(self, config: Config, topology: Topology, argv: Sequence[str]) -> None:
        self._config, self._topology = config, topology
        self._signal = 0
        self._run_id = launch_id(os.environ)
        """Of this launch, for its processes: by it a restart finds its own run."""
        self._folder = checkpoint_folder(config.checkpoint.checkpoint_dir)
        timeout = JoinTimeout(config.launch.join_timeout, lambda: bool(self._signal))
        self._rendezvous = make_rendezvous(topology, timeout, config.launch.peer_timeout)
        self._processes = ForkServer(argv)

    def run(self) -> int:
        """Run the attempts; return the container's exit code."""
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._on_signal)
        code = 1
        try:
            code = self._run_attempts()
        finally:
            self._processes.close()
            self._rendezvous.leave(code)
        return code

    def _run_attempts(self) -> int:
        number, without_progress = 0, 0
        while True:
            began, saved_before = time.time(), last_save(self._folder)
            try:
                number, code = self._run_attempt(number)
            except ShutdownRequested:
                return self._stopped_code()
            except RendezvousError as error:
                emit("phase", str(error), severity="ERROR", phase="rendezvous", attempt=number)
                return exit_codes.RENDEZVOUS_FAILED
            self._record(number, began, code)
            if self._signal and code not in exit_codes.FINAL:
                return self._stopped_code()
            if code in exit_codes.FINAL:
                return code
            # Only attempts in a row without a new checkpoint count against --max-restarts.
            without_progress = 0 if last_save(self._folder) > saved_before else without_progress + 1
            if without_progress > self._config.launch.max_restarts:
                text = (
                    f"giving up after {without_progress} attempts without a new checkpoint, exit code {code}"
                )
                self._report("stopping", text, number, "ERROR")
                return code
            number += 1
            # The delay is for a program that fails at once, and for a disk that takes no checkpoint; another
            # cause ended an attempt that trained.
            trained = last_step_time(Path("progress.json")) > began and code != exit_codes.SAVE_FAILED
            self._delay(number, 0 if trained else without_progress, time.time() - began)
            if self._signal:
                return self._stopped_code()

    def _delay(self, number: int, failures: int, lasted: float) -> None:
        """Wait, longer after each attempt in a row that did not train; a signal ends the wait."""
        seconds = random.uniform(0.5, 1.0) * min(30.0, 0.5 * 2**failures) if failures else 0.0
        text = f"attempt {number} in {seconds:.1f} s (the last one took {lasted:.0f} s)"
        self._report("restarting", text, number, "WARNING")
        until = time.monotonic() + seconds
        while not self._signal and time.monotonic() < until:
            self._rendezvous.poll()
            time.sleep(TICK)

    def _newest_step(self) -> int:
        """Highest step of a checkpoint on this node's disk; -1 if there is none."""
        with contextlib.suppress(OSError):
            folders = step_folders(self._folder)
            return step_of(folders[0]) if folders else -1
        return -1

    def _on_signal(self, number: int, _: object) -> None:
        self._signal = number

    def _run_attempt(self, number: int) -> tuple[int, int]:
        """The attempt's number, the same on all nodes, and its exit code."""
        top = self._topology
        self._report("rendezvous", f"node {top.node_rank} of {top.nodes} waits for the others", number)
        try:
            count = self._process_count()
        except RuntimeError as error:
            self._report("failed", str(error), number, "ERROR")
            return number, exit_codes.PEER_LOST
        attempt = self._rendezvous.join(number, count)
        self._record(attempt.number, time.time())
        launch = {RUN_ID: self._run_id}
        self._processes.spawn([launch | own for own in environments(attempt, top.node_rank)])
        return attempt.number, self._watch(attempt.number, count)

    def _process_count(self) -> int:
        """Number of processes of this node."""
        if self._config.launch.nproc or self._config.parallel.device == "cpu":
            return self._config.launch.nproc or 1
        while (gpus := self._processes.gpu_count(TICK)) is None:
            if self._signal:
                raise ShutdownRequested
        return max(1, gpus)

    def _watch(self, number: int, running: int) -> int:
        """Wait for all processes of this node; return the exit code of the first that failed."""
        code, end, deadline, forwarded, all_final = 0, None, float("inf"), False, True
        while running:
            for _, ended in self._processes.ended(TICK):
                running, all_final = running - 1, all_final and ended in exit_codes.FINAL
                if ended and not code and (end is None or all_final):
                    code = ended
                    deadline = min(deadline, self._on_failure(ended, number))
            reported = self._rendezvous.poll()
            if reported is not None and end is None and not code:
                end, deadline = reported, min(deadline, self._on_attempt_end(reported, number))
            if self._signal and not forwarded:
                forwarded, deadline = True, min(deadline, time.monotonic() + self._shutdown_seconds())
                self._processes.signal(signal.SIGTERM)
            if time.monotonic() > deadline:
                self._processes.signal(signal.SIGKILL)
        return code if end is None or all_final else exit_codes.PEER_LOST

    def _on_failure(self, code: int, number: int) -> float:
        """Handle a failed process of this node; return the deadline of the others."""
        if code in exit_codes.FINAL:
            self._processes.signal(signal.SIGTERM)
            return time.monotonic() + self._shutdown_seconds()
        if not self._signal:
            self._rendezvous.report_failure(code)
        self._report("failed", f"a process of this node ended with exit code {code}", number, "ERROR")
        return time.monotonic() + FAILURE_GRACE

    def _on_attempt_end(self, end: AttemptEnd, number: int) -> float:
        """Handle an end by another node; return the deadline of this node's processes."""
        self._report("failed", end.reason, number, "ERROR")
        return time.monotonic() + (0 if end.hangs else FAILURE_GRACE)

    def _shutdown_seconds(self) -> float:
        return max(MIN_SHUTDOWN, self._config.checkpoint.grace)

    def _stopped_code(self) -> int:
        """The exit code after a signal: 75 promises a checkpoint, so there must be one."""
        # The resume checks it for damage; there is no time now.
        if last_save(self._folder):
            return exit_codes.PREEMPTED
        with contextlib.suppress(RemoteStoreError):
            uri = upload_uri(self._config.checkpoint.upload_dir, os.environ)
            if uri and open_store(uri).steps():
                return exit_codes.PREEMPTED
        return exit_codes.STOPPED

    def _record(self, number: int, began: float, code: int | None = None) -> None:
        """Write the attempt's number, start and exit code to attempt.json in the working directory."""
        record = {
            "attempt": number, "node_rank": self._topology.node_rank, "nodes": self._topology.nodes,
            "started": began, "exit_code": code, "ended": None if code is None else time.time(),
            "checkpoint_step": self._newest_step(),
        }  # fmt: skip
        with contextlib.suppress(OSError):
            Path("attempt.json").write_text(json.dumps(record))

    def _report(self, phase: str, text: str, number: int, severity: str = "INFO") -> None:
        fields: dict[str, Any] = {"node_rank": self._topology.node_rank, "nodes": self._topology.nodes}
        emit("phase", text, severity=severity, phase=phase, attempt=number, **fields)


def environments(attempt: Attempt, node: int) -> list[dict[str, str]]:
    """The variables of each process of a node, as torchrun sets them."""
    first, count = sum(attempt.processes[:node]), attempt.processes[node]
    common = {
        "MASTER_ADDR": attempt.address, "MASTER_PORT": str(attempt.port),
        "WORLD_SIZE": str(sum(attempt.processes)), "LOCAL_WORLD_SIZE": str(count),
        "GROUP_RANK": str(node), "GROUP_WORLD_SIZE": str(len(attempt.processes)),
        "TORCH_NCCL_ASYNC_ERROR_HANDLING": os.environ.get("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"),
    }  # fmt: skip
    return [common | {"RANK": str(first + i), "LOCAL_RANK": str(i)} for i in range(count)]
