"""The milestones of one job's attempts, collected from its log lines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from tui.domain.attempts.history import AttemptHistory, attempts_of
from tui.domain.attempts.milestones import Milestone, milestone_of
from tui.domain.attempts.outcome import outcome_of
from tui.domain.core.job import Job
from tui.domain.core.log_entry import SERVICE, LogEntry
from tui.domain.core.training_progress import TrainingStep

MOST_MILESTONES = 20_000
"""Maximum number of stored milestones; the newest are kept."""
SECONDS_CURRENT = 2
"""Seconds for which a history of a running job is shown."""


class JobMilestones:
    """Collects milestones in any order; a line that is read twice counts once."""

    def __init__(self) -> None:
        self._by_line: dict[tuple[datetime, int, str, str], Milestone] = {}
        self._history: tuple[object, AttemptHistory] | None = None
        """The last history and what it was made of, because every repaint reads it."""

    def add(self, entries: Iterable[LogEntry]) -> bool:
        """Read these lines. Return whether there is a new milestone."""
        before = len(self._by_line)
        for entry in entries:
            milestone = milestone_of(entry)
            if milestone is not None:
                self._by_line[entry.key] = milestone
        for key in sorted(self._by_line)[: max(0, len(self._by_line) - MOST_MILESTONES)]:
            del self._by_line[key]
        return len(self._by_line) != before

    @property
    def of_service(self) -> list[Milestone]:
        """Milestones from the service's messages."""
        return [milestone for milestone in self._by_line.values() if milestone.replica == SERVICE]

    def history(self, job: Job, steps: Sequence[TrainingStep], now: datetime) -> AttemptHistory | None:
        """Return the attempts of the job; `None` if the time of its creation is unknown."""
        if job.create_time is None:
            return None
        end = job.end_time or now
        current = int(end.timestamp() / SECONDS_CURRENT)
        made_of = (len(self._by_line), len(steps), job.end_time, job.error, current)
        if self._history is None or self._history[0] != made_of:
            milestones = self._by_line.values()
            history = attempts_of(
                job.create_time, job.end_time, now, milestones, steps, outcome=outcome_of(job)
            )
            self._history = made_of, history
        return self._history[1]
