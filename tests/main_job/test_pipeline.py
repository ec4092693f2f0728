"""A pipeline from its profile: launched by a verb, waited for, and its end the exit code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.shell import Home, home

WRITE = "import pathlib, sys; p = pathlib.Path(sys.argv[1]); p.parent.mkdir(parents=True, exist_ok=True)"
SAY = f"{WRITE}; p.write_text(sys.argv[2] * int(sys.argv[3])); sys.exit(sys.argv[2] == 'fail')"
TASK = "{{$.inputs.parameters['word']}}", "{{$.inputs.parameters['times']}}"
INPUTS = {
    "word": {"parameterType": "STRING"},
    "times": {"parameterType": "NUMBER_INTEGER", "defaultValue": 2.0},
}
SPEC = {
    "pipelineInfo": {"name": "words"},
    "schemaVersion": "2.1.0",
    "root": {
        "dag": {
            "tasks": {
                "say": {
                    "componentRef": {"name": "comp-say"},
                    "inputs": {
                        "parameters": {name: {"componentInputParameter": name} for name in ("word", "times")}
                    },
                }
            }
        },
        "inputDefinitions": {"parameters": INPUTS},
    },
    "components": {
        "comp-say": {
            "executorLabel": "exec-say",
            "inputDefinitions": {"parameters": INPUTS},
            "outputDefinitions": {"parameters": {"said": {"parameterType": "STRING"}}},
        }
    },
    "deploymentSpec": {
        "executors": {
            "exec-say": {
                "container": {
                    "image": "us-docker.pkg.dev/p/r/words:1",
                    "command": ["python", "-c", SAY, "{{$.outputs.parameters['said'].output_file}}"],
                    "args": list(TASK),
                }
            }
        }
    },
}
PROFILE = """
displayName: words
parameters:
  word: {help: What is said}
pipelineJob:
  templatePath: words.json
  runtimeConfig:
    gcsOutputDirectory: gs://words/root
    parameterValues: {word: "${word}"}
"""


@pytest.fixture
def profile(tmp_path: Path) -> str:
    (tmp_path / "words.json").write_text(yaml.safe_dump(SPEC))
    (tmp_path / "words.yaml").write_text(PROFILE)
    return str(tmp_path / "words.yaml")


# A real emulator and three pipelines, each with a process of its own.
def test_the_exit_code_is_the_end_of_the_pipeline(profile: str) -> None:
    with home() as found:
        run_both_ways(found, profile)


def verbs_of_its_parts(home: Home, pipeline: dict[str, Any]) -> None:
    """Each verb says the same of it by id, full name and display name, and leads to its tasks."""
    (task,) = pipeline["tasks"]
    for reference in (pipeline["id"], pipeline["name"], pipeline["display_name"]):
        assert home.json("describe", reference, "--json")["name"] == pipeline["name"]
        refused = home.json("logs", reference, "--json", code=2)["error"]
        assert refused["message"] == "A pipeline has no logs."
        assert f"`vxtui logs {pipeline['id']} --task TASK`" in refused["fix"] and "  say  " in refused["fix"]
    of_task = home.run("logs", pipeline["id"], "--task", "say")
    assert of_task.returncode == 0 and of_task.stdout == home.run("logs", task["job"]).stdout
    listed = home.json("jobs", "--json")
    whole, part = sorted(listed["jobs"], key=lambda job: job["name"] != pipeline["name"])
    assert (whole["kind"], part["kind"], part["parent"]) == ("pipeline_job", "custom_job", pipeline["name"])
    # The pipeline costs what the job of its task does: the sum has that once.
    assert whole["cost"]["usd"] == part["cost"]["own_usd"] == listed["totals"]["usd"]
    assert whole["cost"]["own_usd"] == {"low": 0.0, "high": 0.0} and part["cost"]["usd"]["high"] > 0
    assert [job["name"] for job in home.json("jobs", "--filter", "kind:pipeline", "--json")["jobs"]] == [
        pipeline["name"]
    ]
    # Where its log can't be read, the rest is told.
    fault = ("emulator", "fault", "api", "LoggingServiceV2.*", "--error", "PERMISSION_DENIED")
    assert home.run(*fault).returncode == 0
    told = home.run("describe", task["job"])
    assert told.returncode == 0 and "can't be read" in told.stderr and "workerpool0-0" in told.stdout
    assert home.run("emulator", "fault", "clear").returncode == 0


def run_both_ways(home: Home, profile: str) -> None:
    good = home.json("launch", profile, "--set", "word=ha", "--set", "times=3", "--yes", "--wait", "--json")
    assert (good["state"], good["kind"]) == ("SUCCEEDED", "pipeline_job")
    (said,) = home.json("tasks", good["id"], "--json")["tasks"]
    assert said["outputs"] == {"said": "hahaha"}

    verbs_of_its_parts(home, good)

    bad = home.run("launch", profile, "--set", "word=fail", "--yes", "--wait")
    assert bad.returncode == 1 and "words: failed" in bad.stderr

    dry = home.json("launch", profile, "--set", "word=x", "--dry-run", "--json")
    assert dry["request"]["pipelineJob"]["runtimeConfig"] == {
        "gcsOutputDirectory": "gs://words/root",
        "parameterValues": {"word": "x"},
    }
    assert dry["request"]["pipelineJob"]["pipelineSpec"] == SPEC
    assert [task["name"] for task in dry["price"]["tasks"]] == ["say"]
    assert len(home.jobs()) == 4

    # The run, and its compiled file, become profiles that send the same.
    run = home.run("profiles", "import", good["id"], "--name", "once-more")
    assert run.returncode == 0, run.stderr
    same = home.json("launch", "once-more", "--dry-run", "--json")["request"]["pipelineJob"]
    assert same["pipelineSpec"]["deploymentSpec"] == SPEC["deploymentSpec"]
    assert same["runtimeConfig"]["parameterValues"] == {"word": "ha", "times": 3}
    compiled = str(Path(profile).with_name("words.json"))
    assert home.run("profiles", "import", compiled).returncode == 0
    given = ("--set", "root=gs://words/root", "--set", "word=x")
    from_file = home.json("launch", "words", *given, "--dry-run", "--json")
    assert from_file["request"] == dry["request"]


# Four trainings, each a process that imports torch.
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_ready_made_pipeline_trains_looks_and_tries() -> None:
    with home() as place:
        done = place.json("launch", "local-pipeline", "--yes", "--wait", "--json", timeout=400)
        assert done["state"] == "SUCCEEDED"
        tasks = place.json("tasks", done["id"], "--json")["tasks"]
        outputs = {task["name"]: task["outputs"] for task in tasks if task["outputs"]}
        tried = [task["outputs"]["loss"] for task in tasks if task["name"] == "train-2"]
        assert len(tried) == 2 and outputs["best"] == {"loss": min(tried)}

        bad = place.json("launch", "local-pipeline", "--set", "good=0", "--yes", "--wait", "--json")
        states = {task["name"]: task["native_state"] for task in place.json("tasks", bad["id"])["tasks"]}
        assert (states["train"], states["condition-1"]) == ("SKIPPED", "NOT_TRIGGERED"), (
            "cached, then left out"
        )
