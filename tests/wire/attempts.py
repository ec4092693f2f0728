"""Attempts run by a real runner process, without a server."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import psutil

from tests.processes import asked, end, lives
from tests.waiting import LIMIT, wait_for
from tui.emulator.paths import AttemptDir, StateDir
from tui.emulator.runner.plan import AttemptPlan, AttemptStatus, ReplicaPlan
from tui.emulator.runs.runner_handle import LocalRunner

T = TypeVar("T")
FOREVER = "import time; print('up', flush=True); time.sleep(600)"


@dataclass
class Attempt:
    """One attempt in a directory of its own; `run` starts it with one replica for each given command."""

    state: StateDir
    home: AttemptDir
    runner: LocalRunner = field(default_factory=LocalRunner)

    def replica(self, index: int, argv: Sequence[str], env: dict[str, str] | None = None) -> ReplicaPlan:
        name = f"workerpool{min(index, 1)}-{max(0, index - 1)}"
        own = {"PATH": "/usr/bin:/bin", "NAME": name, **(env or {})}
        return ReplicaPlan(name, tuple(argv), own, str(self.home.workdir(name)), primary=index == 0)

    def run(self, *commands: str | Sequence[str], **plan: Any) -> None:
        """A string is Python code."""
        argvs = [[sys.executable, "-c", c] if isinstance(c, str) else c for c in commands]
        replicas = tuple(self.replica(i, argv) for i, argv in enumerate(argvs))
        timing = {"grace": 1.0, "stop_grace": 1.0, "sample_period": 0.2, **plan}
        self.runner.start(self.home, AttemptPlan("1", 1, replicas, **timing))

    def status(self) -> AttemptStatus:
        return self.runner.status(self.home)

    def ended(self, seconds: float = LIMIT) -> AttemptStatus:
        """The status once there is an outcome and the runner has gone."""
        status = wait_for(lambda: s if (s := self.status()).outcome else None, "an outcome", seconds)
        wait_for(lambda: not self.runner.alive(self.home), "the runner to leave")
        return status

    def said(self, text: str, replica: str = "workerpool0-0") -> None:
        """Return when the replica's stdout has `text`."""
        wait_for(lambda: text in self.output(replica), f"{replica} to say {text!r}")

    def output(self, replica: str = "workerpool0-0", stream: str = "stdout") -> str:
        path = self.home.output(replica, stream)
        return path.read_text() if path.exists() else ""

    def codes(self) -> dict[str, int | None]:
        return {r.id: r.exit_code for r in self.status().replicas}

    def command(self, **command: Any) -> None:
        self.runner.command(self.home, command)

    def keeper(self) -> psutil.Process:
        """The runner's own process."""
        return next(p for p in self.processes() if "tui.emulator.runner.attempt" in asked(p.cmdline, []))

    def kill(self) -> None:
        """Kill the runner and the parent that would start the next one."""
        runner = self.keeper()
        parent = runner.parent()
        assert parent is not None and "tui.emulator.runner.reaper" in parent.cmdline()
        parent.kill()
        runner.kill()

    def processes(self) -> list[psutil.Process]:
        """The runner and everything that the replicas started, wherever it has hidden."""
        found = []
        for process in psutil.process_iter():
            try:
                marked = process.environ().get("VXTUI_ATTEMPT") == str(self.home.root)
                if marked or str(self.home.root) in process.cmdline():
                    found.append(process)
            except psutil.Error:
                continue
        return [p for p in found if lives(p)]


@contextmanager
def attempt() -> Iterator[Attempt]:
    """A fresh `Attempt`; what is left of it at the end is killed."""
    root = Path(tempfile.mkdtemp(prefix="vx"))
    state = StateDir(root)
    state.prepare()
    made = Attempt(state, state.attempt("1", 1))
    try:
        yield made
    finally:
        end(made.processes())
        wait_for(lambda: not made.runner.alive(made.home), "the runner to be gone")
        shutil.rmtree(root, ignore_errors=True)
