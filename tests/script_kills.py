"""Kills in a job of the emulator whose replicas run somebody's script below `trainer.launch`."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psutil

from tests.processes import asked
from tests.shell import Home, home
from tests.waiting import wait_for
from tui.emulator.runner.process_owners import REPLICA_VARIABLE

PROFILE = "local-2node-own-script"
WHAT = ("rank", "supervisor", "node")
REPLICAS = ("workerpool1-0", "workerpool0-0")


@dataclass(frozen=True)
class Restart:
    """Of one kill: seconds to the next step, steps done twice, and processes that survived it."""

    what: str
    seconds: float
    lost_steps: int
    orphans: int


@dataclass
class ScriptJob:
    """The job, and what its script has printed."""

    place: Home
    id: str

    def printed(self) -> str:
        files = sorted((self.place.state / "jobs" / self.id).glob("attempt-*/workerpool0-0.stdout"))
        return "".join(path.read_text(errors="replace") for path in files)

    def begins(self) -> list[int]:
        return [int(step) for step in re.findall(r"^2 processes begin at step (\d+)$", self.printed(), re.M)]

    def step(self) -> int:
        """The last step since the last start; -1 before it."""
        since = self.printed().rpartition("processes begin at step")[2]
        steps = re.findall(r"^step (\d+)/", since, re.M)
        return int(steps[-1]) if steps else -1

    def processes(self, what: str, replica: str = "") -> list[psutil.Process]:
        """Ranks, or supervisors, of all replicas or of one."""
        return [
            process
            for process in self.place.job_processes(self.id)
            if asked(lambda p=process: _is(p, what, replica), False)
        ]

    def kill(self, what: str, replica: str) -> Restart:
        """Kill, wait for the next step after it, and look who is left."""
        begins, old = len(self.begins()), self.processes("rank")
        victims = [] if what == "node" else self.processes(what, replica)
        began = time.monotonic()
        if what == "node":
            self.place.json("emulator", "fault", "preempt", self.id, "--replica", replica)
        else:
            (victim,) = victims
            victim.kill()
        wait_for(lambda: len(self.begins()) > begins and self.step() > 0, f"steps after a {what}'s end", 240)
        seconds = time.monotonic() - began
        orphans = [p for p in old if p.is_running() and asked(p.status, "") != psutil.STATUS_ZOMBIE]
        return Restart(what, seconds, self._lost_steps(), len(orphans))

    def _lost_steps(self) -> int:
        """Steps before the last start that are done again after it."""
        before = self.printed().rpartition(" processes begin at step ")[0]
        return int(re.findall(r"^step (\d+)/", before, re.M)[-1]) - self.begins()[-1]

    def progress(self) -> dict[str, Any]:
        """What `vxtui describe --json` says."""
        return dict(self.place.json("describe", self.id)["progress"] or {})


def _is(process: psutil.Process, what: str, replica: str) -> bool:
    if replica and process.environ().get(REPLICA_VARIABLE) != replica:
        return False
    if what == "rank":
        return process.name().startswith("train-rank-")
    parent = process.parent()
    command = process.cmdline()
    return "trainer.launch" in command and parent is not None and parent.cmdline() == command


@contextmanager
def script_job() -> Iterator[ScriptJob]:
    """The profile's job, that would go on for hours; its machines go without notice."""
    with home() as place:
        place.state.mkdir(parents=True)
        (place.state / "config.yaml").write_text("grace_seconds: 0\n")
        done = place.run("launch", PROFILE, "--set", "steps=1000000", "--yes", "--json")
        assert done.returncode == 0, done.stderr
        job = ScriptJob(place, json.loads(done.stdout)["id"])
        wait_for(lambda: job.step() > 10, "the first checkpoint", 240)
        yield job
