"""The audit journal: keys and verbs write equal lines, apart from time, surface, process and identifiers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.shell import VXTUI, Home, home
from tests.terminal import Terminal
from tests.waiting import wait_for

PROFILE = """\
displayName: sleeper
jobSpec:
  workerPoolSpecs:
    - machineSpec: {machineType: n1-standard-4}
      replicaCount: 1
      containerSpec: {imageUri: python, command: [sleep, "600"]}
"""


@pytest.fixture
def place() -> Iterator[Home]:
    with home() as found:
        folder = found.root / "c" / "vxtui" / "profiles"
        folder.mkdir(parents=True)
        (folder / "sleeper.yaml").write_text(PROFILE)
        yield found


def by_keys(place: Home) -> None:
    """Launch a job, preempt it, cancel it and delete it."""
    screen = Terminal([VXTUI], place.env)
    try:
        screen.wait("No jobs here yet")
        screen.press(":")
        screen.type(b"launch sleeper\r")
        screen.wait(lambda t: "Launch sleeper" in t)
        screen.press("enter")
        wait_for(lambda: place.count("RUNNING"), "the job to run")
        screen.wait(lambda t: "running" in t and "c cancel" in t)
        screen.press(":")
        screen.type(b"preempt sleeper\r")
        screen.wait(lambda t: "Preempt sleeper" in t)
        screen.press("y")
        wait_for(lambda: len(audit(place)) >= 4, "the fault")
        screen.press("c")
        screen.wait("Cancel sleeper")
        screen.press("y")
        screen.wait("D delete", seconds=120)
        screen.press("D")
        screen.wait("Delete sleeper")
        screen.press("y")
        wait_for(lambda: len(audit(place)) >= 8, "the end of the delete")
        screen.press("ctrl+q")
        assert screen.wait_exit() == 0
    finally:
        screen.close()


def by_verbs(place: Home) -> None:
    """The same."""
    job = place.json("launch", "sleeper", "--yes")["name"]
    wait_for(lambda: place.count("RUNNING"), "the job to run")
    place.json("emulator", "fault", "preempt", job)
    place.json("cancel", job, "--yes")
    place.json("delete", job, "--yes")


def audit(place: Home) -> list[dict[str, Any]]:
    path = place.root / "s" / "audit.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def without_run(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the lines without time, surface and process; constants replace the job's number and mark."""
    asked, launched = (line for line in lines if line["action"] == "job.launch")
    assert asked["mark"] and launched["mark"] == asked["mark"]
    job = launched["target"].rpartition("/")[2]
    kept = [{k: v for k, v in line.items() if k not in {"time", "surface", "process"}} for line in lines]
    return json.loads(json.dumps(kept).replace(job, "JOB").replace(asked["mark"], "MARK"))


def test_keys_and_verbs_leave_equal_lines(place: Home) -> None:
    by_keys(place)
    keys = audit(place)
    by_verbs(place)
    verbs = audit(place)[len(keys) :]
    assert {line["surface"] for line in keys} == {"console"}
    assert {line["surface"] for line in verbs} == {"verb"}
    assert without_run(keys) == without_run(verbs)
    assert [(line["action"], line["result"]) for line in verbs] == [
        (action, result)
        for action in ("job.launch", "emulator.fault", "job.cancel", "job.delete")
        for result in ("asked", "done")
    ]
    assert all(line["user"] and line["project"] and line["context"] == "local" for line in verbs)
    assert {line["region"] for line in verbs if line["action"].startswith("job.")} == {"us-central1"}


def test_a_verb_that_fails_says_how_it_ended(place: Home) -> None:
    place.json("emulator", "start")
    started = audit(place)
    assert [(x["action"], x["result"]) for x in started] == [("emulator.start", r) for r in ("asked", "done")]
    failed = place.run("delete", "nothing", "--yes")
    assert failed.returncode == 3 and audit(place) == started
    place.json("launch", "sleeper", "--yes")
    lines = audit(place)
    refused = place.json("emulator", "fault", "preempt", "nothing", code=3)
    assert refused["error"]["code"] == "NOT_FOUND" and audit(place) == lines
    wait_for(lambda: place.count("RUNNING"), "the job to run")
    refused = place.json("emulator", "fault", "preempt", "sleeper", "--replica", "nobody", code=2)
    asked, ended = audit(place)[len(lines) :]
    code = refused["error"]["code"]
    assert (asked["result"], ended["result"], ended["code"]) == ("asked", "failed", code)
    assert ended["target"].endswith(" nobody") and "nobody" in ended["message"]
