"""A job with three interruptions of different kinds: its attempts, its time, and its lost work.

Both machines are preempted, then a training process is killed, then one machine is preempted. The job's own
trainer counts its work too, and verbs that start after the job's end count the same as verbs during the job.
"""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest

from tests.processes import running_in
from tests.shell import Home, home
from tests.waiting import wait_for

STEPS = 160
INTERRUPTIONS = (30, 75, 115)
"""Steps after which the job is interrupted."""


@pytest.fixture
def place() -> Iterator[Home]:
    with home() as found:
        yield found


def kill_a_trainer(place: Home) -> None:
    """Kill the training process with the most memory, as the kernel does."""
    leaves = [process for process in running_in(str(place.root)) if not process.children()]
    max(leaves, key=lambda process: process.memory_info().rss).send_signal(signal.SIGKILL)


# About two minutes: four starts of two torch processes.
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_three_kinds_of_interruptions_are_counted_as_the_trainer_counts_them(place: Home) -> None:
    flags = ("--set", f"steps={STEPS}", "--yes", "--wait")
    silent: Any = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    launched = place.popen("launch", "local-2node-zero2-spot", *flags, **silent)
    job = wait_for(lambda: next(iter(place.jobs()), None), "the job", every=0.5)

    def progress() -> dict[str, Any]:
        return place.json("describe", job["id"])["progress"] or {}

    def interrupt(at: int) -> None:
        wait_for(lambda: (progress().get("step") or 0) >= at, f"step {at}", every=0.5, seconds=240)

    interrupt(INTERRUPTIONS[0])
    place.json("emulator", "fault", "preempt", job["id"])
    interrupt(INTERRUPTIONS[1])
    kill_a_trainer(place)
    interrupt(INTERRUPTIONS[2])
    (listed,) = place.json("jobs")["jobs"]
    assert listed["progress"]["attempt"] == 3
    place.json("emulator", "fault", "preempt", job["id"], "--replica", "workerpool1-0")
    assert launched.wait(400) == 0

    told = place.json("describe", job["id"])
    history = told["history"]
    assert len(history["attempts"]) == 4, history
    wall = _seconds(told["create_time"], told["end_time"])
    assert sum(history["seconds"].values()) == pytest.approx(wall, rel=0.01)
    for attempt in history["attempts"]:
        lasted = _seconds(attempt["begin_time"], attempt["end_time"])
        assert sum(attempt["seconds"].values()) == pytest.approx(lasted, rel=0.01, abs=0.01)
    lines = _lines(place, job["id"])
    (own,) = [line["goodput"] for line in lines if line["kind"] == "done"]
    lost = own["badput_time"]["WASTED_PROGRESS_FROM_DISRUPTION"]
    print(f"wall {wall:.2f} s, buckets {history['seconds']}, lost {history['lost_steps']} steps, own {own}")
    assert history["lost_steps"] == _repeated(lines)
    # The trainer multiplies the repeated steps by the duration of the last step, which varies.
    assert history["seconds"].get("lost work", 0.0) == pytest.approx(lost, rel=0.5, abs=1.0)
    resumed = {line["step"] for line in lines if line["kind"] == "resumed"}
    assert {attempt["resumed_from"] for attempt in history["attempts"][1:]} == resumed
    restarts = {replica["id"]: replica["restarts"] for replica in told["replicas"]}
    preemptions = {replica["id"]: replica["preemptions"] for replica in told["replicas"]}
    assert restarts == {"workerpool0-0": 3, "workerpool1-0": 3}
    assert preemptions == {"workerpool0-0": 1, "workerpool1-0": 2}
    # A console that first opens the job now reads the same, from a state directory of its own.
    assert place.json("describe", job["id"])["history"] == history


def _repeated(lines: list[dict[str, Any]]) -> int:
    """The number of reported steps after which the trainer resumed from an earlier step."""
    repeated = last = 0
    for line in lines:
        if line["kind"] == "step":
            last = line["step"]
        elif line["kind"] == "resumed":
            repeated, last = repeated + max(0, last - line["step"]), line["step"]
    return repeated


def _seconds(begin: str, end: str) -> float:
    return (datetime.fromisoformat(end) - datetime.fromisoformat(begin)).total_seconds()


def _lines(place: Home, job_id: str) -> list[dict[str, Any]]:
    entries = [json.loads(line) for line in place.run("logs", job_id, "--json").stdout.splitlines()]
    return [entry["json"]["vxtui"] for entry in entries if entry["json"] and "vxtui" in entry["json"]]
