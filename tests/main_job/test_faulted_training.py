"""Faults of the emulator on a job of two nodes that really trains: it stands still, and goes on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.shell import Home, home
from tests.waiting import wait_for


@pytest.fixture
def place() -> Iterator[Home]:
    with home() as found:
        yield found


@dataclass
class Training:
    """A job of two nodes that trains."""

    place: Home
    job: str

    @classmethod
    def begin(cls, place: Home, steps: int) -> Training:
        """Launch the job, and wait for its fifth step."""
        launched = place.run("launch", "local-2node-zero2", "--set", f"steps={steps}", "--yes", timeout=120)
        assert launched.returncode == 0, launched.stderr
        training = cls(place, place.jobs()[0]["id"])
        wait_for(lambda: training.step >= 5, "step 5", every=0.5, seconds=400)
        return training

    def described(self) -> dict[str, Any]:
        return dict(self.place.json("describe", self.job))

    @property
    def step(self) -> int:
        return int((self.described()["progress"] or {}).get("step") or 0)

    @property
    def attempts(self) -> list[dict[str, Any]]:
        return list(self.described()["history"]["attempts"])

    def fault(self, name: str, *options: str) -> None:
        self.place.json("emulator", "fault", name, self.job, "--replica", "workerpool1-0", *options)

    def end(self) -> str:
        """Wait for the end; return the state."""
        ended = {"SUCCEEDED", "FAILED"}
        return str(
            wait_for(
                lambda: s if (s := self.described()["state"]) in ended else None,
                "the end", every=0.5, seconds=400,
            )
        )  # fmt: skip


# Minutes: two nodes import torch and train 60 steps.
@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("fault", ["cut", "pause"])
def test_two_nodes_that_train_go_on_after_a_standstill(place: Home, fault: str) -> None:
    training = Training.begin(place, 60)
    training.fault(fault)
    wait_for(lambda: training.step == training.step == training.step, "a standstill", every=0.5, seconds=60)
    stopped = training.step
    assert stopped < 60 and training.described()["state"] == "RUNNING"
    training.fault(fault, "--resume")
    wait_for(lambda: training.step > stopped, "a step afterwards", every=0.5, seconds=200)
    assert training.end() == "SUCCEEDED"


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_training_resumes_after_a_maintenance_and_fails_without_memory(place: Home) -> None:
    training = Training.begin(place, 4000)
    training.fault("preempt")
    wait_for(
        lambda: len(training.described()["history"]["attempts"]) == 2, "a restart", every=0.5, seconds=200
    )
    first, _ = training.described()["history"]["attempts"]
    wait_for(
        lambda: training.step > first["last_step"], "a step of the second attempt", every=0.5, seconds=200
    )
    training.fault("oom")
    assert training.end() == "FAILED"
    job = training.described()
    assert "The replica workerpool1-0 ran out-of-memory" in job["error"]["message"]
    assert "memory" in job["meaning"]
    assert training.attempts[1]["resumed_from"] == first["last_step"]
