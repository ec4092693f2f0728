"""The training of one job as its log lines report it: its progress, and its steps for the charts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime

from tui.domain.core.log_entry import LogEntry
from tui.domain.core.training_progress import Progress, TrainingStep, after_step
from tui.domain.progress.job_progress import JobProgress
from tui.domain.progress.line_text import may_report
from tui.domain.progress.pattern import ProgressPattern
from tui.domain.training.training_steps import History, history

MOST_TRAINING_STEPS = 20_000


class JobTraining:
    """Lines may come in any order; those older than the newest one only add their steps."""

    def __init__(self) -> None:
        self.steps: dict[tuple[datetime, int], TrainingStep] = {}
        self._reader = JobProgress()
        self._read_until: datetime | None = None
        """The service was asked for the progress; lines up to then are in it."""
        self._step_at: datetime | None = None
        """Steps up to then are in the progress."""
        self._ordered: tuple[TrainingStep, ...] | None = None
        self._history: History | None = None
        """Both are looked at with every picture, and differ with a new step only."""

    @property
    def progress(self) -> Progress:
        """What the lines have said so far."""
        return self._reader.progress

    @property
    def pattern(self) -> ProgressPattern | None:
        """The job's own pattern."""
        return self._reader.pattern

    @pattern.setter
    def pattern(self, pattern: ProgressPattern | None) -> None:
        self._reader.pattern = pattern

    def tells(self, entry: LogEntry) -> bool:
        """Whether a line may tell of the training; False for nearly every line of text."""
        return entry.json is not None or self.pattern is not None or may_report(entry.message)

    def samples(self) -> Sequence[TrainingStep]:
        """Reported steps, the oldest first."""
        if self._ordered is None:
            self._ordered = tuple(self.steps[key] for key in sorted(self.steps))
        return self._ordered

    def history(self) -> History:
        """Which of them led to where the run is, and which it went back over."""
        if self._history is None:
            self._history = history(self.samples())
        return self._history

    @property
    def state(self) -> tuple[Progress, int]:
        """Differs once a line has said anything new."""
        return self.progress, len(self.steps)

    def read(self, entries: Iterable[LogEntry]) -> Iterator[None]:
        """Read lines, one with each turn of the iterator; no other may be begun before it has ended."""
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
        found = reader.add(entry)
        if self._read_until is not None and entry.timestamp <= self._read_until:
            reader.progress = progress
        if reader.generation != generation:
            self.steps.clear()
            self._differ()
        for sample in found:
            self._keep(sample)
            self._step_at = max(self._step_at or sample.timestamp, sample.timestamp)

    def _read_late(self, entries: Sequence[LogEntry]) -> Iterator[None]:
        """Steps of lines that came late, or of older ones that were asked for.

        What a trainer of somebody else's prints is told from the lines before it: only lines that are older
        than all that is known here are read so.
        """
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

    def merge(self, older: Iterable[TrainingStep], found: Progress | None) -> None:
        """Add steps and the progress that the service was asked for; what the lines said is kept."""
        for sample in older:
            self.steps.setdefault((sample.timestamp, sample.step), sample)
        self._differ()
        mine = self.progress.updated_at
        if found is not None and (mine is None or (found.updated_at and found.updated_at >= mine)):
            self._reader.progress = found
            self._read_until = self._step_at = found.updated_at
        elif found is not None and found.first_loss is not None:
            self._reader.progress = replace(self.progress, first_loss=found.first_loss)
        if self.steps:
            # They may have been read after the progress.
            self._catch_up(self.steps[max(self.steps)])

    def _catch_up(self, sample: TrainingStep) -> None:
        """Take a step newer than that of the progress: a line of another replica came before its own."""
        progress = self.progress
        if progress.step is None or self._step_at is None or sample.timestamp <= self._step_at:
            return
        self._step_at = sample.timestamp
        told = after_step(progress, sample, dialect=progress.dialect)
        # What was said after the step stays.
        at = max(progress.updated_at or sample.timestamp, sample.timestamp)
        self._reader.progress = replace(told, problem=progress.problem, updated_at=at)

    def _keep(self, sample: TrainingStep) -> None:
        self.steps[sample.timestamp, sample.step] = sample
        self._differ()

    def _differ(self) -> None:
        self._ordered = self._history = None

    def _thin(self) -> None:
        if len(self.steps) > MOST_TRAINING_STEPS:
            keys = sorted(self.steps)
            # The recent half stays whole; of the rest every second one does.
            for key in keys[1 : len(keys) // 2 : 2]:
                del self.steps[key]
            self._differ()
