"""One supervisor a node: it meets the others, starts one process a device, and starts again when it must.

Each attempt is a fresh static rendezvous of all nodes, agreed on in `trainer.meeting`; max_restarts is 0
inside it, so that ranks never mix restart counts. The supervisor is safe as PID 1
behind `trainer.init`: it passes SIGTERM on and reaps its own children only through the agent.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import random
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from trainer.checkpoint.manifest import MANIFEST, numbered
from trainer.checkpoint.place import PlaceError, checkpoint_folder, place_of, upload_uri
from trainer.config import Config
from trainer.lines import emit
from trainer.meeting import Meeting, NodesMissing, ToldToLeave
from trainer.topology import Topology

PREEMPTED = 75
JOIN_FAILED = 76
"""Exit code when the other nodes never came."""
STOPPED = 143
"""128 + SIGTERM: told to leave before there was a checkpoint to go on from."""
LOST = 77
"""Exit code of an attempt that broke before its processes ran."""
MEET = 60.0
"""Seconds for the agents to meet once all nodes have said that they are there."""


FINAL = frozenset({0, 2, PREEMPTED, STOPPED})
"""Codes after which another attempt would be pointless: done, wrong usage, told to leave."""


class Supervisor:
    """Runs attempts until one ends well, the budget is spent, or we are told to leave."""

    def __init__(self, config: Config, topology: Topology, argv: Sequence[str]) -> None:
        self._config, self._topology, self._argv = config, topology, list(argv)
        self._told = 0
        self._meeting = Meeting(topology, config.launch.join_timeout, lambda: bool(self._told))

    def run(self) -> int:
        """The exit code for the container."""
        attempt, wasted = 0, 0
        while True:
            # Again for each attempt: the agent puts handlers of its own in place while it runs.
            signal.signal(signal.SIGTERM, self._note)
            began, before = time.monotonic(), self._newest()
            try:
                code = self._attempt(attempt)
            except ToldToLeave:
                return self._left()
            except NodesMissing as error:
                emit("phase", str(error), severity="ERROR", phase="rendezvous", attempt=attempt)
                return JOIN_FAILED
            signal.signal(signal.SIGTERM, self._note)
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
            self._pause(attempt, wasted, time.monotonic() - began)
            if self._told:
                return self._left()

    def _pause(self, attempt: int, wasted: int, lasted: float) -> None:
        """Longer after each attempt that came to nothing; a signal ends it."""
        pause = random.uniform(0.5, 1.0) * min(30.0, 0.5 * 2**wasted)
        text = f"attempt {attempt} in {pause:.1f} s (the last took {lasted:.0f} s)"
        self._say("restarting", text, attempt, "WARNING")
        until = time.monotonic() + pause
        while not self._told and time.monotonic() < until:
            time.sleep(0.05)

    def _newest(self) -> int:
        """Step of the newest checkpoint on this node's disk; -1 where there is none."""
        found = numbered(checkpoint_folder(self._config.checkpoint.checkpoint_dir))
        return int(found[0].name[5:]) if found else -1

    def _note(self, number: int, _: object) -> None:
        self._told = number

    def _attempt(self, attempt: int) -> int:
        from torch.distributed.elastic.multiprocessing.api import SignalException
        from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
        from torch.distributed.launcher.api import LaunchConfig, elastic_launch

        # The agent writes its own account to standard error, which the cloud would show as errors.
        logging.getLogger("torch.distributed.elastic").setLevel(logging.CRITICAL + 1)
        top = self._topology
        self._say("rendezvous", f"node {top.node_rank} of {top.nodes} waits for the others", attempt)
        address, port = self._meeting.next()
        config = LaunchConfig(
            min_nodes=top.nodes,
            max_nodes=top.nodes,
            nproc_per_node=self._processes(),
            run_id=f"{os.environ.get('CLOUD_ML_JOB_ID', 'local')}",
            rdzv_backend="static",
            rdzv_endpoint=f"{address}:{port}",
            rdzv_configs={"rank": top.node_rank, "timeout": MEET},
            rdzv_timeout=int(MEET),
            max_restarts=0,
            monitor_interval=0.1,
            start_method="spawn",
        )
        self._record(attempt, time.monotonic())
        # "never" means not from an earlier run; what this run has saved is always gone on from.
        resume = ["--resume=auto"] if attempt else []
        try:
            elastic_launch(config, sys.executable)("-u", "-m", "trainer.task", *self._argv, *resume)
        except ChildFailedError as error:
            code = _exit_code(error)
            if code not in FINAL:
                self._say("failed", f"a process of this node ended with exit code {code}", attempt, "ERROR")
            return code
        except SignalException as error:
            self._told = int(error.sigval)
            return self._left()
        except (TimeoutError, RuntimeError, ConnectionError) as error:
            self._say("failed", f"the nodes lost one another while they met: {error}", attempt, "ERROR")
            return LOST
        return 0

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

    def _processes(self) -> int:
        if self._config.launch.nproc:
            return self._config.launch.nproc
        import torch

        return max(1, torch.cuda.device_count()) if self._config.parallel.device != "cpu" else 1

    def _record(self, attempt: int, began: float, code: int | None = None) -> None:
        """attempt.json beside the work: which attempt runs, since when, and how it ended."""
        about = {
            "attempt": attempt, "node_rank": self._topology.node_rank, "nodes": self._topology.nodes,
            "started": time.time() - (time.monotonic() - began), "exit_code": code,
            "ended": None if code is None else time.time(), "checkpoint_step": self._newest(),
        }  # fmt: skip
        with contextlib.suppress(OSError):
            Path("attempt.json").write_text(json.dumps(about))

    def _say(self, phase: str, text: str, attempt: int, severity: str = "INFO") -> None:
        fields: dict[str, Any] = {"node_rank": self._topology.node_rank, "nodes": self._topology.nodes}
        emit("phase", text, severity=severity, phase=phase, attempt=attempt, **fields)


def _exit_code(error: Any) -> int:
    """The first failed process's own code; a death by signal is 128 + its number."""
    code = int(error.get_first_failure()[1].exitcode)
    return 128 - code if code < 0 else code
