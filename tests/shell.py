"""Runs the real `vxtui` in a home of its own, as a person's shell would."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import psutil

from tests.processes import end, running_in
from tests.warm import VXTUI, WarmPopen
from tui.emulator.client import AdminError, admin_call, stop_server
from tui.emulator.paths import StateDir

T = TypeVar("T")


@dataclass
class Home:
    """A state directory, a config directory and nothing shared with other tests."""

    root: Path

    @property
    def state(self) -> Path:
        return self.root / "s" / "emulator"

    @property
    def env(self) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("VXTUI_", "GOOGLE_", "CLOUDSDK_"))}
        return kept | {
            "VXTUI_STATE_DIR": str(self.root / "s"),
            "XDG_CONFIG_HOME": str(self.root / "c"),
            "XDG_STATE_HOME": str(self.root / "x"),
            "HOME": str(self.root),
            "NO_COLOR": "1",
            "PYTHONWARNINGS": "ignore",
        }

    def popen(self, *args: str, cold: bool = False, **kw: Any) -> subprocess.Popen[str]:
        """Start `vxtui ARGS` with pipes, `cold` from its file."""
        kw.setdefault("stdout", subprocess.PIPE)
        kw.setdefault("stderr", subprocess.PIPE)
        return (subprocess.Popen if cold else WarmPopen)(
            [VXTUI, *args], env=self.env, text=True, stdin=subprocess.DEVNULL, cwd=self.root, **kw
        )

    def run(self, *args: str, timeout: float = 240) -> subprocess.CompletedProcess[str]:
        """Run `vxtui ARGS` to its end."""
        with self.popen(*args) as process:
            try:
                out, err = process.communicate(timeout=timeout)
            except BaseException:
                process.kill()
                raise
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def json(self, *args: str, timeout: float = 240, code: int = 0) -> Any:
        """Run with `--json`, check the exit code and parse what it printed."""
        done = self.run(*args, "--json", timeout=timeout)
        assert done.returncode == code, f"{args}: exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        # The error of a failed job may quote a traceback, within a JSON string.
        assert not re.search(r"^Traceback", done.stdout + done.stderr, re.MULTILINE)
        return json.loads(done.stdout)

    def jobs(self) -> list[dict[str, Any]]:
        return list(self.json("jobs")["jobs"])

    def count(self, state: str) -> int:
        """Jobs in this state, from the emulator itself: a verb each time would take the CPU from the jobs."""
        try:
            answer = admin_call(StateDir(self.state), {"do": "status"})
        except AdminError:
            return 0
        return int(answer["jobs"].get(state, 0))

    def job_ids(self) -> list[str]:
        """Ids of the jobs that have started."""
        return [path.name for path in (self.state / "jobs").glob("*")]

    def processes(self) -> list[psutil.Process]:
        """Processes that have this home in their environment or command line."""
        return running_in(str(self.root))

    def job_processes(self, job_id: str) -> list[psutil.Process]:
        """Processes that carry this job's id in their environment, the runner's children and theirs."""
        found = []
        for process in psutil.process_iter():
            try:
                if process.environ().get("CLOUD_ML_JOB_ID") == job_id:
                    found.append(process)
            except psutil.Error:
                continue
        return found

    def emulator_pid(self) -> int:
        return int(json.loads((self.state / "emulator.json").read_text())["pid"])


@contextmanager
def home() -> Iterator[Home]:
    """A fresh `Home`; at the end its emulator is stopped, and every process of its jobs is killed."""
    place = Home(Path(tempfile.mkdtemp(prefix="vx")))
    (place.root / "c").mkdir()
    try:
        yield place
    finally:
        try:
            stop_server(StateDir(place.state))
            # A runner that is killed last may have started another replica.
            while left := place.processes():
                end(left)
                psutil.wait_procs(left, timeout=1)
        finally:
            shutil.rmtree(place.root, ignore_errors=True)
