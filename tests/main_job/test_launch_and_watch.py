"""The main job by verbs: launch two nodes that really train, watch them, compare with what they wrote."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.shell import Home, home
from tests.waiting import LIMIT, wait_for

# One home for the whole module, so one worker for it.
pytestmark = pytest.mark.xdist_group("a launch watched")


@pytest.fixture(scope="module")
def place() -> Iterator[Home]:
    with home() as found:
        yield found


def written_lines(attempt: Path, replica: str) -> list[str]:
    """What the replica itself wrote to its stdout and stderr, line by line."""
    lines: list[str] = []
    for stream in ("stdout", "stderr"):
        lines += (attempt / f"{replica}.{stream}").read_text(errors="replace").splitlines()
    return lines


def same(text: str) -> str:
    """JSON in one spelling: a payload's numbers have one type in the service, so 0.0 comes back as 0."""
    return json.dumps(json.loads(text, parse_int=float), sort_keys=True)


# Many seconds: two replicas load torch and train 48 steps of the real profile.
def test_two_nodes_train_and_everything_of_them_is_seen(place: Home) -> None:
    launch = place.popen("launch", "local-2node", "--set", "steps=48", "--yes", "--wait", "--json")
    wait_for(lambda: place.count("RUNNING"), "the job to run")
    (job_id,) = place.job_ids()
    follow = place.popen("logs", job_id, "--follow", "--json")

    def cpu_series() -> dict[str, object] | None:
        reading = place.json("metrics", job_id)
        replicas = {s["replica"] for s in reading["series"] if "cpu" in s["metric"] and s["points"]}
        return reading if replicas >= {"workerpool0-0", "workerpool1-0"} else None

    metrics = wait_for(cpu_series, "CPU series of both replicas", every=1)
    assert any("accelerator" in json.dumps(m) for m in metrics["not_measured"])  # type: ignore[attr-defined]

    out, err = launch.communicate(timeout=280)
    assert launch.returncode == 0, err
    job = json.loads(out)
    assert job["state"] == "SUCCEEDED" and job["name"].endswith(f"/customJobs/{job_id}")
    assert [r["id"] for r in job["replicas"]] == ["workerpool0-0", "workerpool1-0"]
    loss = job["progress"]["loss"]
    assert loss["last"] < 0.8 * loss["first"]

    followed, err = follow.communicate(timeout=LIMIT)
    assert follow.returncode == 0, err
    entries = [json.loads(line) for line in followed.splitlines()]
    keys = [(e["timestamp"], e["insert_id"]) for e in entries]
    assert keys == sorted(keys), "merged in time order"
    assert max(Counter((e["replica"], e["insert_id"]) for e in entries).values()) == 1, "no entry twice"
    attempt = place.state / "jobs" / job_id / "attempt-1"
    for replica in ("workerpool0-0", "workerpool1-0"):
        seen = [e for e in entries if e["replica"] == replica]
        wrote = written_lines(attempt, replica)
        assert len(wrote) > 10
        texts = Counter(same(json.dumps(e["json"]["vxtui"])) for e in seen if e["json"])
        expected = Counter(same(json.dumps(json.loads(line)["vxtui"])) for line in wrote if line[:1] == "{")
        assert texts == expected
        assert len(seen) == len(wrote)


def test_the_job_is_found_by_name_id_and_display_name(place: Home) -> None:
    job = place.jobs()[0]
    by = [place.json("describe", job[key])["id"] for key in ("id", "name", "display_name")]
    assert by == [job["id"]] * 3
