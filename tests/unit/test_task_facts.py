"""What is known of one task of a pipeline: values, artifacts, attempts, and whose outputs the cache had."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from tests.ui.double import NOON
from tests.ui.pipeline_support import PIPELINE
from tui.domain.core.job import Job
from tui.domain.core.states import JobState
from tui.domain.core.task import Artifact, Task
from tui.domain.masking import MASK
from tui.domain.pipeline.facts import attempts, cached_from, facts, same_work
from tui.domain.pipeline.run import PipelineRun

RUN = "projects/p/locations/r/pipelineJobs/nightly-2"
MODEL = Artifact("gs://b/root/123/nightly-1/train_-77/model", "system.Model", "model", {"framework": "torch"})
TRAIN = Task(
    "3", JobState.SUCCEEDED, "customJobs/9", name="train", depends_on=("1",), native_state="SUCCEEDED",
    parameters={"rate": 0.1, "api_key": "sk-not-shown", "sizes": [1, 2]},
    outputs={"loss": 2.5, "model": MODEL.uri},
    output_artifacts={"model": (MODEL,)}, failed_jobs=("customJobs/7", "customJobs/8"),
)  # fmt: skip
OTHERS = {"1": Task("1", name="tokenize"), "3": TRAIN, "4": Task("4", name="deploy", depends_on=("3",))}


def lines(task: Task) -> list[tuple[str, str, str]]:
    return [(fact.part, fact.name, fact.value) for fact in facts(task, OTHERS, RUN)]


def test_every_value_artifact_and_attempt_is_a_line() -> None:
    assert lines(TRAIN) == [
        ("task", "after", "tokenize"),
        ("task", "before", "deploy"),
        ("attempt", "1 failed", "customJobs/7"),
        ("attempt", "2 failed", "customJobs/8"),
        ("attempt", "3 succeeded", "customJobs/9"),
        ("input", "rate", "0.1"),
        ("input", "api_key", MASK),
        ("input", "sizes", "[1, 2]"),
        ("output", "loss", "2.5"),
        ("output", "model", MODEL.uri),
        ("output", "model type", "system.Model"),
        ("output", "model.framework", "torch"),
    ]
    assert attempts(Task("1")) == []
    found = facts(TRAIN, OTHERS, RUN)
    assert len({fact.key for fact in found}) == len(found)


def test_cached_outputs_name_the_run_that_made_them() -> None:
    cached = Task("3", JobState.SKIPPED, native_state="SKIPPED", output_artifacts={"model": (MODEL,)})
    assert cached_from(cached, RUN) == "projects/p/locations/r/pipelineJobs/nightly-1"
    assert cached_from(cached, RUN.replace("nightly-2", "nightly-1")) == "", "its own folder says nothing"
    assert cached_from(TRAIN, RUN) == "", "it ran itself"
    elsewhere = Task("3", native_state="SKIPPED", output_artifacts={"model": (Artifact("gs://b/model"),)})
    assert cached_from(elsewhere, RUN) == ""


def test_only_an_artifact_of_metrics_has_figures() -> None:
    said = {"accuracy": 0.9, "rows": 12, "ok": True, "note": "x"}
    assert Artifact("", "system.Metrics", metadata=said).metrics == {"accuracy": 0.9, "rows": 12.0}
    assert Artifact("", "system.Model", metadata=said).metrics == {}


def test_the_jobs_of_all_attempts_are_parts() -> None:
    assert TRAIN.jobs == ("customJobs/7", "customJobs/8", "customJobs/9") and Task("1").jobs == ()


def test_cached_outputs_without_a_uri_are_found_in_an_earlier_run() -> None:
    def run(number: int, state: str, loss: float, pipeline: str = "nightly") -> Job:
        job = replace(PIPELINE, name=f"{RUN}{number}", create_time=NOON + timedelta(hours=number))
        own = Task("1", name="train", native_state=state, parameters={"rate": 0.1}, outputs={"loss": loss})
        return replace(job, tasks=(own,), details=PipelineRun(pipeline))

    now = run(9, "SKIPPED", 2.5)
    made = "SUCCEEDED"
    runs = [run(1, made, 2.5), run(2, made, 2.5), run(3, "SKIPPED", 2.5), run(4, made, 2.0),
            run(5, made, 2.5, "weekly"), now]  # fmt: skip
    (task,) = now.tasks
    assert same_work(task, now, runs) == f"{RUN}2", "the newest run of this pipeline that made them"
    assert facts(task, {}, now.name, f"{RUN}2")[0].name == "cached, as in"
    assert same_work(task, now, [now]) == "" and same_work(TRAIN, now, runs) == ""
