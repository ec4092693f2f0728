"""A tuning job by verbs: launched from a profile, its trials listed with the best first, imported again."""

from __future__ import annotations

from tests.shell import home

PROFILE = """\
displayName: sweep
parameters:
  trials: 3
tuningJob:
  maxTrialCount: ${trials}
  parallelTrialCount: 3
  studySpec:
    algorithm: GRID_SEARCH
    metrics: [{metricId: score, goal: MAXIMIZE}]
    parameters:
      - parameterId: x
        discreteValueSpec: {values: [1, 2, 3, 4]}
  trialJobSpec:
    workerPoolSpecs:
      - machineSpec: {machineType: n1-standard-4}
        replicaCount: 1
        containerSpec: {imageUri: python, command: [python, -c], args: ["CODE"]}
"""
CODE = (
    "import sys; from hypertune import HyperTune; "
    "HyperTune().report_hyperparameter_tuning_metric('score', float(sys.argv[1][4:]), 5)"
)


# Seconds: a dozen commands, each a process of its own.
def test_a_sweep_is_launched_listed_and_imported() -> None:
    with home() as place:
        file = place.root / "sweep.yaml"
        file.write_text(PROFILE.replace("CODE", CODE))
        broken = place.root / "broken.yaml"
        broken.write_text(PROFILE.replace("GRID_SEARCH", "RANDOM").replace("CODE", CODE))
        (problem,) = place.json("profiles", "validate", str(broken), code=2)["problems"]
        assert (problem["line"], problem["fix"]) == (8, "Did you mean RANDOM_SEARCH?")

        asked = place.json("launch", str(file), "--dry-run", "--set", "trials=2")
        assert asked["request"]["hyperparameterTuningJob"]["maxTrialCount"] == 2
        made = place.json("launch", str(file), "--yes", "--wait")
        assert (made["state"], made["kind"]) == ("SUCCEEDED", "tuning_job")

        found = place.json("tasks", "sweep")
        assert (found["best"], [task["id"] for task in found["tasks"]]) == ("3", ["3", "2", "1"])
        assert [(task["parameters"], task["metrics"]) for task in found["tasks"]] == [
            ({"x": number}, {"score": number}) for number in (3, 2, 1)
        ]
        lines = place.run("tasks", "sweep").stdout.splitlines()
        assert lines[0].split() == ["TRIAL", "STATE", "SCORE", "X", "STEP", "RAN", "COST", "JOB"]
        assert lines[1].startswith("3*") and "~$0" in lines[1]

        jobs = {job["display_name"]: job for job in place.jobs()}
        assert jobs.keys() == {"sweep", *(f"sweep-trial-{number}" for number in (1, 2, 3))}
        assert jobs["sweep-trial-2"]["parent"] == jobs["sweep"]["name"]
        rows = place.json("compare", *(jobs[f"sweep-trial-{number}"]["id"] for number in (1, 2)))["rows"]
        assert {row["name"].split()[-1]: (row["a"], row["b"], row["percent"]) for row in rows} == {
            "x": (1, 2, 100.0), "CLOUD_ML_TRIAL_ID": ("1", "2", None),
        }  # fmt: skip
        said = place.run("describe", jobs["sweep-trial-2"]["id"]).stdout
        assert f"custom job, part of the tuning job sweep ({jobs['sweep']['id']})" in said
        assert "Trial 3 completed: score=3 at step 5." in place.run("logs", "sweep").stdout
        assert "has no metrics" in place.json("metrics", "sweep", code=2)["error"]["message"]

        place.json("profiles", "import", jobs["sweep"]["id"], "--name", "again")
        bodies = [place.json("profiles", "show", name)["body"] for name in ("again", str(file))]
        assert bodies[0]["studySpec"]["parameters"] == bodies[1]["studySpec"]["parameters"]
        assert bodies[0]["trialJobSpec"]["workerPoolSpecs"] == bodies[1]["trialJobSpec"]["workerPoolSpecs"]
        place.json("profiles", "import", jobs["sweep-trial-3"]["id"], "--name", "best")
        (pool,) = place.json("profiles", "show", "best")["body"]["jobSpec"]["workerPoolSpecs"]
        assert pool["containerSpec"]["args"][-1] == "--x=3"
