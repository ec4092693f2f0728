"""The attempts of a job: their boundaries, their buckets, and the work that was lost."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.ui.double import NOON, job
from tui.domain.attempts.history import AttemptHistory, TimeBucket, attempts_of
from tui.domain.attempts.interruptions import with_interruptions
from tui.domain.attempts.milestones import MilestoneKind, milestone_of
from tui.domain.core.log_entry import SERVICE, LogEntry, Severity
from tui.domain.core.replica import Replica
from tui.domain.core.states import JobState
from tui.domain.core.training_progress import Progress, TrainingStep, training_step
from tui.domain.fields.attempts import attempts_json, bucket_costs
from tui.domain.fields.job_row import JobRow
from tui.domain.fields.jobs import progress_cell
from tui.domain.vertex.prices import Range

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
RECORDED = Path(__file__).with_name("attempts_of_three_kinds.jsonl")
SETTING_UP = (
    (0, "Waiting for job to be provisioned."),
    (60, "Vertex AI is setting up this job."),
    (80, "Job is preparing."),
    (90, "Job is running."),
)


def entry(at: float, text: str, replica: str = SERVICE, json: Mapping[str, Any] | None = None) -> LogEntry:
    return LogEntry(BEGIN + timedelta(seconds=at), f"{at}", replica, Severity.INFO, text, json)


def phase(at: float, name: str, replica: str = "workerpool0-0", **fields: Any) -> LogEntry:
    return entry(at, name, replica, {"vxtui": {"kind": "phase", "phase": name, **fields}})


def line(at: float, kind: str, replica: str = "workerpool0-0", **fields: Any) -> LogEntry:
    return entry(at, kind, replica, {"vxtui": {"kind": kind, **fields}})


def steps(first: int, last: int, since: float, every: float = 1.0) -> list[TrainingStep]:
    """Steps `first` to `last`, the first `every` seconds after `since`."""
    return [
        TrainingStep(BEGIN + timedelta(seconds=since + every * (step - first + 1)), step)
        for step in range(first, last + 1)
    ]


def history(
    entries: Sequence[LogEntry], reported: Sequence[TrainingStep], end: float, *, ended: bool = True
) -> AttemptHistory:
    """The attempts of a job from 0 s to `end`; every second must be in a bucket."""
    last = BEGIN + timedelta(seconds=end)
    milestones = [milestone for e in entries if (milestone := milestone_of(e)) is not None]
    attempts = attempts_of(BEGIN, last if ended else None, last, milestones, reported)
    assert sum(attempts.seconds.values()) == pytest.approx(end)
    for before, after in zip(attempts.attempts, attempts.attempts[1:], strict=False):
        assert before.end == after.begin
    return attempts


def setting_up(since: float = 0.0) -> list[LogEntry]:
    return [entry(since + at, text) for at, text in SETTING_UP]


def test_a_job_without_interruption_is_one_attempt() -> None:
    lines = [
        *setting_up(),
        phase(90, "rendezvous"),
        phase(100, "training"),
        line(130, "checkpoint", step=30, stall_seconds=2.0),
        line(151, "eval", step=50),
        entry(160, "Tearing down training program."),
    ]
    whole = history(lines, steps(1, 50, 100), 170)
    (attempt,) = whole.attempts
    assert whole.seconds == {
        TimeBucket.PROVISIONING: 60,
        TimeBucket.IMAGE: 30,
        TimeBucket.RENDEZVOUS: 10,
        TimeBucket.TRAINING: 57,
        TimeBucket.CHECKPOINT: 2,
        TimeBucket.EVALUATION: 1,
        TimeBucket.ENDING: 10,
    }
    assert (attempt.first_step, attempt.last_step, attempt.lost_steps) == (1, 50, 0)
    assert whole.goodput == pytest.approx(57 / 170)


@pytest.mark.parametrize("name", ["rendezvous", "training"])
def test_a_replica_that_starts_after_another_has_ended_does_not_move_the_attempt_back(name: str) -> None:
    whole = history([*setting_up(), line(95, "done"), phase(96, name, "workerpool1-0")], [], 100)
    (attempt,) = whole.attempts
    assert attempt.seconds[TimeBucket.ENDING] == 5


def test_a_preemption_loses_the_steps_after_the_checkpoint() -> None:
    lines = [
        *setting_up(),
        phase(100, "training"),
        entry(150, "workerpool0-0: the machine is reclaimed: SIGTERM sent, SIGKILL follows in 30 s"),
        line(160, "preempted", step=50),
        *setting_up(200),
        line(300, "resumed", step=40),
        phase(300, "training"),
    ]
    whole = history(lines, [*steps(1, 50, 100), *steps(41, 100, 300)], 360)
    first, second = whole.attempts
    assert first.interrupted_by is not None and "reclaimed" in first.interrupted_by.text
    assert (first.last_step, first.lost_steps, second.resumed_from, second.first_step) == (50, 10, 40, 41)
    assert first.seconds[TimeBucket.LOST] == 10 and first.seconds[TimeBucket.TRAINING] == 40
    assert second.seconds[TimeBucket.RESTART] == 50, "from the signal to the next provisioning"
    assert whole.lost_steps == 10


def test_a_resume_before_the_last_attempt_loses_steps_of_both() -> None:
    lines = [
        phase(0, "training"),
        phase(20, "restarting"),
        line(30, "resumed", step=10),
        phase(30, "training"),
        phase(40, "restarting"),
        line(50, "resumed", step=5),
        phase(50, "training"),
    ]
    reported = [*steps(1, 20, 0), *steps(11, 20, 30), *steps(6, 30, 50)]
    whole = history(lines, reported, 75)
    assert [attempt.lost_steps for attempt in whole.attempts] == [15, 10, 0]
    assert whole.seconds[TimeBucket.LOST] == 25
    assert whole.seconds[TimeBucket.RESTART] == 20


def test_a_script_that_only_counts_steps_has_attempts() -> None:
    lines = [
        entry(21, "Loading checkpoint from /out/checkpoint-10", "worker-0"),
        entry(35, "Saving model checkpoint to /out/checkpoint-20", "worker-0"),
    ]
    whole = history(lines, [*steps(1, 12, 0), *steps(11, 30, 22)], 45, ended=False)
    first, second = whole.attempts
    assert (first.last_step, first.lost_steps, second.first_step) == (12, 2, 11)
    assert second.end is None


def test_an_elastic_run_that_trains_on_is_one_attempt() -> None:
    lines = [
        phase(0, "training"),
        line(10, "preempted", "workerpool1-0", step=10),
        phase(12, "training", epoch=2, lost=[1]),
        phase(30, "rendezvous", "workerpool1-0"),
        phase(32, "training", "workerpool1-0", epoch=3),
    ]
    (attempt,) = history(lines, steps(1, 60, 0), 60).attempts
    assert attempt.seconds == {TimeBucket.TRAINING: 60}
    assert attempt.interrupted_by is None


def test_a_rollback_loses_steps_without_a_new_attempt() -> None:
    lines = [phase(0, "training"), line(20, "guard", action="rollback", step=10)]
    (attempt,) = history(lines, [*steps(1, 20, 0), *steps(11, 30, 20)], 40).attempts
    assert (attempt.lost_steps, attempt.last_step) == (10, 30)
    assert attempt.seconds[TimeBucket.LOST] == 10


def test_three_interruptions_of_a_real_run() -> None:
    """A run on two replicas: both machines preempted, a process killed, one machine preempted."""
    lines = [json.loads(text) for text in RECORDED.read_text().splitlines()]
    entries = [
        LogEntry(
            datetime.fromisoformat(line["timestamp"]), f"{number}", line["replica"], Severity.INFO,
            line["message"], line if "vxtui" in line else None,
        )
        for number, line in enumerate(lines)
    ]  # fmt: skip
    reported = [sample for e in entries if (sample := training_step(e.timestamp, e.json)) is not None]
    milestones = [milestone for e in entries if (milestone := milestone_of(e)) is not None]
    begin, end = entries[0].timestamp, entries[-1].timestamp
    whole = attempts_of(begin, end, end, milestones, reported, outcome="succeeded")
    assert sum(whole.seconds.values()) == pytest.approx((end - begin).total_seconds())
    assert [(a.last_step, a.resumed_from, a.lost_steps) for a in whole.attempts] == [
        (63, None, 0), (128, 63, 8), (179, 120, 0), (240, 179, 0),
    ]  # fmt: skip
    for attempt in whole.attempts:
        assert attempt.end is not None
        assert sum(attempt.seconds.values()) == pytest.approx((attempt.end - attempt.begin).total_seconds())
    causes = [attempt.outcome for attempt in whole.attempts]
    assert "reclaimed" in causes[0] and "exit code 137" in causes[1] and "reclaimed" in causes[2]
    assert causes[3] == "succeeded"
    (own,) = [line["vxtui"]["goodput"] for line in lines if line.get("vxtui", {}).get("kind") == "done"]
    # The trainer multiplies whole steps by the last duration; the log has the times of every second step.
    assert whole.seconds[TimeBucket.LOST] == pytest.approx(
        own["badput_time"]["WASTED_PROGRESS_FROM_DISRUPTION"], abs=0.8
    )
    assert whole.seconds[TimeBucket.TRAINING] == pytest.approx(own["goodput_time"], rel=0.02)


def test_a_job_that_waits_has_its_time_in_the_queue() -> None:
    whole = history([entry(5, "Job is queued: no quota is free.")], [], 65, ended=False)
    assert whole.seconds == {TimeBucket.QUEUED: 65} and whole.goodput is None


def test_events_of_a_cluster_are_milestones() -> None:
    def event(at: float, reason: str) -> LogEntry:
        return entry(at, f"{reason} of the pod", SERVICE, {"reason": reason, "object": "Pod/a"})

    lines = [
        event(0, "FailedScheduling"),
        event(20, "Scheduled"),
        event(30, "Started"),
        event(70, "Preempted"),
        event(80, "FailedScheduling"),
        event(100, "Scheduled"),
        event(105, "Started"),
    ]
    whole = history(lines, [*steps(1, 30, 40), *steps(1, 50, 110)], 160)
    first, second = whole.attempts
    assert (first.lost_steps, second.resumed_from, second.last_step) == (30, None, 50)
    assert whole.seconds[TimeBucket.PROVISIONING] == 40 and whole.seconds[TimeBucket.LOST] == 29, (
        "the first step ends the start"
    )


@pytest.mark.parametrize(
    "text, kind",
    [
        ("Saving model checkpoint to out/checkpoint-500", MilestoneKind.CHECKPOINT),
        ("successfully saved checkpoint at iteration    2000 to /ckpt", MilestoneKind.CHECKPOINT),
        ("[Torch] Checkpoint global_step100 is about to be saved!", MilestoneKind.CHECKPOINT),
        ("Continuing training from global step 40", MilestoneKind.LOADING),
        ("Resuming from checkpoint out/last.ckpt", MilestoneKind.LOADING),
        ("loading checkpoint shards: 100%", None),
        ("no checkpoint was found; starting from scratch", None),
    ],
)
def test_lines_of_other_trainers(text: str, kind: MilestoneKind | None) -> None:
    milestone = milestone_of(entry(0, text, "worker-0"))
    assert (milestone and milestone.kind) == kind


def test_restarts_and_preemptions_of_each_replica() -> None:
    """Only the service tells a preemption: a trainer gets SIGTERM when another machine is reclaimed, too."""
    lines = [
        phase(0, "rendezvous"), phase(1, "training"), phase(0, "rendezvous", "workerpool1-0"),
        phase(1, "training", "workerpool1-0"),
        entry(10, "workerpool1-0: the machine is reclaimed: SIGTERM sent, SIGKILL in 25 s"),
        line(11, "preempted", step=9), line(11, "preempted", "workerpool1-0", step=9),
        phase(20, "rendezvous"), phase(20, "rendezvous", "workerpool1-0"),
    ]  # fmt: skip
    milestones = [milestone for e in lines if (milestone := milestone_of(e)) is not None]
    replicas = [Replica(name, name[:-2], 0, "worker", JobState.RUNNING) for name in (
        "workerpool0-0", "workerpool1-0", "workerpool2-0")]  # fmt: skip
    found = with_interruptions(replicas, milestones)
    assert [(r.restarts, r.preemptions) for r in found] == [(1, None), (1, 1), (None, None)]


def test_money_by_bucket_adds_up_to_the_cost() -> None:
    lines = [*setting_up(), phase(90, "training"), entry(160, "Tearing down training program.")]
    whole = history(lines, steps(1, 50, 100), 170)
    costs = bucket_costs(whole, Range(1.0, 2.0))
    assert TimeBucket.PROVISIONING not in costs and bucket_costs(whole, None) == {}
    assert sum(usd.low for usd in costs.values()) == pytest.approx(1.0)
    assert sum(usd.high for usd in costs.values()) == pytest.approx(2.0)
    assert attempts_json(whole, Range(1.0, 2.0))["usd"]["training"]["high"] > 1


def test_the_list_says_the_attempt_and_the_lost_steps() -> None:
    restarted = Progress(63, 100, attempt=3, lost_steps=40)
    row = JobRow(job(1, "bert", progress=restarted), NOON)
    assert progress_cell(row).words == "attempt 3 · 63 % · lost 40 steps"
