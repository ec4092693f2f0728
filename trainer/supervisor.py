"""One supervisor a node: it meets the others, starts one process a device, and starts again when it must.

Each attempt is a fresh static rendezvous of all nodes at node 0's address; max_restarts is 0 inside it, so
that ranks never mix restart counts. The supervisor is safe as PID 1: it forwards SIGTERM and reaps its
own children only through the agent.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import socket
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from trainer.config import Config
from trainer.lines import emit
from trainer.topology import Topology

PREEMPTED = 75
JOIN_FAILED = 76
"""Exit code when the other nodes never came."""


FINAL = frozenset({0, 2, PREEMPTED})
"""Codes after which another attempt would be pointless: done, wrong usage, told to leave."""


class NodesMissing(Exception):
    """The rendezvous did not come about in time; the message says who waits for whom."""


class Supervisor:
    """Runs attempts until one ends well, the budget is spent, or we are told to leave."""

    def __init__(self, config: Config, topology: Topology, argv: Sequence[str]) -> None:
        self._config, self._topology, self._argv = config, topology, list(argv)
        self._told = 0

    def run(self) -> int:
        """The exit code for the container."""
        signal.signal(signal.SIGTERM, self._note)
        attempt = 0
        while True:
            began = time.monotonic()
            try:
                code = self._attempt(attempt)
            except NodesMissing as error:
                emit("phase", str(error), severity="ERROR", phase="rendezvous", attempt=attempt)
                return JOIN_FAILED
            if self._told and code not in FINAL:
                return PREEMPTED
            if code in FINAL:
                return code
            if attempt >= self._config.max_restarts:
                self._say(
                    "stopping", f"giving up after {attempt + 1} attempts, exit code {code}", attempt, "ERROR"
                )
                return code
            attempt += 1
            pause = random.uniform(0.5, 1.0) * min(30.0, 0.5 * 2**attempt)
            lasted = time.monotonic() - began
            self._say(
                "restarting",
                f"attempt {attempt} in {pause:.1f} s (the last took {lasted:.0f} s)",
                attempt,
                "WARNING",
            )
            time.sleep(pause)

    def _note(self, number: int, _: object) -> None:
        self._told = number

    def _attempt(self, attempt: int) -> int:
        from torch.distributed.elastic.multiprocessing.api import SignalException
        from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
        from torch.distributed.launcher.api import LaunchConfig, elastic_launch

        top = self._topology
        self._say(
            "rendezvous", f"node {top.node_rank} of {top.nodes} meets at {top.address}:{top.port}", attempt
        )
        self._wait_for_first_node()
        config = LaunchConfig(
            min_nodes=top.nodes,
            max_nodes=top.nodes,
            nproc_per_node=self._processes(),
            run_id=f"{os.environ.get('CLOUD_ML_JOB_ID', 'local')}",
            rdzv_backend="static",
            rdzv_endpoint=f"{top.address}:{top.port}",
            rdzv_configs={"rank": top.node_rank, "timeout": self._config.join_timeout},
            rdzv_timeout=int(self._config.join_timeout),
            max_restarts=0,
            monitor_interval=0.1,
            start_method="spawn",
        )
        self._record(attempt)
        try:
            elastic_launch(config, sys.executable)("-u", "-m", "trainer.task", *self._argv)
        except ChildFailedError as error:
            code = _exit_code(error)
            if code not in FINAL:
                self._say("failed", f"a process of this node ended with exit code {code}", attempt, "ERROR")
            return code
        except SignalException:
            return PREEMPTED
        except (TimeoutError, RuntimeError, ConnectionError) as error:
            if "imeout" in str(error) or "connect" in str(error).lower():
                raise NodesMissing(self._missing(error)) from error
            raise
        return 0

    def _wait_for_first_node(self) -> None:
        """Node 0 may start later than we do: knock until it answers."""
        top = self._topology
        if top.node_rank == 0:
            return
        deadline = time.monotonic() + self._config.join_timeout
        while time.monotonic() < deadline and not self._told:
            with contextlib.suppress(OSError), socket.create_connection((top.address, top.port), timeout=5):
                return
            time.sleep(0.2)
        if not self._told:
            raise NodesMissing(self._missing(None))

    def _missing(self, error: BaseException | None) -> str:
        top, wait = self._topology, self._config.join_timeout
        if top.node_rank == 0:
            return f"not all {top.nodes} nodes came to {top.address}:{top.port} within {wait:.0f} s: {error}"
        where = f"{top.address}:{top.port}"
        return f"node 0 was not reached at {where} within {wait:.0f} s (this is node {top.node_rank})"

    def _processes(self) -> int:
        if self._config.nproc:
            return self._config.nproc
        import torch

        return max(1, torch.cuda.device_count()) if self._config.device != "cpu" else 1

    def _record(self, attempt: int) -> None:
        """attempt.json beside the work: which attempt runs, and since when."""
        with contextlib.suppress(OSError):
            Path("attempt.json").write_text(json.dumps({"attempt": attempt, "started": time.time()}))

    def _say(self, phase: str, text: str, attempt: int, severity: str = "INFO") -> None:
        fields: dict[str, Any] = {"node_rank": self._topology.node_rank, "nodes": self._topology.nodes}
        emit("phase", text, severity=severity, phase=phase, attempt=attempt, **fields)


def _exit_code(error: Any) -> int:
    """The first failed process's own code; a death by signal is 128 + its number."""
    code = int(error.get_first_failure()[1].exitcode)
    return 128 - code if code < 0 else code
