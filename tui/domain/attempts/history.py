"""The history of a job's attempts: every second of a job belongs to one attempt and one bucket."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum

from tui.domain.attempts.milestones import Milestone, MilestoneKind
from tui.domain.core.log_entry import SERVICE
from tui.domain.core.training_progress import TrainingStep


class TimeBucket(Enum):
    """The uses of a job's time, in the order in which an attempt has them."""

    RESTART = "restart"
    QUEUED = "queued"
    PROVISIONING = "provisioning"
    IMAGE = "image"
    STARTING = "starting"
    RENDEZVOUS = "rendezvous"
    LOADING = "checkpoint load"
    TRAINING = "training"
    CHECKPOINT = "checkpoint"
    EVALUATION = "evaluation"
    LOST = "lost work"
    ENDING = "ending"


@dataclass(frozen=True, slots=True)
class JobAttempt:
    """One attempt, from the interruption of the previous attempt to the attempt's own end."""

    number: int
    begin: datetime
    end: datetime | None
    """Time of the attempt's end; `None` while the attempt runs."""
    seconds: Mapping[TimeBucket, float]
    first_step: int | None
    last_step: int | None
    resumed_from: int | None
    lost_steps: int
    """Number of the attempt's steps that a later attempt repeated."""
    interrupted_by: Milestone | None
    outcome: str
    """Why it ended: the message of its interruption, or the outcome of the job; "" while it has not ended."""


@dataclass(frozen=True, slots=True)
class AttemptHistory:
    """All attempts of a job, oldest first."""

    attempts: tuple[JobAttempt, ...]
    milestones: Sequence[Milestone] = ()
    """Milestones from which the attempts follow, in time order."""

    @property
    def seconds(self) -> dict[TimeBucket, float]:
        """Return the seconds by bucket over all attempts, without empty buckets; their sum is the job's
        age."""
        sums = {
            bucket: sum(attempt.seconds.get(bucket, 0.0) for attempt in self.attempts)
            for bucket in TimeBucket
        }
        return {bucket: seconds for bucket, seconds in sums.items() if seconds > 0}

    @property
    def goodput(self) -> float | None:
        """Return the fraction of the time spent on steps that count, 0 to 1; `None` before the first step."""
        seconds = self.seconds
        whole = sum(seconds.values())
        return (
            seconds.get(TimeBucket.TRAINING, 0.0) / whole
            if TimeBucket.TRAINING in seconds and whole
            else None
        )

    @property
    def lost_steps(self) -> int:
        """Return the number of repeated steps."""
        return sum(attempt.lost_steps for attempt in self.attempts)


SUCCEEDED = "succeeded"
SURVIVED = 3
"""Number of reported steps after which a signal is assumed not to have ended the attempt. A replica that got
a signal still reports the step in progress."""
_BEGINS = frozenset({MilestoneKind.QUEUED, MilestoneKind.PROVISIONING})
"""Kinds with which the service begins an attempt."""
_STARTS = (
    MilestoneKind.QUEUED,
    MilestoneKind.PROVISIONING,
    MilestoneKind.IMAGE,
    MilestoneKind.STARTING,
    MilestoneKind.RENDEZVOUS,
    MilestoneKind.LOADING,
    MilestoneKind.TRAINING,
)
"""Kinds of an attempt's start, in order."""
_PHASES = (*_STARTS, MilestoneKind.ENDING)
"""Phases of an attempt, in order; a late replica does not move the attempt back."""


@dataclass(slots=True)
class _Step:
    """A completed step: its attempt, and the seconds since the previous step or milestone."""

    step: int
    attempt: _Building
    seconds: float


@dataclass(slots=True)
class _Building:
    """An attempt whose milestones are being read."""

    begin: datetime
    seconds: dict[TimeBucket, float] = field(default_factory=lambda: dict.fromkeys(TimeBucket, 0.0))
    phase: MilestoneKind = MilestoneKind.QUEUED
    started: set[str] = field(default_factory=set)
    """Replicas that have begun the attempt."""
    first_step: int | None = None
    last_step: int | None = None
    resumed_from: int | None = None
    lost_steps: int = 0
    interrupted_by: Milestone | None = None
    end: datetime | None = None


