"""The whole pipeline of arr-coc by verbs: sweep, stages, evaluation, release; below the bar no release."""

from __future__ import annotations

from typing import Any

import pytest

from tests.shell import Home, home

NAME = "local-arr-coc-pipeline"
TRAINED = ("sweep", "plan-stages", "texture", "scorers", "quality", "integration", "evaluation")
RELEASED = ("prepare-endpoint", "register", "deploy-canary", "check-canary", "promote")


def tasks(place: Home, job: str) -> dict[str, dict[str, Any]]:
    return {task["name"]: task for task in place.json("tasks", job)["tasks"]}


# Minutes: some twenty processes that import torch, one after the other.
@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_the_pipeline_releases_a_model_and_below_the_bar_none() -> None:
    with home() as place:
        # With a likelihood that is never reached nothing is released, and it succeeds.
        made = place.json("launch", NAME, "--set", "bar=1", "--yes", "--wait", timeout=1700)
        assert (made["state"], made["kind"]) == ("SUCCEEDED", "pipeline_job")
        found = tasks(place, made["id"])
        assert {name: found[name]["state"] for name in TRAINED} == dict.fromkeys(TRAINED, "SUCCEEDED")
        assert found["condition-1"]["native_state"] == "NOT_TRIGGERED"
        assert not place.json("endpoints")["endpoints"] and not place.json("models")["models"]
        jobs = {job["name"]: job for job in place.jobs()}
        sweep = found["sweep"]["job"]
        trials = place.json("tasks", sweep.rpartition("/")[2])
        best = next(each for each in trials["tasks"] if each["id"] == trials["best"])
        assert len(trials["tasks"]) == 4 and best["metrics"]["loss"] == min(
            each["metrics"]["loss"] for each in trials["tasks"]
        )
        flags = [f"--{name}={value}" for name, value in best["parameters"].items()]
        assert found["plan-stages"]["outputs"]["best"] == " ".join(flags)
        before = ""
        for name in ("texture", "scorers", "quality", "integration"):
            assert jobs[found[name]["job"]]["parent"] == made["name"]
            spec = place.json("describe", found[name]["job"].rpartition("/")[2])["resource"]
            args = spec["jobSpec"]["workerPoolSpecs"][0]["containerSpec"]["args"]
            assert set(flags) <= set(args)
            begins = [word for word in args if word.startswith("--init-weights=")]
            assert begins == ([f"--init-weights={before}"] if before else [])
            (before,) = (w.removeprefix("--upload-dir=") for w in args if w.startswith("--upload-dir="))

        # What was trained is taken from the cache; with the bar that it has it is released.
        again = place.json("launch", NAME, "--yes", "--wait", timeout=900)
        assert again["state"] == "SUCCEEDED"
        found = tasks(place, again["id"])
        assert {found[name]["native_state"] for name in TRAINED} == {"SKIPPED"}
        assert {found[name]["state"] for name in RELEASED} == {"SUCCEEDED"}
        assert found["check-canary"]["outputs"]["passed"] is True
        assert found["check-canary"]["outputs"]["answers"] == 4, "10 % of 40"
        (endpoint,) = place.json("endpoints")["endpoints"]
        (deployed,) = endpoint["deployed"]
        assert (deployed["percent"], deployed["version"]) == (100, "2")
