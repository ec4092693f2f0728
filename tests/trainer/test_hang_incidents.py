"""Which stalls become a report: node 0 with made-up records and times, and its own heartbeats."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import wait_for
from trainer.hang.collect import collect
from trainer.hang.heartbeat import TRAINING, RankHeartbeat
from trainer.hang.incidents import Incidents
from trainer.hang.limits import Limits, Stall
from trainer.hang.node import NodeRanks

ROOT = Path(__file__).parents[2]
FLOOR = 40.0
WAITS = ["/env/site-packages/torch/distributed/distributed_c10d.py", 1, "barrier", ""]
OWN = ["/home/me/train.py", 23, "evaluate", "score(answer)"]


def record(rank: int, frame: list[Any], **more: Any) -> dict[str, Any]:
    thread = {"id": 1, "main": True, "owns_gil": False, "frames": [frame]}
    empty: dict[str, Any] = {"workers": [], "groups": {}, "problem": "", "wait": "", "exit_code": None}
    said = {"rank": rank, "pid": 1, "phase": TRAINING, "step": 7, "threads": [thread], "state": "running"}
    times = {"cpu_seconds": 0.0, "seconds": 1.0, "running": 0.0, "calls": 0, "io_rate": 0.0}
    return {**said, **empty, **times, "answered": True, "seconds_left": 0.0, **more}


class Ranks(NodeRanks):
    """Two ranks of this node without a step for a while."""

    def __init__(self, culprit: Mapping[str, Any]) -> None:
        self.now = 0.0
        self.records = [record(0, OWN, **culprit), record(1, WAITS)]
        self.asked = False

    def stall(self) -> Stall | None:
        return Stall(self.now, 0.3, TRAINING) if self.now >= FLOOR else None

    def moved_at(self) -> float:
        return 0.0

    def step(self) -> int:
        return 7

    def begin_collecting(self) -> None:
        self.asked = True

    def collected(self) -> list[dict[str, Any]] | None:
        asked, self.asked = self.asked, False
        return self.records if asked else None


class Nobody:
    """A rendezvous of one node."""

    def send_about_hang(self, message: dict[str, Any]) -> None: ...

    def received_about_hang(self) -> list[tuple[int, dict[str, Any]]]:
        return []


def reported_after(culprit: Mapping[str, Any], folder: Path, capfd: pytest.CaptureFixture[str]) -> float:
    """Seconds without a step at the first report; infinite without a report within an hour."""
    ranks = Ranks(culprit)
    incidents = Incidents(0, 1, Nobody(), folder, FLOOR, clock=lambda: ranks.now)
    incidents.begin(ranks, 0)
    while ranks.now < 3600:
        ranks.now += 1.0
        incidents.poll()
        said = capfd.readouterr().out
        if said:
            assert json.loads(said)["vxtui"]["ranks"] == [0]
            return ranks.now
    return float("inf")


WORKS: dict[str, dict[str, Any]] = {
    "computes": {"running": 0.8, "calls": 4},
    "in a module": {
        "cpu_seconds": 0.9,
        "threads": [
            {"id": 1, "main": True, "owns_gil": True, "frames": [
                ["/env/site-packages/torch/nn/modules/linear.py", 9, "forward", ""], OWN,
            ]},
        ],
    },
    "reads": {"io_rate": 1e6},
}  # fmt: skip
WAITS_ITSELF: dict[str, dict[str, Any]] = {
    "sleeps": {"running": 0.0, "calls": 0},
    "one function for ever": {"running": 1.0, "calls": 1, "cpu_seconds": 1.0},
    "a few bytes": {"io_rate": 1e4},
}


@pytest.mark.parametrize("what", WAITS_ITSELF)
def test_a_rank_that_does_nothing_is_reported_after_the_floor(
    what: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert FLOOR <= reported_after(WAITS_ITSELF[what], tmp_path, capfd) <= FLOOR + 2


@pytest.mark.parametrize("what", WORKS)
def test_a_rank_that_works_has_three_times_as_long(
    what: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert 3 * FLOOR <= reported_after(WORKS[what], tmp_path, capfd) <= 3 * FLOOR + 4


def test_the_others_wait_for_a_save_as_long_as_its_node_does(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Only rank 0 names the phase: for the others it is a step that does not end."""
    saving = {"phase": "checkpoint", "seconds_left": 300.0}
    assert reported_after(saving, tmp_path, capfd) == float("inf")


def test_a_supervisor_that_was_stopped_reports_nothing(tmp_path: Path) -> None:
    now = 100.0
    ranks = NodeRanks(tmp_path, 0, range(1), Limits(10.0, FLOOR), clock=lambda: now)
    beat = RankHeartbeat(tmp_path / "heartbeat-0-0")
    beat.introduce()
    beat.enter(TRAINING)
    for step in range(1, 8):
        now += 0.5
        beat.tick(step)
        beat._fields.ticked_at = now
        assert ranks.stall() is None
    now += 10_000
    assert ranks.stall() is None
    for _ in range(int(FLOOR) + 1):
        now += 1.0
        found = ranks.stall()
    assert found is not None and found.seconds < FLOOR + 3


CHILDREN = {
    "writes": "while True: file.write(bytes(1 << 20)); file.seek(0); time.sleep(0.05)",
    "sleeps": "time.sleep(1000)",
}


@pytest.mark.parametrize("what", CHILDREN)
def test_what_a_process_does_is_measured(what: str, tmp_path: Path) -> None:
    """The activity of a real process, whose heartbeat the supervisor has."""
    beat = RankHeartbeat(tmp_path / "beat", create=True)
    code = (
        "import sys, time\nfrom pathlib import Path\nfrom trainer.hang.heartbeat import RankHeartbeat\n"
        "RankHeartbeat(Path(sys.argv[1])).introduce()\nfile = open(sys.argv[1] + '.data', 'wb')\n"
    )
    command = [sys.executable, "-c", code + CHILDREN[what], str(beat.path)]
    child = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(ROOT)})
    try:
        wait_for(lambda: beat.pid, "the heartbeat")
        (found,) = collect([beat], [0], {})
        assert (found["io_rate"] > 256 << 10) == (what == "writes")
    finally:
        child.kill()
        child.wait()
