"""Why a job of Vertex AI waits, by facts that an emulator seldom has."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from tests.ui.double import NOON, job, pool
from tui.domain.attempts.milestones import Milestone, MilestoneKind
from tui.domain.core.job import JobError
from tui.domain.core.log_entry import SERVICE
from tui.domain.core.quota import Quota
from tui.domain.core.states import JobState
from tui.domain.jobs.waiting import WaitContext, explained, waits
from tui.domain.resources.persistent import PersistentResource, ResourcePool

CPUS = "custom_model_training_cpus"
WAITING = job(5, "next", JobState.PENDING, age=10, groups=(pool(0, 2),), persistent_resource="mine")
ROOM = PersistentResource(
    "projects/p/locations/us-central1/persistentResources/mine", "mine", "us-central1", "RUNNING",
    pools=(ResourcePool("p", "n1-standard-4", replicas=4, used=3),),
)  # fmt: skip


@pytest.mark.parametrize(
    ("resources", "words", "short"),
    [
        (None, "The job waits for replicas of the persistent resource mine.", ""),
        ([], "The persistent resource mine does not exist.", "no resource mine"),
        ([ROOM], "The job waits for the persistent resource mine: 3 of 4 replicas are used.", ""),
    ],
)
def test_a_persistent_resource(resources: list[PersistentResource] | None, words: str, short: str) -> None:
    found = explained(WAITING, WaitContext(resources=resources), NOON)
    assert found.waiting == (words,)
    assert found.diagnosis is not None and found.diagnosis.short == short


def test_a_persistent_resource_that_is_too_small_or_not_there_yet() -> None:
    changing = replace(ROOM, state="PROVISIONING")
    found = explained(WAITING, WaitContext(resources=[changing]), NOON)
    assert found.waiting == ("The persistent resource mine is provisioning.",)
    large = replace(WAITING, groups=(pool(0, 5),))
    found = explained(large, WaitContext(resources=[ROOM]), NOON)
    assert found.waiting == (
        "The job needs 5 × n1-standard-4, and the persistent resource mine has at most 4.",
    )
    assert found.diagnosis is not None and found.diagnosis.short == "no room on mine"


def test_the_image_is_pulled_after_the_machines_came() -> None:
    pending = job(5, "next", JobState.PENDING, age=10)
    about = [
        Milestone(NOON - timedelta(minutes=9), MilestoneKind.PROVISIONING, SERVICE),
        Milestone(NOON - timedelta(minutes=4), MilestoneKind.IMAGE, SERVICE),
    ]
    found = explained(pending, WaitContext(milestones=about), NOON)
    assert found.waiting == ("The machines have been pulling and setting up image for 4m.",)


def test_a_job_that_waits_longer_than_any_other() -> None:
    pending = job(5, "next", JobState.PENDING, age=10)
    earlier = [job(1, "first"), job(2, "second", JobState.SUCCEEDED)]
    found = explained(pending, WaitContext([*earlier, pending]), NOON)
    assert "2 earlier jobs of this shape waited 1m here." in found.waiting[0]
    assert found.diagnosis is not None and "longer than any of these jobs" in found.diagnosis.fix
    error = JobError(8, "Resources are insufficient in region: us-central1.")
    refused = replace(job(3, "third", JobState.FAILED, error=error), start_time=None)
    found = explained(pending, WaitContext([refused]), NOON)
    assert "1 earlier job got none." in found.waiting[0]


def test_usage_that_is_reported_late_and_quotas_that_are_unknown() -> None:
    queued = job(5, "next", JobState.QUEUED, age=10)
    assert explained(queued, WaitContext(), NOON).waiting == (
        "The job waits in the queue while the training quota is used up.",
    )
    room = [Quota(CPUS, "us-central1", 100, 0)]
    assert "has room" in explained(queued, WaitContext(quotas=room), NOON).waiting[0]


def test_other_jobs_stay_as_they_are() -> None:
    for other in (job(1, "runs"), job(2, "ended", JobState.FAILED)):
        assert explained(other, WaitContext(), NOON) is other and not waits(other)
