"""The training steps of one job, collected while its log is read, and thinned for drawing."""

from __future__ import annotations

from collections.abc import Iterable

from tui.domain.core.log_entry import LogEntry
from tui.domain.core.training_progress import TrainingStep
from tui.domain.progress.job_progress import JobProgress
from tui.domain.progress.pattern import ProgressPattern

MOST_TRAINING_STEPS = 2000


class CollectedSteps:
    """Steps of one replica, possibly reported repeatedly; every n-th step and the newest step are stored."""

    def __init__(self, pattern: ProgressPattern | None = None) -> None:
        self.reader = JobProgress(pattern)
        self._replica = ""
        self._samples: list[TrainingStep] = []
        self._newest: TrainingStep | None = None
        self._stride, self._count = 1, 0

    def add(self, entries: Iterable[LogEntry]) -> None:
        """Read entries in the order of the log; skip entries that were read before."""
        reader = self.reader
        for entry in entries:
            if reader.last is not None and entry.key <= reader.last:
                continue
            generation = reader.generation
            samples = reader.add(entry)
            if reader.generation != generation:
                self._samples, self._newest, self._stride, self._count, self._replica = [], None, 1, 0, ""
            for sample in samples:
                self._replica = self._replica or entry.replica
                if not reader.structured or entry.replica == self._replica:
                    self._keep(sample)

    def thinned(self) -> tuple[TrainingStep, ...]:
        """Return the stored steps, the oldest first."""
        newest = self._newest
        tail = () if newest is None or newest in self._samples[-1:] else (newest,)
        return (*self._samples, *tail)

    def _keep(self, sample: TrainingStep) -> None:
        if self._newest is not None and self._newest.step == sample.step:
            # Another line reports the same step.
            if self._samples and self._samples[-1].step == sample.step:
                self._samples[-1] = sample
            self._newest = sample
            return
        if self._count % self._stride == 0:
            self._samples.append(sample)
        self._newest = sample
        self._count += 1
        if len(self._samples) >= MOST_TRAINING_STEPS:
            self._samples = self._samples[::2]
            self._stride *= 2
