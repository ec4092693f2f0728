"""A dry run of a launch against a real emulator: the request, the checks and the quota."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.shell import VXTUI, Home, home
from tests.terminal import Terminal

pytestmark = pytest.mark.xdist_group("a launch looked at")

METRIC = "custom_model_training_preemptible_nvidia_a100_gpus"
PROFILE = "arr-coc-4x8-a100"


@pytest.fixture(scope="module")
def place() -> Iterator[Home]:
    """An emulator in which a region has 16 preemptible A100, and one other has enough."""
    with home() as found:
        found.state.mkdir(parents=True)
        limits = {METRIC: 0, f"{METRIC}@us-central1": 16, f"{METRIC}@us-east1": 40}
        (found.state / "config.yaml").write_text(json.dumps({"quotas": limits, "queue_beyond_quota": True}))
        yield found


def checks(document: dict[str, Any]) -> dict[str, Any]:
    return {check["id"].partition(":")[0]: check for check in document["preflight"]}


def test_the_seeds_job_is_shown_exactly_and_its_quota_is_short(place: Home) -> None:
    done = place.run("launch", PROFILE, "--dry-run", "--json")
    assert done.returncode == 2, done.stderr
    shown = json.loads(done.stdout)
    assert set(shown) == {"schema", "request", "price", "preflight", "problems"}
    assert shown["request"]["parent"].endswith("/locations/us-central1")
    spec = shown["request"]["customJob"]["jobSpec"]
    first, more, reducers = spec["workerPoolSpecs"]
    assert [int(pool["replicaCount"]) for pool in (first, more, reducers)] == [1, 3, 13]
    gpus = [int(p["replicaCount"]) * int(p["machineSpec"].get("acceleratorCount", 0)) for p in (first, more)]
    assert sum(gpus) == 32
    assert first["machineSpec"] == more["machineSpec"]
    assert first["machineSpec"]["acceleratorType"] == "NVIDIA_TESLA_A100"
    assert reducers["containerSpec"]["imageUri"].endswith("/reductionserver:latest")
    assert spec["scheduling"] == {"timeout": "172800s", "strategy": "SPOT"}
    assert not [problem for problem in shown["problems"] if problem["severity"] == "error"]
    quota = checks(shown)["quota"]
    assert quota["verdict"] == "problem" and quota["stops"]
    assert METRIC in quota["sentence"] and "short 16" in quota["sentence"]
    assert quota["region"] == "us-east1" and "us-east1" in quota["fix"]
    price = shown["price"]
    assert price["estimate"] and price["date"] and price["seconds"] == 172800
    assert 10 < price["hour"]["low"] < price["hour"]["high"] < 200
    assert price["whole"]["high"] == pytest.approx(48 * price["hour"]["high"], rel=1e-3)
    assert place.jobs() == []


def test_in_a_region_with_enough_nothing_stops_it(place: Home) -> None:
    done = place.run("launch", PROFILE, "--region", "us-east1", "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "✓ quota" in done.stderr and "13 × n1-highcpu-16" in done.stderr
    path, _, body = done.stdout.partition("\n")
    assert (
        path.endswith("/locations/us-east1/customJobs") and json.loads(body)["displayName"] == f"{PROFILE}-1"
    )


def test_a_launch_that_would_fail_is_not_sent_unless_it_is_forced(place: Home) -> None:
    done = place.run("launch", PROFILE, "--yes", "--json")
    assert done.returncode == 2 and json.loads(done.stdout)["error"]["code"] == "WOULD_FAIL"
    assert place.jobs() == []
    forced = place.run("launch", PROFILE, "--yes", "--force", "--json")
    assert forced.returncode == 0 and "short 16" in forced.stderr
    (job,) = place.jobs()
    place.run("cancel", job["id"], "--yes")


def test_three_launches_of_a_ready_made_profile_have_three_names(place: Home) -> None:
    # Forced: a job that waits for its quota costs no processes.
    made = [place.json("launch", "arr-coc-4x8-a100", "--yes", "--force") for _ in range(3)]
    numbers = [int(job["display_name"].removeprefix("arr-coc-4x8-a100-")) for job in made]
    assert numbers == [numbers[0], numbers[0] + 1, numbers[0] + 2]


def test_what_can_t_be_told_stops_nobody(place: Home) -> None:
    place.json("emulator", "fault", "checks", "--fail", "projects", "--fail", "registry")
    try:
        shown = place.json("launch", "local-1node", "--dry-run")
        found = checks(shown)
        assert {found[id]["verdict"] for id in ("credentials", "permissions", "image")} == {"unknown"}
        done = place.run("launch", "local-1node", "--set", "steps=1", "--yes", "--json")
        assert done.returncode == 0 and "? not known: credentials, permissions, image" in done.stderr
        place.run("cancel", json.loads(done.stdout)["id"], "--yes")
    finally:
        place.json("emulator", "fault", "checks")


def test_an_error_of_the_rules_is_in_the_document_and_nothing_is_looked_up(place: Home) -> None:
    profile = place.root / "wrong.yaml"
    pool = "{machineSpec: {machineType: n1-standard-4}, replicaCount: 2, containerSpec: {imageUri: x}}"
    profile.write_text(f"workerPoolSpecs: [{pool}]\n")
    done = place.run("launch", str(profile), "--dry-run", "--json")
    shown = json.loads(done.stdout)
    assert done.returncode == 2 and shown["preflight"] == []
    assert any(p["severity"] == "error" and "replicaCount" in p["path"] for p in shown["problems"])


def test_the_question_before_a_launch_names_its_price(place: Home) -> None:
    before = len(place.jobs())
    terminal = Terminal([VXTUI, "launch", "local-1node"], place.env)
    try:
        screen = " ".join(terminal.wait("[y/N]").split())
        assert "Launch local-1node-" in screen and "Price: would cost ~$" in screen and "an hour" in screen
        terminal.press("n", "enter")
        assert terminal.wait_exit() == 1
    finally:
        terminal.close()
    assert len(place.jobs()) == before