class _Builder:
    """Reads milestones and steps in time order."""

    def __init__(self, begin: datetime) -> None:
        self.attempts = [_Building(begin)]
        self._until = begin
        """Time up to which every second has a bucket."""
        self._interruption: Milestone | None = None
        """The first milestone of an interruption that the job may not survive."""
        self._unclear = 0.0
        """Seconds since the interruption's milestone: restart time if a new attempt follows, otherwise
        training time."""
        self._steps_since = 0
        """Number of steps reported since the interruption's milestone."""
        self._after_step: dict[TimeBucket, float] = {}
        """Seconds of this attempt since its last step, by bucket."""
        self._steps: list[_Step] = []
        """Steps that count so far, in increasing order."""

    @property
    def _now(self) -> _Building:
        return self.attempts[-1]

    def add_step(self, at: datetime, step: int) -> None:
        """Read a step that was completed at this time. Nearly every step follows another step."""
        current = self._now
        follows = self._steps and step > self._steps[-1].step and at >= self._until
        if not follows or current.first_step is None or self._interruption is not None:
            self.add(Milestone(at, MilestoneKind.TRAINING, step=step))
            return
        seconds = (at - self._until).total_seconds()
        self._until = at
        current.seconds[TimeBucket.TRAINING] += seconds
        current.last_step = step
        self._after_step.clear()
        self._steps.append(_Step(step, current, seconds))

    def add(self, event: Milestone) -> None:
        at = max(event.timestamp, self._until)
        passed = (at - self._until).total_seconds()
        self._until = at
        if self._begins_attempt(event):
            self._begin(passed, at)
            passed = 0.0
        self._count(event, passed)
        if event.kind is MilestoneKind.INTERRUPTED and not self._is_late(event):
            if event.step is not None and event.step > (self._now.last_step or 0):
                self._step(event.step, 0.0)
            self._interruption = self._interruption or event
        elif event.kind in (MilestoneKind.LOADING, MilestoneKind.ROLLBACK) and event.step is not None:
            self._return_to(event.step)
            self._now.resumed_from = (
                event.step if event.kind is MilestoneKind.LOADING else self._now.resumed_from
            )
        elif event.kind is MilestoneKind.CHECKPOINT:
            self._move(TimeBucket.TRAINING, TimeBucket.CHECKPOINT, event.seconds)
        elif event.kind is MilestoneKind.TRAINING and event.step is not None:
            self._step(event.step, 0.0 if self._interruption else passed)
        if event.kind in _STARTS:
            self._now.started.add(event.replica)
        if event.kind in _PHASES and _PHASES.index(event.kind) > _PHASES.index(self._now.phase):
            self._now.phase = event.kind

    def _is_late(self, event: Milestone) -> bool:
        """Return whether the replica reports the end of the previous attempt, although other replicas have
        begun this attempt."""
        if event.replica == SERVICE or len(self.attempts) == 1:
            return False
        return event.replica not in self._now.started

    def _begins_attempt(self, event: Milestone) -> bool:
        current = self._now
        if event.kind is MilestoneKind.TRAINING and event.step is not None:
            return current.last_step is not None and event.step < current.last_step and not self._rolled_back
        trained = current.last_step is not None or self._interruption is not None
        if event.kind in _BEGINS:
            return trained
        if event.kind is MilestoneKind.LOADING and event.step is not None:
            return current.last_step is not None and event.step <= current.last_step
        # The phase alone may come from a group of replicas that trains on without another replica.
        is_start = event.kind in _STARTS and event.kind is not MilestoneKind.TRAINING
        return self._interruption is not None and is_start

    @property
    def _rolled_back(self) -> bool:
        return self._now.last_step is not None and (
            not self._steps or self._steps[-1].step < self._now.last_step
        )

    def _begin(self, passed: float, at: datetime) -> None:
        old = self._now
        old.interrupted_by = self._interruption
        gap = self._unclear + passed
        if self._interruption is None:
            # Nothing reported the end: it followed the last step.
            for bucket, seconds in self._after_step.items():
                old.seconds[bucket] -= seconds
                gap += seconds
        self._after_step.clear()
        self._forget_interruption()
        old.end = at - timedelta(seconds=gap)
        begun = _Building(old.end)
        begun.seconds[TimeBucket.RESTART] = gap
        self.attempts.append(begun)

    def _count(self, event: Milestone, passed: float) -> None:
        """Put the seconds before this event into a bucket."""
        current = self._now
        if self._interruption is not None:
            self._unclear += passed
            self._steps_since += event.kind is MilestoneKind.TRAINING and event.step is not None
            if self._steps_since < SURVIVED:
                return
            # The job trains on: only one replica was interrupted.
            passed = self._unclear
            self._forget_interruption()
        is_evaluation = event.kind is MilestoneKind.EVALUATION and current.last_step is not None
        bucket = TimeBucket.EVALUATION if is_evaluation else _BUCKETS[current.phase]
        current.seconds[bucket] += passed
        self._after_step[bucket] = self._after_step.get(bucket, 0.0) + passed

    def _forget_interruption(self) -> None:
        self._interruption, self._unclear, self._steps_since = None, 0.0, 0

    def _step(self, step: int, seconds: float) -> None:
        current = self._now
        if self._steps and step <= self._steps[-1].step:
            self._return_to(step - 1)
        if current.first_step is None:
            current.first_step = step
        current.last_step = step
        self._after_step.clear()
        self._steps.append(_Step(step, current, seconds))

    def _return_to(self, step: int) -> None:
        """Count the steps above `step` as lost, in the attempts that did them."""
        while self._steps and self._steps[-1].step > step:
            undone = self._steps.pop()
            moved = min(undone.seconds, undone.attempt.seconds[TimeBucket.TRAINING])
            undone.attempt.seconds[TimeBucket.TRAINING] -= moved
            undone.attempt.seconds[TimeBucket.LOST] += moved
            before = max(step, self._steps[-1].step) if self._steps else step
            undone.attempt.lost_steps += undone.step - before

    def _move(self, source: TimeBucket, target: TimeBucket, seconds: float) -> None:
        moved = min(seconds, self._now.seconds[source])
        for counted in (self._now.seconds, self._after_step):
            counted[source] = counted.get(source, 0.0) - moved
            counted[target] = counted.get(target, 0.0) + moved

    def end(self, at: datetime, *, ended: bool, succeeded: bool) -> None:
        """Count the time up to `at`, the job's end or now."""
        passed = max(0.0, (at - self._until).total_seconds()) + self._unclear
        current = self._now
        bucket = TimeBucket.ENDING if ended else _BUCKETS[current.phase]
        if self._interruption is not None and not succeeded:
            bucket = TimeBucket.ENDING if ended else TimeBucket.RESTART
            current.interrupted_by = self._interruption
        current.seconds[bucket] += passed
        current.end = at if ended else None


