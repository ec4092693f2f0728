"""What several tests share with test_folded_jobs."""

from __future__ import annotations

from dataclasses import replace

from tests.ui.double import job, pool
from tests.ui.training_pipeline_support import Kind
from tui.domain.core.job import Job
from tui.domain.core.states import JobState
from tui.domain.core.task import Task

GPU = "NVIDIA_L4"
RUNNING, DONE = JobState.RUNNING, JobState.SUCCEEDED


def of_kind(found: Job, kind: str, collection: str, tasks: tuple[Task, ...], groups: bool = True) -> Job:
    name = found.name.replace("customJobs", collection)
    return replace(
        found, name=name, kind=kind, tasks=tasks, composite=True, groups=found.groups if groups else ()
    )


def parts_of(jobs: list[Job]) -> tuple[Task, ...]:
    return tuple(Task(str(at), each.state, each.name, name=each.display_name) for at, each in enumerate(jobs))


TRIALS = [job(n, f"sweep-{n}", RUNNING, age=10 - n, groups=(pool(0, 1, GPU, 2),)) for n in (1, 2)]
SWEEP = of_kind(
    job(3, "sweep", RUNNING, age=10, groups=(pool(0, 1, GPU, 2),)),
    "tuning_job", "hyperparameterTuningJobs", parts_of(TRIALS),
)  # fmt: skip
TOKENIZE = job(4, "tokenize", DONE, age=15)
NIGHTLY = of_kind(
    job(5, "nightly", RUNNING, age=20), "pipeline_job", "pipelineJobs", parts_of([TOKENIZE, SWEEP]), False
)


class Sweeps(Kind):
    kind = "tuning_job"
    collection = "hyperparameterTuningJobs"
