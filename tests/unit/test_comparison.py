"""Two runs side by side: what differs, by how much, and what is compared of each kind."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from tests.ui.double import job
from tests.ui.pipeline_support import PIPELINE
from tui.domain.comparison.facts import job_facts, pipeline_facts, tuning_facts
from tui.domain.comparison.runs import RunFacts, TaskOutcome, change_text, percent_text, rows_of, text_of
from tui.domain.core.states import JobState
from tui.domain.core.task import Artifact, Task
from tui.domain.core.training_progress import Progress
from tui.domain.masking import MASK
from tui.domain.tuning.study import Metric, Study
from tui.kinds.kind import resolve
from tui.kinds.registry import kinds

NOON = datetime(2026, 11, 25, 12, tzinfo=UTC)


def test_rows_say_what_differs_and_by_how_much() -> None:
    done, cached = TaskOutcome("succeeded", 104.0), TaskOutcome("cached", 0.0, cached=True)
    first = RunFacts({"rate": 0.1, "steps": 10, "only": "x"}, {"loss": 2.0, "zero": 0},
                     {"a": TaskOutcome("succeeded", 100.0), "b": TaskOutcome("failed", 3.0)})  # fmt: skip
    second = RunFacts({"rate": 0.2, "steps": 10, "new": True}, {"loss": 1.5, "zero": 1},
                      {"a": done, "b": cached})  # fmt: skip
    rows = {row.name: row for row in rows_of(first, second)}
    assert list(rows) == ["rate", "steps", "only", "new", "loss", "zero", "a", "b"]
    assert [name for name, row in rows.items() if row.differs] == ["rate", "only", "new", "loss", "zero", "b"]
    assert (change_text(rows["loss"]), percent_text(rows["loss"])) == ("-0.5", "-25 %")
    assert (change_text(rows["zero"]), percent_text(rows["zero"])) == ("+1", ""), "no percent of nothing"
    assert (text_of(rows["only"].second), change_text(rows["only"])) == ("·", "")
    assert (text_of(rows["a"].first), change_text(rows["a"])) == ("succeeded 1m", "+4s")
    assert (text_of(rows["b"].second), change_text(rows["b"])) == ("cached", ""), "it did not run"
    longer = replace(second, tasks={"a": TaskOutcome("succeeded", 160.0)})
    (row,) = (row for row in rows_of(first, longer) if row.name == "a")
    assert row.differs and percent_text(row) == "+60 %"


def test_a_pipeline_has_its_parameters_results_and_tasks() -> None:
    start, end = NOON, NOON + timedelta(seconds=30)
    scores = Artifact(
        "gs://b/run-1/scores", "system.ClassificationMetrics", metadata={"accuracy": 0.9, "note": "x"}
    )
    loop = Task("2", JobState.SUCCEEDED, name="loop", group=True)
    tasks = (
        Task("1", JobState.SUCCEEDED, name="train", start_time=start, end_time=end, native_state="SUCCEEDED",
             outputs={"loss": 2.5, "scores": scores.uri}, output_artifacts={"scores": (scores,)}),
        loop,
        Task("3", JobState.SKIPPED, name="loop-0", parent="2", native_state="SKIPPED",
             outputs={"api_key": "abc123xyz"}),
    )  # fmt: skip
    root = {
        "inputDefinitions": {"parameters": {"rate": {"defaultValue": 0.1}, "steps": {"defaultValue": 5.0}}}
    }
    resource = {
        "pipelineSpec": {"root": root},
        "runtimeConfig": {"parameterValues": {"rate": 0.3, "names": ["a"]}},
    }
    found = pipeline_facts(replace(PIPELINE, tasks=tasks), resource)
    assert found.parameters == {"rate": 0.3, "steps": 5, "names": "['a']"}
    assert found.results == {
        "state": "failed", "train.loss": 2.5, "train.scores.accuracy": 0.9, "loop/loop-0.api_key": MASK,
    }  # fmt: skip
    assert {name: str(each) for name, each in found.tasks.items()} == {
        "train": "succeeded 30s", "loop": "succeeded", "loop/loop-0": "cached",
    }  # fmt: skip


def test_a_job_has_its_flags_and_variables_by_name() -> None:
    container = {
        "args": ["--steps=5", "--rate=0.1", "data.txt"],
        "env": [{"name": "HF_TOKEN", "value": "hf_abcdefgh"}],
    }
    resource = {"name": "x", "state": "S", "jobSpec": {"workerPoolSpecs": [{"containerSpec": container}]}}
    found = job_facts(replace(job(1, "run"), progress=Progress(step=5, last_loss=2.5)), resource)
    path = "jobSpec.workerPoolSpecs[0].containerSpec"
    assert found.parameters == {
        f"{path}.args steps": 5, f"{path}.args rate": 0.1, f"{path}.args[2]": "data.txt",
        f"{path}.env HF_TOKEN": MASK,
    }  # fmt: skip
    assert (found.results["step"], found.results["loss"]) == (5, 2.5)


def test_a_tuning_job_has_its_study_and_its_best_trial() -> None:
    trials = tuple(
        Task(str(n), JobState.SUCCEEDED, metrics={"loss": 3.0 - n}, parameters={"rate": n / 10})
        for n in (1, 2)
    )
    sweep = replace(
        job(1, "run"), kind="tuning_job", tasks=trials, details=Study(metrics=(Metric("loss", False),))
    )
    found = tuning_facts(sweep, {"maxTrialCount": 2, "studySpec": {"algorithm": "GRID_SEARCH"}})
    assert found.parameters == {"maxTrialCount": 2, "studySpec.algorithm": "GRID_SEARCH"}
    assert found.results["best loss"] == 1.0 and found.results["best rate"] == 0.2
    assert found.results["trials succeeded"] == 2


@pytest.mark.parametrize("kind", [kind.key for kind in kinds()])
def test_every_kind_is_comparable(kind: str) -> None:
    (found,) = (each for each in kinds() if each.key == kind)
    facts = resolve(found.compared)(replace(job(1, "run"), kind=kind), {})
    assert isinstance(facts, RunFacts)