_BUCKETS = {kind: TimeBucket(kind.value) for kind in _PHASES}


def attempts_of(
    begin: datetime,
    end: datetime | None,
    now: datetime,
    milestones: Iterable[Milestone],
    steps: Sequence[TrainingStep],
    *,
    outcome: str = "",
) -> AttemptHistory:
    """Return the attempts of a job that was created at `begin` and ended at `end`, or `None` if it still
    runs. `steps` are in time order; `outcome` is the job's, e.g. `SUCCEEDED`."""
    last = end or now
    builder = _Builder(begin)
    ordered = sorted(milestones, key=lambda milestone: milestone.timestamp)
    coming = iter(steps)
    step = next(coming, None)
    for event in [*ordered, None]:
        until = last if event is None else min(event.timestamp, last)
        while step is not None and step.timestamp <= until:
            builder.add_step(step.timestamp, step.step)
            step = next(coming, None)
        if event is not None and event.timestamp <= last:
            builder.add(event)
    builder.end(last, ended=end is not None, succeeded=outcome == SUCCEEDED)
    return AttemptHistory(
        tuple(
            JobAttempt(
                number,
                attempt.begin,
                attempt.end,
                {bucket: seconds for bucket, seconds in attempt.seconds.items() if seconds > 0},
                attempt.first_step,
                attempt.last_step,
                attempt.resumed_from,
                attempt.lost_steps,
                attempt.interrupted_by,
                _outcome(attempt, outcome),
            )
            for number, attempt in enumerate(builder.attempts, 1)
        ),
        ordered,
    )


def _outcome(attempt: _Building, outcome: str) -> str:
    if attempt.interrupted_by is not None:
        return attempt.interrupted_by.text
    return outcome if attempt.end is not None else ""
