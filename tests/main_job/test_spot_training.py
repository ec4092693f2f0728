"""A Spot job that is preempted twice ends well, with the loss curve of a job that was left in peace."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from tests.shell import Home, home
from tests.waiting import wait_for

STEPS = 120


@pytest.fixture
def place() -> Iterator[Home]:
    with home() as found:
        yield found


def said(place: Home, job_id: str) -> list[dict[str, Any]]:
    entries = [json.loads(line) for line in place.run("logs", job_id, "--json").stdout.splitlines()]
    return [e["json"]["vxtui"] for e in entries if e["json"] and "vxtui" in e["json"]]


def curve(lines: list[dict[str, Any]]) -> dict[int, float]:
    return {line["step"]: line["loss"] for line in lines if line["kind"] == "step"}


def launch(place: Home, profile: str) -> subprocess.Popen[str]:
    flags = ("--set", f"steps={STEPS}", "--yes", "--wait")
    return place.popen("launch", profile, *flags, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_two_preemptions_do_not_show_in_the_losses(place: Home) -> None:
    whole = launch(place, "local-2node-zero2")
    assert whole.wait(400) == 0
    expected = curve(said(place, place.jobs()[0]["id"]))
    assert max(expected) == STEPS

    spot = launch(place, "local-2node-zero2-spot")
    job = wait_for(
        lambda: next((j for j in place.jobs() if "spot" in j["display_name"]), None),
        "the job",
        every=0.5,
    )

    def step() -> int:
        return int((place.json("describe", job["id"])["progress"] or {}).get("step") or 0)

    for target, replica in ((25, "workerpool1-0"), (70, "workerpool0-0")):
        wait_for(lambda least=target: step() >= least, f"step {target}", every=0.5, seconds=240)
        place.json("emulator", "fault", "preempt", job["id"], "--replica", replica)
    assert spot.wait(400) == 0
    assert place.json("describe", job["id"])["state"] == "SUCCEEDED"
    lines = said(place, job["id"])
    left = [x["step"] for x in lines if x["kind"] == "preempted"]
    assert len(left) == 2 and [x["step"] for x in lines if x["kind"] == "resumed"] == left
    assert curve(lines) == expected, "bit for bit"
