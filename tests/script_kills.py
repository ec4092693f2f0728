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

from tests.processes import asked, lives
from tests.shell import Home, home
from tests.waiting import wait_for
from tui.emulator.runner.process_owners import REPLICA_VARIABLE

PROFILE = "local-2node-own-script"
WHAT = ("rank", "supervisor", "node")
REPLICAS = ("workerpool1-0", "workerpool0-0")


@dataclass(frozen=True)
class Restart:
    """Of one kill: seconds to the next step, steps done twice, and processes that survived it.

    `parts` are the seconds of a node's kill by what they were for.
    """

    what: str
    seconds: float
    lost_steps: int
    orphans: int
    parts: dict[str, float]


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
        begins, old, supervisors = len(self.begins()), self.processes("rank"), self.processes("supervisor")
        victims = [] if what == "node" else self.processes(what, replica)
        began, marks = time.time(), {}
        if what == "node":
            self.place.json("emulator", "fault", "preempt", self.id, "--replica", replica)
            wait_for(lambda: not any(map(lives, [*supervisors, *old])), "the end of its processes")
            marks["the verb, and the end of all processes"] = time.time()
            marks["the emulator's restart of both nodes"] = self._begin_of_new("supervisor")
            marks["imports on both nodes, up to the fork of the ranks"] = self._begin_of_new("rank")
        else:
            (victim,) = victims
            victim.kill()
        wait_for(lambda: len(self.begins()) > begins and self.step() > 0, f"steps after a {what}'s end", 240)
        marks["the script's start, load and first step"] = time.time()
        times = [began, *marks.values()]
        parts = {name: end - begin for name, begin, end in zip(marks, times[:-1], times[1:], strict=True)}
        orphans = [process for process in old if lives(process)]
        return Restart(what, times[-1] - began, self._lost_steps(), len(orphans), parts)

    def _begin_of_new(self, what: str) -> float:
        """When the last of both nodes' processes began, in seconds since the epoch."""
        found: list[psutil.Process] = []

        def all_are_there() -> bool:
            found[:] = self.processes(what)
            return len(found) == len(REPLICAS)

        wait_for(all_are_there, f"a {what} on each node", 240, every=0.2)
        return max(process.create_time() for process in found)

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
