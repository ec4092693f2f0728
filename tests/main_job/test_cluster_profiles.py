"""Every ready-made profile for a cluster really trains in this machine's, and so does a converted one."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.processes import command_line
from tests.shell import Home, home
from tests.waiting import wait_for

CLUSTER = ("--context", "local-k8s")
READY = sorted(p.stem for p in (Path(__file__).parents[2] / "profiles").glob("k8s-*.yaml"))


def launch(place: Home, name: str) -> dict[str, Any]:
    """Launch and wait for the end; the job as `describe` has it."""
    sent = place.popen(
        *CLUSTER, "launch", name, "--set", "steps=6", "--yes", "--wait",
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    assert sent.wait(300) == 0
    (job,) = place.json(*CLUSTER, "jobs")["jobs"]
    assert job["state"] == "SUCCEEDED"
    return dict(place.json(*CLUSTER, "describe", job["id"]))


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", READY)
def test_it_trains_to_the_end(name: str) -> None:
    with home() as place:
        job = launch(place, name)
        assert job["progress"]["step"] == 6
        again = place.run(*CLUSTER, "launch", name, "--name", job["id"], "--yes")
        assert again.returncode == 2 and f"{job['id']} already" in again.stderr
        log = place.run(*CLUSTER, "logs", job["id"]).stdout
        assert "step 6/6" in log and "done: 6 steps" in log


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_converted_profile_trains_too() -> None:
    with home() as place:
        made = place.run("profiles", "convert", "local-2node", "--to", "kubernetes", "-o", "mine")
        assert made.returncode == 0 and "differs: jobSpec.scheduling.strategy" in made.stderr
        assert launch(place, "mine")["progress"]["step"] == 6


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_cancelled_job_leaves_no_process() -> None:
    with home() as place:
        sent = place.run(*CLUSTER, "launch", "k8s-pytorch-2node", "--set", "steps=5000", "--yes")
        assert sent.returncode == 0

        def pods() -> list[Any]:
            return [p for p in place.processes() if "trainer.task" in command_line(p)]

        wait_for(lambda: len(pods()) >= 2 or None, "two pods", seconds=120)
        assert place.run(*CLUSTER, "cancel", "k8s-pytorch-2node-1", "--yes").returncode == 0
        wait_for(lambda: not pods() or None, "no process")
        assert place.json(*CLUSTER, "describe", "k8s-pytorch-2node-1")["state"] == "SUSPENDED"


def test_the_verb_of_conversion() -> None:
    with home() as place:
        found = place.json("profiles", "convert", "k8s-elastic", "--to", "vertex", "-o", "mine")
        assert "manifest.spec.elasticPolicy" in {each["field"] for each in found["differences"]}
        assert Path(found["path"]).read_text() == found["text"]
        refused = place.run("profiles", "convert", "local-tuning", "--to", "kubernetes")
        assert refused.returncode == 2 and "a study of trials has no counterpart" in refused.stderr
