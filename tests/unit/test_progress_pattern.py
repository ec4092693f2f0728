"""A profile's own regular expression: what is refused, how a job carries it, and what is read by it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.unit.progress_dialects_support import log_entry
from tui.backends.vertex.jobs import convert
from tui.backends.vertex.jobs.custom_jobs import CustomJobs
from tui.domain.core.training_progress import SAMPLES
from tui.domain.profile.model import ProfileInvalid, load
from tui.domain.progress.job_progress import JobProgress
from tui.domain.progress.pattern import VARIABLE, problems, progress_pattern, with_pattern

PATTERN = (
    r"upd (?P<step>\d+) of (?P<total>\d+): objective (?P<loss>[\d.]+) at (?P<samples_per_second>[\d.]+), "
    r"kl (?P<kl>[\d.]+)"
)
PROFILE = """
displayName: own-lines
region: us-central1
progress:
  pattern: 'upd (?P<step>\\d+) objective (?P<loss>[\\d.]+)'
jobSpec:
  workerPoolSpecs:
    - machineSpec: {machineType: n1-standard-4}
      replicaCount: 1
      containerSpec:
        imageUri: us-docker.pkg.dev/my-project/my-repo/trainer:latest
        env: [{name: SEED, value: "1"}]
    - machineSpec: {machineType: n1-standard-4}
      replicaCount: 2
      pythonPackageSpec:
        executorImageUri: us-docker.pkg.dev/vertex-ai/training/pytorch-gpu.2-4.py310:latest
        packageUris: [gs://my-bucket/a.tar.gz]
        pythonModule: a.task
"""


def test_a_pattern_reads_lines_that_nobody_else_prints() -> None:
    reader = JobProgress(progress_pattern(PATTERN))
    assert not reader.add(log_entry("nothing of this"))
    (step,) = reader.add(log_entry("10:00:00 upd 61 of 2000: objective 2.13 at 12.5, kl 0.02", 1))
    assert (step.step, step.total_steps, step.loss, step.numbers) == (61, 2000, 2.13, (("kl", 0.02),))
    assert (step.speed, step.speed_unit) == (12.5, SAMPLES)
    assert reader.progress.dialect == "pattern"
    assert not reader.add(log_entry("step 5 loss 9.0", 2)) or reader.progress.step == 61


def test_a_pattern_counts_more_than_the_lines_of_others() -> None:
    reader = JobProgress(progress_pattern(r"upd (?P<step>\d+)"))
    reader.add(log_entry("step 5 loss 9.0", 1))
    assert reader.progress.step == 5
    reader.add(log_entry("upd 61", 2))
    reader.add(log_entry("step 6 loss 8.0", 3))
    assert reader.progress.step == 61


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        (r"(?P<step>\d+", "missing )"),
        (r"step (\d+)", "must have a group named step"),
        (r"(?P<step>\d+)(?=x)", "looks ahead"),
        (r"(?P<step>\d+)(?<!x)", "looks ahead or behind"),
        (r"(?P<step>\d+) \1", "refers back"),
        (r"(?P<step>\d++)", "possessive"),
        ("(?P<step>\\d+)" + "x" * 500, "characters"),
    ],
)
def test_a_pattern_with_a_problem_is_refused_and_not_used(pattern: str, said: str) -> None:
    found = problems(pattern)
    assert any(said in sentence for sentence, _fix in found), found
    assert all(sentence.endswith((".", "…")) for sentence, _ in found)
    assert progress_pattern(pattern) is None


@pytest.mark.parametrize(
    "pattern",
    [
        PATTERN,
        r"(?P<step>\d+)/(?P<total>\d+)",
        r"^.*loss[=:]\s*(?P<loss>[\d.eE+-]+)",
        r"(?i)step\s+(?P<step>\d+)\b",
        r"(?:(?:a+)+)+(?P<step>\d+)",
        r"(?:\w+\s?)*: (?P<loss>[\d.]+)$",
    ],
)
def test_a_plain_pattern_is_accepted(pattern: str) -> None:
    assert problems(pattern) == ()


def test_a_profile_sends_its_pattern_in_the_environment() -> None:
    checked = load(PROFILE, "own.yaml", "own").check()
    assert not checked.errors
    first, second = checked.request.custom_job["jobSpec"]["workerPoolSpecs"]
    own = {"name": VARIABLE, "value": r"upd (?P<step>\d+) objective (?P<loss>[\d.]+)"}
    assert first["containerSpec"]["env"] == [{"name": "SEED", "value": "1"}, own]
    assert second["pythonPackageSpec"]["env"] == [own]
    assert "progress" not in checked.request.custom_job


def test_a_job_tells_its_pattern_to_any_console() -> None:
    resource: dict[str, Any] = load(PROFILE, "own.yaml", "own").render().custom_job
    message = CustomJobs.resource.parse(resource | {"name": "projects/p/locations/r/customJobs/1"})
    assert (
        convert.listed_job(message, "c").progress_pattern == r"upd (?P<step>\d+) objective (?P<loss>[\d.]+)"
    )
    assert convert.job(CustomJobs.resource.parse({"displayName": "x"}), "c").progress_pattern == ""


def test_a_pool_keeps_its_own_pattern_and_one_without_a_task_gets_none() -> None:
    mine = {"containerSpec": {"imageUri": "i", "env": [{"name": VARIABLE, "value": "mine"}]}}
    bare = {"machineSpec": {}}
    job = {"jobSpec": {"workerPoolSpecs": [mine, bare, {}]}}
    assert with_pattern(job, "p")["jobSpec"]["workerPoolSpecs"] == [mine, bare, {}]
    packed = with_pattern(job, "p", packaged=True)["jobSpec"]["workerPoolSpecs"][1]
    assert packed["containerSpec"] == {"env": [{"name": VARIABLE, "value": "p"}]}
    assert with_pattern({"displayName": "x"}, "p") == {"displayName": "x"}


def test_a_profile_with_a_pattern_that_cannot_be_used_is_refused_by_line(tmp_path: Path) -> None:
    text = PROFILE.replace(r"upd (?P<step>\d+) objective (?P<loss>[\d.]+)", r"(?=x)(?P<step>\d+)")
    profile = load(text, "own.yaml", "own")
    (problem,) = profile.check().errors
    assert (problem.id, problem.line) == ("profile.progress", 5)
    with pytest.raises(ProfileInvalid):
        profile.render()
