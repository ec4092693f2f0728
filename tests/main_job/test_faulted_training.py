"""Faults of the emulator on a job of two nodes that really trains: it stands still, and goes on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.shell import Home, home
from tests.waiting import wait_for


@pytest.fixture
def place() -> Iterator[Home]:
    with home() as found:
        yield found


# Minutes: two nodes import torch and train 60 steps.
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_cut_between_two_nodes_that_train_is_survived(place: Home) -> None:
    launched = place.run("launch", "local-2node-zero2", "--set", "steps=60", "--yes", timeout=120)
    assert launched.returncode == 0, launched.stderr
    job = place.jobs()[0]["id"]

    def step() -> int:
        return int((place.json("describe", job)["progress"] or {}).get("step") or 0)

    wait_for(lambda: step() >= 5, "step 5", every=0.5, seconds=400)
    place.json("emulator", "fault", "cut", job, "--replica", "workerpool1-0")
    wait_for(lambda: step() == step() == step(), "a standstill", every=0.5, seconds=60)
    stopped = step()
    assert stopped < 60 and place.json("describe", job)["state"] == "RUNNING"
    place.json("emulator", "fault", "cut", job, "--replica", "workerpool1-0", "--resume")
    wait_for(lambda: step() > stopped, "a step after the cut", every=0.5, seconds=200)
    state = wait_for(
        lambda: s if (s := place.json("describe", job)["state"]) in {"SUCCEEDED", "FAILED"} else None,
        "the end", every=0.5, seconds=400,
    )  # fmt: skip
    assert state == "SUCCEEDED"
