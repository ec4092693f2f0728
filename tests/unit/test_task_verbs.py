"""A task of a job by its name or id, and what a verb says where it needs one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.ui.double import job
from tui.domain.core.states import JobState
from tui.domain.core.task import Task
from tui.domain.core.training_progress import Progress
from tui.domain.tuning.study import Metric, Study
from tui.verbs.launch import _state_words
from tui.verbs.run import VerbFailure, runner_of, task_named

CUSTOM = "projects/p/locations/r/customJobs/"
TASKS = (
    Task("1", JobState.SUCCEEDED, f"{CUSTOM}11", name="tokenize"),
    Task("2", JobState.SKIPPED, name="cached", native_state="SKIPPED"),
    Task("3", JobState.SUCCEEDED, f"{CUSTOM}13", name="train"),
    Task("4", JobState.FAILED, name="train", failed_jobs=(f"{CUSTOM}14",)),
)
PIPELINE = replace(job(9, "nightly"), kind="pipeline_job", tasks=TASKS, composite=True, groups=())


@pytest.mark.parametrize(("wanted", "found"), [("1", "1"), ("tokenize", "1"), ("3", "3"), ("4", "4")])
def test_a_task_is_found_by_id_and_by_a_name_that_only_one_has(wanted: str, found: str) -> None:
    assert task_named(PIPELINE, wanted, "logs").id == found


@pytest.mark.parametrize(
    ("wanted", "message", "code"),
    [
        ("train", "2 tasks are named train: use the id.", "AMBIGUOUS"),
        ("cached", "The task cached of nightly has no job: it is skipped.", "FAILED_PRECONDITION"),
        ("gone", "nightly has no task gone.", "NOT_FOUND"),
    ],
)
def test_another_one_is_refused_with_those_that_there_are(wanted: str, message: str, code: str) -> None:
    with pytest.raises(VerbFailure) as caught:
        task_named(PIPELINE, wanted, "logs")
    assert caught.value.message == message and caught.value.code == code
    first, *rest = caught.value.fix.splitlines()
    assert first == "`vxtui logs 9 --task TASK` shows one task:"
    # What a person looks for comes first.
    assert rest == ["  4  train  failed", "  1  tokenize  succeeded", "  3  train  succeeded"]


def test_a_kind_without_logs_names_its_tasks() -> None:
    with pytest.raises(VerbFailure) as caught:
        runner_of(PIPELINE, "logs")
    assert caught.value.message == "A pipeline has no logs."
    assert "--task TASK" in caught.value.fix


def test_a_wait_names_how_many_parts_have_ended_and_the_best() -> None:
    plain = replace(job(8, "train"), state=JobState.RUNNING)
    assert _state_words(plain) == "train: running"
    nightly = replace(plain, composite=True, progress=Progress(3, 12))
    assert _state_words(nightly) == "train: running, 3/12 tasks ended"
    assert _state_words(replace(nightly, progress=Progress())) == "train: running"
    study = Study((Metric("loss", maximize=False),), trials=8)
    trials = tuple(Task(str(n), JobState.SUCCEEDED, metrics={"loss": 3.0 - n / 2}) for n in range(3))
    sweep = replace(nightly, details=study, tasks=trials, progress=Progress(3, 8))
    assert _state_words(sweep) == "train: running, 3/8 trials ended, best loss 2 by trial 2"
