"""The time of day is set while a run trains: nothing counts as a failure, and no restart is lost."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from trainer import exit_codes, report
from trainer.hang import flight_recorder
from trainer.hang.agent import _Collectives
from trainer.hang.heartbeat import RankHeartbeat
from trainer.hang.limits import SAFETY
from trainer.launch import script
from trainer.placement.topology import Topology
from trainer.supervision.supervisor import Supervisor


class Clock:
    """The time of day and the monotonic time, which a test moves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.day, self.passed = 1.8e9, 5000.0
        monkeypatch.setattr(time, "time", lambda: self.day)
        monkeypatch.setattr(time, "monotonic", lambda: self.passed)

    def on(self, seconds: float) -> None:
        self.day, self.passed = self.day + seconds, self.passed + seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


@pytest.fixture
def no_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A supervisor in `tmp_path` that starts nothing."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("trainer.supervision.supervisor.ForkServerClient", lambda _: None)


class Attempts(Supervisor):
    """Attempts that each do `work`, and fail except the last of `count`."""

    def __init__(self, folder: Path, clock: Clock, count: int, jump: float, saves: bool) -> None:
        program = script.parse([
            "--max-restarts", "1", "--checkpoint-dir", str(folder), "--standalone", str(Path(__file__)),
        ])  # fmt: skip
        self._clock, self._count, self._jump, self._saves, self._folder = clock, count, jump, saves, folder
        self.delays: list[tuple[int, float]] = []
        super().__init__(program, Topology("test"))

    def _run_attempt(self, number: int) -> tuple[int, int]:
        self._clock.on(30)
        self._clock.day += self._jump
        if self._saves:
            path = self._folder / f"step-{number}"
            path.write_text("saved")
            os.utime(path, (self._clock.day, self._clock.day))
            step = {"step": number, "at": self._clock.day, "seconds": 1.0}
            Path("progress.json").write_text(json.dumps(step))
        return number, 0 if number + 1 == self._count else 1

    def _delay(self, number: int, failures: int, lasted: float) -> None:
        self.delays.append((failures, lasted))


@pytest.mark.parametrize("jump", [600, -600])
def test_attempts_that_save_are_no_failures_in_a_row(
    tmp_path: Path, clock: Clock, no_processes: None, jump: float
) -> None:
    (tmp_path / "saves").mkdir()
    run = Attempts(tmp_path / "saves", clock, 4, jump, saves=True)
    assert run._run_attempts() == exit_codes.DONE
    assert run.delays == [(0, 30.0)] * 3, "it restarts at once, and says how long the attempt took"


def test_attempts_that_save_nothing_end_although_the_clock_jumps(
    tmp_path: Path, clock: Clock, no_processes: None
) -> None:
    Path("progress.json").write_text(json.dumps({"step": 5, "at": clock.day, "seconds": 1.0}))
    (tmp_path / "saves" / "step-5").mkdir(parents=True)
    run = Attempts(tmp_path / "saves", clock, 4, -600, saves=False)
    assert run._run_attempts() == 1
    assert run.delays == [(1, 30.0)]


@pytest.mark.parametrize("moment", ["as it begins", "while it is pending"])
@pytest.mark.parametrize("jump", [600, -600])
def test_a_slow_collective_is_as_old_as_the_time_that_has_passed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: Clock, jump: float, moment: str
) -> None:
    heartbeat = RankHeartbeat(tmp_path / "heartbeat", create=True)
    begun, began_at, timeout = 1, 0.0, 300.0
    monkeypatch.setattr(flight_recorder, "begun", lambda: (begun, True))
    monkeypatch.setattr(flight_recorder, "oldest_pending", lambda: (began_at, timeout))
    looking = _Collectives(heartbeat)
    for _ in range(3):
        looking.poll()
        begun += 1
        clock.on(1)
    began, began_at = clock.passed, clock.day
    clock.on(0.5)
    if moment == "as it begins":
        clock.day += jump
    looking.poll()
    if moment == "while it is pending":
        clock.on(1)
        clock.day += jump
    for _ in range(3):
        clock.on(1)
        looking.poll()
    since, until = heartbeat.pending
    assert until == pytest.approx(since + timeout)
    # No later than the look that saw it, and never so early that its timeout seems near.
    assert began - 0.01 < since <= began + 0.5
    assert clock.passed < since + SAFETY * timeout


@pytest.mark.parametrize("jump", [600, -600])
def test_a_step_of_a_script_takes_the_time_that_has_passed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: Clock, capfd: Any, jump: float
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(report, "_STEP_FILE", tmp_path / "progress.json")
    monkeypatch.setattr(report, "_last_step_at", None)
    report.step(1, 9)
    clock.on(2)
    clock.day += jump
    report.step(2, 9)
    second = json.loads(capfd.readouterr().out.splitlines()[-1])
    assert second["vxtui"]["step_seconds"] == 2.0
    assert json.loads(Path("progress.json").read_text()) == {"step": 2, "at": clock.day, "seconds": 2.0}
