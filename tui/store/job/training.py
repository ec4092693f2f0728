"""A job's training progress and its steps for the charts, read from its log lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime

from tui.domain.core.job import Job
from tui.domain.core.log_entry import LogEntry
from tui.domain.core.training_progress import Progress, TrainingStep, after_step
from tui.domain.progress.dialects import may_report
from tui.domain.progress.job_progress import JobProgress
from tui.domain.progress.pattern import ProgressPattern
from tui.domain.training.training_steps import History, history

MOST_TRAINING_STEPS = 20_000


class JobTraining:
    """Progress and steps of one job. Lines may arrive in any order; older lines only add steps."""

    def __init__(self) -> None:
        self.steps: dict[tuple[datetime, int], TrainingStep] = {}
        self._reader = JobProgress()
        self._read_until: datetime | None = None
        """Time up to which the progress read from the service includes the lines."""
        self._step_at: datetime | None = None
        """Time of the newest step that the progress includes."""
        self._ordered: tuple[TrainingStep, ...] | None = None
        self._history: History | None = None
        """Samples and history, cached until a new step arrives, because every repaint reads them."""

    @property
    def progress(self) -> Progress:
        """The progress that the lines read so far have reported."""
        return self._reader.progress

    @property
    def pattern(self) -> ProgressPattern | None:
        """The job's own progress pattern."""
        return self._reader.pattern

    @pattern.setter
    def pattern(self, pattern: ProgressPattern | None) -> None:
        self._reader.pattern = pattern

    def tells(self, entry: LogEntry) -> bool:
        """Return whether a line may report training progress; false for nearly every line of text."""
        return entry.json is not None or self.pattern is not None or may_report(entry.message)

    def watch_line(self, entry: LogEntry) -> None:
        """Record the time of a line that reports no progress."""
        self._reader.watch_line(entry)

    def observe(self, job: Job, now: datetime) -> None:
        """Set the silence of the progress."""
        self._reader.observe(job, now)

    def samples(self) -> Sequence[TrainingStep]:
        """Return the reported steps, oldest first."""
        if self._ordered is None:
            self._ordered = tuple(self.steps[key] for key in sorted(self.steps))
        return self._ordered

    def history(self) -> History:
        """Return the steps that led to the current state, and the repeated steps."""
        if self._history is None:
            self._history = history(self.samples())
        return self._history

    @property
    def state(self) -> tuple[Progress, int]:
        """A value that changes once a line has reported anything new."""
        return self.progress, len(self.steps)

    def read(self, entries: Iterable[LogEntry]) -> Iterator[None]:
        """Read lines, one per iteration. Finish one iterator before starting the next."""
        last = self._reader.last
        late: list[LogEntry] = []
        for entry in sorted(entries, key=lambda entry: entry.key):
            if last is not None and entry.key <= last:
                late.append(entry)
            else:
                self._add(entry)
                yield
        if late:
            yield from self._read_late(late)
        self._thin()

    def _add(self, entry: LogEntry) -> None:
        reader = self._reader
        generation, progress = reader.generation, reader.progress
        samples = reader.add(entry)
        if self._read_until is not None and entry.timestamp <= self._read_until:
            reader.progress = progress
        if reader.generation != generation:
            self.steps.clear()
            self._differ()
        for sample in samples:
            self._keep(sample)
            self._step_at = max(self._step_at or sample.timestamp, sample.timestamp)

    def _read_late(self, entries: Sequence[LogEntry]) -> Iterator[None]:
        """Read steps from late lines, or from older lines that were requested. Third-party lines depend on
        the lines before them, so only lines older than everything known here are read."""
        reader = JobProgress(self.pattern)
        reader.structured = self._reader.structured
        oldest = min(self.steps, default=None)
        for entry in entries:
            for sample in reader.add(entry):
                first = oldest is None or sample.timestamp < oldest[0]
                if reader.structured:
                    self._catch_up(sample)
                if reader.structured or (first and self._reader.replica in {"", entry.replica}):
                    self._keep(sample)
            yield

    def merge(self, older: Iterable[TrainingStep], progress: Progress | None) -> None:
        """Add older steps and the progress read from the service. Reports of the lines take precedence."""
        for sample in older:
            self.steps.setdefault((sample.timestamp, sample.step), sample)
        self._differ()
        mine = self.progress.updated_at
        if progress is not None and (mine is None or (progress.updated_at and progress.updated_at >= mine)):
            self._reader.progress = progress
            self._read_until = self._step_at = progress.updated_at
        elif progress is not None and progress.first_loss is not None:
            self._reader.progress = replace(self.progress, first_loss=progress.first_loss)
        if self.steps:
            # The service's steps may be newer than its progress.
            self._catch_up(self.steps[max(self.steps)])

    def _catch_up(self, sample: TrainingStep) -> None:
        """Apply a step newer than the progress, because another replica's line may precede its line."""
        progress = self.progress
        if progress.step is None or self._step_at is None or sample.timestamp <= self._step_at:
            return
        self._step_at = sample.timestamp
        advanced = after_step(progress, sample, dialect=progress.dialect)
        # Preserve the values reported after the step.
        at = max(progress.updated_at or sample.timestamp, sample.timestamp)
        self._reader.progress = replace(advanced, problem=progress.problem, updated_at=at)

    def _keep(self, sample: TrainingStep) -> None:
        self.steps[sample.timestamp, sample.step] = sample
        self._differ()

    def _differ(self) -> None:
        self._ordered = self._history = None

    def _thin(self) -> None:
        if len(self.steps) > MOST_TRAINING_STEPS:
            keys = sorted(self.steps)
            # Store the recent half, and every second step of the older half.
            for key in keys[1 : len(keys) // 2 : 2]:
                del self.steps[key]
            self._differ()
