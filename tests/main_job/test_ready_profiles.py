"""Every ready-made profile of two nodes on this machine really trains, a few steps of it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.shell import home

READY = sorted(p.stem for p in (Path(__file__).parents[2] / "profiles").glob("local-*node*.yaml"))


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", READY)
def test_it_trains_to_the_end(name: str) -> None:
    with home() as place:
        launch = place.popen(
            "launch", name, "--set", "steps=6", "--yes", "--wait",
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        assert launch.wait(300) == 0
        (job,) = place.jobs()
        assert job["state"] == "SUCCEEDED"
        assert place.json("describe", job["id"])["progress"]["step"] == 6
