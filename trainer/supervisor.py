"""One supervisor a node: it meets the others, starts one process a device, and starts again when it must.

Each attempt is a fresh one of all nodes, agreed on in `trainer.meeting`; its processes are forked by
`trainer.fork_server`. Neither needs torch here, so that a node that comes back is there at once. The
supervisor is safe as PID 1 behind `trainer.init`.
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

from trainer.checkpoint.manifest import MANIFEST, numbered
from trainer.checkpoint.place import PlaceError, checkpoint_folder, place_of, upload_uri
from trainer.config import Config
from trainer.fork_server import ForkServer
from trainer.goodput import last_step
from trainer.lines import emit
from trainer.meeting import NodesMissing, Over, Plan, ToldToLeave, meeting
from trainer.topology import Topology

PREEMPTED = 75
JOIN_FAILED = 76
"""Exit code when the other nodes never came."""
LOST = 77
"""Exit code of an attempt that was over because of another node, or before its processes ran."""
STOPPED = 143
"""128 + SIGTERM: told to leave before there was a checkpoint to go on from."""
FINAL = frozenset({0, 2, PREEMPTED, STOPPED})
"""Codes after which another attempt would be pointless: done, wrong usage, told to leave."""
TICK = 0.05
LINGER = 3.0
"""Seconds for processes to notice by themselves that another is gone, and to say so."""
LEAVE = 30.0
"""Least seconds that processes have to save and leave once they were told to."""


class Supervisor:
    """Runs attempts until one ends well, the budget is spent, or we are told to leave."""

    def __init__(self, config: Config, topology: Topology, argv: Sequence[str]) -> None:
        self._config, self._topology = config, topology
        self._told = 0
        launch = config.launch
        self._meeting = meeting(topology, launch.join_timeout, launch.peer_timeout, lambda: bool(self._told))
        self._processes = ForkServer(argv)

    def run(self) -> int:
        """The exit code for the container."""
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._note)
        code = 1
        try:
            code = self._attempts()
        finally:
            self._processes.close()
            self._meeting.leave(code)
        return code

    def _attempts(self) -> int:
        attempt, wasted = 0, 0
        while True:
            began, before = time.time(), self._newest()
            try:
                attempt, code = self._attempt(attempt)
            except ToldToLeave:
                return self._left()
            except NodesMissing as error:
                emit("phase", str(error), severity="ERROR", phase="rendezvous", attempt=attempt)
                return JOIN_FAILED
            self._record(attempt, began, code)
            if self._told and code not in FINAL:
                return self._left()
            if code in FINAL:
                return code
            # An attempt that brought a checkpoint was no waste: only those in a row that bring none count.
            wasted = 0 if self._newest() > before else wasted + 1
            if wasted > self._config.launch.max_restarts:
                text = f"giving up after {wasted} attempts without a new checkpoint, exit code {code}"
                self._say("stopping", text, attempt, "ERROR")
                return code
            attempt += 1
            # Against a program that fails at once; one that trained was ended from outside.
            trained = last_step(Path("progress.json")) > began
            self._pause(attempt, 0 if trained else wasted, time.time() - began)
            if self._told:
                return self._left()

    def _pause(self, attempt: int, failed: int, lasted: float) -> None:
        """Longer after each attempt in a row that did not train; a signal ends it."""
        pause = random.uniform(0.5, 1.0) * min(30.0, 0.5 * 2**failed) if failed else 0.0
        text = f"attempt {attempt} in {pause:.1f} s (the last took {lasted:.0f} s)"
        self._say("restarting", text, attempt, "WARNING")
        until = time.monotonic() + pause
        while not self._told and time.monotonic() < until:
            self._meeting.watch()
            time.sleep(TICK)

    def _newest(self) -> int:
        """Step of the newest checkpoint on this node's disk; -1 where there is none."""
        found = numbered(checkpoint_folder(self._config.checkpoint.checkpoint_dir))
        return int(found[0].name[5:]) if found else -1

    def _note(self, number: int, _: object) -> None:
        self._told = number

    def _attempt(self, attempt: int) -> tuple[int, int]:
        """Its number, which all nodes agree on, and how it ended."""
        top = self._topology
        self._say("rendezvous", f"node {top.node_rank} of {top.nodes} waits for the others", attempt)
        try:
            count = self._count()
        except RuntimeError as error:
            self._say("failed", str(error), attempt, "ERROR")
            return attempt, LOST
        plan = self._meeting.next(attempt, count)
        self._record(plan.attempt, time.time())
        # "never" means not from an earlier run; what this run has saved is always gone on from.
        resume = ["--resume=auto"] if plan.attempt else []
        self._processes.spawn(environments(plan, top.node_rank), resume)
        return plan.attempt, self._watch(plan.attempt, count)

    def _count(self) -> int:
        """How many processes this node has."""
        if self._config.launch.nproc or self._config.parallel.device == "cpu":
            return self._config.launch.nproc or 1
        while (found := self._processes.devices(TICK)) is None:
            if self._told:
                raise ToldToLeave
        return max(1, found)

    def _watch(self, attempt: int, count: int) -> int:
        """Until all processes of this node have ended; the code of the first that did not end well."""
        code, over, until, told, well = 0, None, float("inf"), False, True
        while count:
            for _, ended in self._processes.ended(TICK):
                count, well = count - 1, well and ended in FINAL
                if ended and not code and (over is None or well):
                    code = ended
                    until = min(until, self._failed(ended, attempt))
            found = self._meeting.watch()
            if found is not None and over is None and not code:
                over, until = found, min(until, self._over(found, attempt))
            if self._told and not told:
                told, until = True, min(until, time.monotonic() + self._grace())
                self._processes.signal(signal.SIGTERM)
            if time.monotonic() > until:
                self._processes.signal(signal.SIGKILL)
        return code if over is None or well else LOST

    def _failed(self, code: int, attempt: int) -> float:
        """A process of this node did not end well. When the others of it have to be gone."""
        if code in FINAL:
            self._processes.signal(signal.SIGTERM)
            return time.monotonic() + self._grace()
        if not self._told:
            self._meeting.failed(code)
        self._say("failed", f"a process of this node ended with exit code {code}", attempt, "ERROR")
        return time.monotonic() + LINGER

    def _over(self, over: Over, attempt: int) -> float:
        """Another node has ended the attempt. When the processes of this one have to be gone."""
        self._say("failed", over.why, attempt, "ERROR")
        return time.monotonic() + (0 if over.hangs else LINGER)

    def _grace(self) -> float:
        return max(LEAVE, self._config.checkpoint.grace)

    def _left(self) -> int:
        """75 promises a checkpoint to go on from, so it is said only where there is one."""
        saving = self._config.checkpoint
        folder = checkpoint_folder(saving.checkpoint_dir)
        # Whether its bytes are good is found out by the resume; there is no time for that now.
        if any((path / MANIFEST).exists() for path in numbered(folder)):
            return PREEMPTED
        with contextlib.suppress(PlaceError):
            uri = upload_uri(saving.upload_dir, os.environ)
            if uri and place_of(uri).steps():
                return PREEMPTED
        return STOPPED

    def _record(self, attempt: int, began: float, code: int | None = None) -> None:
        """attempt.json beside the work: which attempt runs, since when, and how it ended."""
        about = {
            "attempt": attempt, "node_rank": self._topology.node_rank, "nodes": self._topology.nodes,
            "started": began, "exit_code": code, "ended": None if code is None else time.time(),
            "checkpoint_step": self._newest(),
        }  # fmt: skip
        with contextlib.suppress(OSError):
            Path("attempt.json").write_text(json.dumps(about))

    def _say(self, phase: str, text: str, attempt: int, severity: str = "INFO") -> None:
        fields: dict[str, Any] = {"node_rank": self._topology.node_rank, "nodes": self._topology.nodes}
        emit("phase", text, severity=severity, phase=phase, attempt=attempt, **fields)


def environments(plan: Plan, node: int) -> list[dict[str, str]]:
    """What each process of a node finds out about the attempt from; torchrun's names."""
    first, count = sum(plan.processes[:node]), plan.processes[node]
    common = {
        "MASTER_ADDR": plan.address, "MASTER_PORT": str(plan.port),
        "WORLD_SIZE": str(sum(plan.processes)), "LOCAL_WORLD_SIZE": str(count),
        "GROUP_RANK": str(node), "GROUP_WORLD_SIZE": str(len(plan.processes)),
        "TORCH_NCCL_ASYNC_ERROR_HANDLING": os.environ.get("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"),
    }  # fmt: skip
    return [common | {"RANK": str(first + i), "LOCAL_RANK": str(i)} for i in range(count)]
