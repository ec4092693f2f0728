"""The ready-made profiles: no rule has a word against them, and the trainer takes their flags."""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import dedent

import pytest

from trainer.config import parse
from trainer.package import NAME, version
from trainer.registry import STRATEGIES
from tui.domain.document.source import ProblemSeverity
from tui.domain.profile import Profile, inspect, load
from tui.domain.spec.spec_format import bodies
from tui.domain.vertex.reducers import propose

FOLDER = Path(__file__).parents[2] / "profiles"
READY = sorted(FOLDER.glob("*.yaml"))
LADDER = ("arr-coc-1x1-a100", "arr-coc-2x8-a100", "arr-coc-4x8-a100")


def ready(name: str) -> Profile:
    path = FOLDER / f"{name}.yaml"
    return load(path.read_text(), str(path), name)


@pytest.mark.parametrize("path", READY, ids=lambda p: p.stem)
def test_a_ready_made_profile_has_no_problem(path: Path) -> None:
    assert not inspect(path.read_text(), str(path), path.stem)
    profile = ready(path.stem)
    assert profile.display_name == "{profile}-{n}" and profile.description
    assert all(p.help for p in profile.parameters if p.name not in {"steps", "strategy"})


def test_the_examples_of_the_document_are_valid() -> None:
    text = (FOLDER.parent / "docs" / "PROFILES.md").read_text()
    examples = re.findall(r"^    displayName: .*\n(?:(?:    .*)?\n)*", text, re.MULTILINE)
    beside = str(FOLDER / "example.yaml")
    found = [load(dedent(example), beside, "example") for example in examples]
    assert {profile.format.body for profile in found} == set(bodies())
    for example in examples:
        wrong = inspect(dedent(example), beside, "example")
        assert not [str(p) for p in wrong if p.severity is not ProblemSeverity.NOTE]


@pytest.mark.parametrize("path", READY, ids=lambda p: p.stem)
def test_the_trainer_takes_the_flags_of_a_ready_made_profile(path: Path) -> None:
    job = ready(path.stem).render().custom_job
    for pool in job.get("jobSpec", {}).get("workerPoolSpecs", []):
        task = {"imageUri": "", **pool["containerSpec"]}
        packaged = any("trainer.task" in word for word in task.get("command", ()))
        if task["imageUri"].endswith("/trainer:latest") or packaged:
            config = parse(task["args"])
            gpus = int(pool["machineSpec"].get("acceleratorCount", 1))
            nodes = sum(p["replicaCount"] for p in job["jobSpec"]["workerPoolSpecs"][:2])
            assert config.data.batch % (gpus * nodes) == 0


def test_every_strategy_has_a_job_of_two_nodes_on_this_machine() -> None:
    found = set()
    for path in FOLDER.glob("local-2node*.yaml"):
        pools = ready(path.stem).render().custom_job["jobSpec"]["workerPoolSpecs"]
        assert [pool["replicaCount"] for pool in pools] == [1, 1]
        tasks = [pool["containerSpec"] for pool in pools]
        found |= {parse(task["args"]).parallel.strategy for task in tasks if "imageUri" in task}
    assert found == set(STRATEGIES)


def test_the_python_package_is_the_one_that_is_made() -> None:
    profile = ready("l4-python-package")
    (task,) = (p["containerSpec"] for p in profile.render().custom_job["jobSpec"]["workerPoolSpecs"])
    assert task["command"][-1] == f"/gcs/my-bucket/trainer/{NAME}-{version()}.tar.gz"
    assert {p.name for p in profile.parameters} >= {"package", "image"}


def test_the_full_size_is_what_the_facts_ask_for() -> None:
    job = ready("arr-coc-4x8-a100").render().custom_job
    spec = job["jobSpec"]
    primary, workers, reducers = spec["workerPoolSpecs"]
    assert (primary["replicaCount"], workers["replicaCount"], reducers["replicaCount"]) == (1, 3, 13)
    for pool in (primary, workers):
        assert pool["machineSpec"] == {
            "machineType": "a2-highgpu-8g",
            "acceleratorType": "NVIDIA_TESLA_A100",
            "acceleratorCount": 8,
        }
        assert "--strategy=zero2" in pool["containerSpec"]["args"]
    assert spec["scheduling"] == {"timeout": "172800s", "strategy": "SPOT"}
    assert "serviceAccount" not in spec
    proposal = propose({**job, "jobSpec": {**spec, "workerPoolSpecs": [primary, workers]}}, "us-central1")
    assert proposal.count == 13 and proposal.pool is not None
    assert {k: proposal.pool[k] for k in reducers} == reducers


def test_the_ladder_is_one_job_in_three_sizes() -> None:
    specs = [ready(name).render().custom_job["jobSpec"] for name in LADDER]
    tasks = [spec["workerPoolSpecs"][0]["containerSpec"] for spec in specs]
    assert len({task["imageUri"] for task in tasks}) == 1
    names = [[arg.partition("=")[0] for arg in task["args"]] for task in tasks]
    assert names[0] == names[1] == names[2]
    gpus = [
        sum(p["replicaCount"] * p["machineSpec"].get("acceleratorCount", 0) for p in spec["workerPoolSpecs"])
        for spec in specs
    ]
    assert gpus == [1, 16, 32]


def test_a_parameter_that_is_empty_leaves_its_field_out() -> None:
    spec = (
        ready(LADDER[0])
        .check({"serviceAccount": "t@p.iam.gserviceaccount.com"})
        .request.custom_job["jobSpec"]
    )
    assert spec["serviceAccount"] == "t@p.iam.gserviceaccount.com"
    assert "serviceAccount" not in ready(LADDER[0]).check().request.custom_job["jobSpec"]
