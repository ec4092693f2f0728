"""Bad input: one clear sentence each, the right exit code, nothing half-done."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.main_job.survival_support import profile
from tests.shell import Home, home
from tests.waiting import wait_for

# One home for the whole module, so one worker for it.
pytestmark = pytest.mark.xdist_group("bad input")


@pytest.fixture(scope="module")
def place() -> Iterator[Home]:
    with home() as found:
        yield found


GOOD_POOL = "{machineSpec: {machineType: n1-standard-4}, replicaCount: 1, containerSpec: {imageUri: python}}"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("displayName: x\njobSpec: {workerPoolSpecs: [", ["broken.yaml:"]),
        (
            f"displayName: x\njobSpec:\n  workerPoolSpecs: [{GOOD_POOL}]\n  netwrok: y\n",
            ["netwrok", "network", ":4"],
        ),
        (
            f"displayName: x\njobSpec: {{workerPoolSpecs: [{GOOD_POOL.replace('n1-', 'n9-')}]}}",
            ["n9-standard-4"],
        ),
    ],
    ids=["broken YAML", "unknown field", "wrong machine"],
)
def test_a_bad_profile_is_refused_before_anything_is_sent(place: Home, text: str, words: list[str]) -> None:
    path = place.root / "broken.yaml"
    path.write_text(text)
    error = place.json("launch", str(path), "--yes", code=2)["error"]
    for word in words:
        assert word in json.dumps(error)
    assert place.jobs() == []


def test_a_missing_profile_says_where_it_looked(place: Home) -> None:
    error = place.json("launch", "no-such-profile", "--yes", code=3)["error"]
    assert "no-such-profile" in error["message"] and error["fix"]


def test_a_command_that_does_not_exist_fails_with_128(place: Home) -> None:
    path = profile(place, "pass", replicas=1, name="nocommand")
    path.write_text(path.read_text().replace("python3", "no-such-program"))
    job = place.json("launch", str(path), "--yes", "--wait", code=1)
    assert job["state"] == "FAILED" and job["replicas"][0]["exit_code"] == 128
    assert "workerpool0-0" in job["error"]["message"]
    assert "no-such-program" in place.run("logs", job["id"]).stdout


def test_hostile_log_lines_are_shown_harmless(place: Home) -> None:
    code = r"print('\x1b]0;owned\x07\x1b[2J[/] red [bold]\x9b31m end')"
    job = place.json("launch", str(profile(place, code, replicas=1, name="evil")), "--yes", "--wait")
    line = wait_for(
        lambda: next((x for x in place.run("logs", job["id"]).stdout.splitlines() if "[/]" in x), None), "it"
    )
    assert "\x1b" not in line and "\x9b" not in line and "[bold]" in line and "owned" not in line


def test_an_unknown_job_is_not_found(place: Home) -> None:
    assert place.json("describe", "424242", code=3)["error"]["code"] == "NOT_FOUND"
