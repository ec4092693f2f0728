"""The progress of a job from its log entries: structured lines if they exist, else third-party lines."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from tui.domain.core.figures import count, finite, later
from tui.domain.core.job import Job
from tui.domain.core.log_entry import SERVICE, LogEntry
from tui.domain.core.replica import replica_order
from tui.domain.core.states import JobState
from tui.domain.core.training_progress import (
    MOST_NUMBERS,
    RECENT,
    STEPS,
    Progress,
    TrainingStep,
    advance,
    after_step,
    pace,
    structured_fields,
    training_step,
    with_evaluation,
)
from tui.domain.progress.dialects import readings
from tui.domain.progress.parsing.reading import LineReading
from tui.domain.progress.pattern import ProgressPattern
from tui.domain.progress.silence import ENDING, EPOCH, USUAL_SILENCE, SilenceWatch
from tui.domain.progress.tracker import Tracker

MOST_SOURCES = 64
"""Maximum number of processes that are followed; processes of lower rank replace others."""
SLIGHTLY = 0.05
"""Change of a straggler's additional time that is not reported."""
QUIET = timedelta(minutes=10)
"""Silence of the reporting process after which another process replaces it."""


@dataclass(frozen=True, order=True, slots=True)
class _Source:
    """One process: its replica's position, and its rank in the replica."""

    order: tuple[int, str, int]
    rank: int


class JobProgress:
    """Reads a job's entries in the order of their times; `progress` is the state so far.

    If a job has structured steps, only these are read. If several processes report the same training, the
    steps are those of the first replica and the lowest rank that reports any.
    """

    def __init__(self, pattern: ProgressPattern | None = None) -> None:
        self.pattern = pattern
        self.progress = Progress()
        self.structured = False
        """Whether structured steps have been read."""
        self.generation = 0
        """Counter of corrections: it increases when earlier steps were wrong and should be dropped."""
        self.last: tuple[datetime, int, str, str] | None = None
        """Key of the last entry."""
        self.replica = ""
        """The replica whose steps are used; "" before the first step of an unstructured job."""
        self._trackers: dict[_Source, Tracker] = {}
        self._reporter: _Source | None = None
        self._reported_at: datetime | None = None
        self._names: dict[str, None] = {}
        self._last_step: TrainingStep | None = None
        """Last step from a structured line."""
        self._stepping = ""
        """The replica that reported the last step."""
        self._watch = SilenceWatch()
        self._recent: deque[TrainingStep] = deque(maxlen=RECENT)
        """The last reported steps, for their pace."""

    def add(self, entry: LogEntry) -> list[TrainingStep]:
        """Read one entry; return the steps that it reports, none for nearly every entry."""
        self.last = entry.key
        fields = structured_fields(entry.json)
        if fields is not None:
            self._watch_structured(entry, fields)
            reported = self._structured(entry)
            self._recent.extend(reported)
            return reported
        if self.structured or entry.replica == SERVICE:
            self.watch_line(entry)
            return []
        samples: list[TrainingStep] = []
        line_readings = readings(entry, self.pattern)
        for reading in line_readings:
            sample = self._add(entry, reading)
            if sample is not None:
                samples.append(sample)
        self._recent.extend(samples)
        if not line_readings:
            self.watch_line(entry)
        return samples

    def watch_line(self, entry: LogEntry) -> None:
        """Record the time of a line that reports no progress."""
        if entry.replica == SERVICE:
            self._watch.phase(entry.timestamp, entry.message)
        else:
            self._watch.line(entry.timestamp, entry.replica, entry.message)

    def observe(self, job: Job, now: datetime) -> None:
        """Set the pace and the silence of the job. Read all its lines up to about now first."""
        usual = pace(self._recent) if job.state is JobState.RUNNING else None
        seconds = None if usual is None else usual.total_seconds()
        if seconds != self.progress.pace:
            self.progress = replace(self.progress, pace=seconds)
        silence = None
        if job.state is JobState.RUNNING and not self._only_prepared:
            if not self._watch.known:
                # Another read of the log may know more.
                return
            begins = [at for at in (job.start_time, job.resume_time, job.attempt_time) if at is not None]
            ended = [replica.id for replica in job.replicas if replica.state.terminal]
            silence = self._watch.silence(now, begin=max(begins, default=None), ended=ended)
        known, slow = self.progress.straggler, None
        if job.state is JobState.RUNNING:
            slow = self._watch.straggler()
        if known and slow and known.replica == slow.replica and abs(known.slower - slow.slower) < SLIGHTLY:
            slow = known
        if (silence, slow) != (self.progress.silence, known):
            self.progress = replace(self.progress, silence=silence, straggler=slow)

    @property
    def _only_prepared(self) -> bool:
        """Return whether all known steps belong to a complete bar without a loss, e.g. of a download."""
        return self.progress.last_loss is None and self.progress.fraction == 1.0

    def _watch_structured(self, entry: LogEntry, fields: Mapping[str, Any]) -> None:
        self._watch.floor = USUAL_SILENCE
        # Another program's line may have any value here.
        kind, number, at = str(fields.get("kind")), count(fields.get("step")), entry.timestamp
        if kind in {"step", "rank"} and number is not None:
            last = kind == "step" and number == count(fields.get("total_steps"))
            own, whole = finite(fields.get("data_seconds")), finite(fields.get("step_seconds"))
            times = None if own is None or whole is None else (own, whole)
            self._watch.step(at, entry.replica, number, after=ENDING if last else "", times=times)
        elif kind == "hang":
            over = fields.get("state") != "found"
            self._watch.hang(at, None if over else finite(fields.get("seconds")) or 0.0)
        else:
            self._watch.line(at, entry.replica, entry.message if kind == "phase" else "")

    def _structured(self, entry: LogEntry) -> list[TrainingStep]:
        sample = training_step(entry.timestamp, entry.json)
        evaluated = with_evaluation(self._last_step, entry.timestamp, entry.json)
        if sample is not None and not self.structured:
            self.structured = True
            if self._reporter is not None:
                self._start_anew()
                self.progress = replace(
                    self.progress,
                    first_loss=None,
                    last_loss=None,
                    speed=None,
                    learning_rate=None,
                    ends_at=None,
                )
            self.replica = ""
        if sample is not None:
            self._stepping = entry.replica
        if not self._is_of_another(entry):
            self.progress = advance(self.progress, entry.timestamp, entry.json)
        self._last_step = sample or evaluated or self._last_step
        return [step for step in (sample, evaluated) if step is not None]

    def _is_of_another(self, entry: LogEntry) -> bool:
        """Return whether the line reports the phase of a stopping replica while another replica trains."""
        fields = structured_fields(entry.json) or {}
        return fields.get("kind") == "phase" and self._stepping not in {"", entry.replica}

    def _start_anew(self) -> None:
        self.generation += 1
        self.progress = replace(self.progress, step=None, total_steps=None)

    def _add(self, entry: LogEntry, reading: LineReading) -> TrainingStep | None:
        source = _Source(replica_order(entry.replica), reading.rank)
        tracker = self._trackers.get(source)
        if tracker is None:
            if len(self._trackers) >= MOST_SOURCES:
                del self._trackers[max(self._trackers)]
            tracker = self._trackers[source] = Tracker()
        generation = tracker.generation
        sample = tracker.add(entry.timestamp, reading)
        self._watch_reading(entry, reading, sample)
        if not self._reports(source, entry, sample):
            return None
        if tracker.generation != generation:
            self._start_anew()
        if sample is None:
            if reading.loss is not None and reading.part is None and tracker.step is None:
                self._take_loss(entry.timestamp, reading)
            return None
        numbers = self._bounded(sample.numbers)
        if numbers != sample.numbers:
            sample = replace(sample, numbers=numbers)
        known = self.progress.total_steps
        if sample.total_steps is None and known is not None and sample.step > known:
            # The total was that of an epoch.
            self.progress = replace(self.progress, total_steps=None)
        ends_at = None if reading.remaining is None else later(entry.timestamp, reading.remaining)
        self.progress = after_step(self.progress, sample, ends_at, tracker.dialect)
        return sample

    def _watch_reading(self, entry: LogEntry, reading: LineReading, sample: TrainingStep | None) -> None:
        name = f"{entry.replica} rank {reading.rank}" if reading.rank else entry.replica
        if sample is None:
            # The bar of an evaluation or of a download.
            kind = "evaluation" if reading.bar is not None else ""
            self._watch.line(entry.timestamp, name, "" if kind else entry.message, kind=kind)
            return
        bar = reading.bar
        done, total = (bar.step, bar.total) if bar is not None else (reading.step, reading.total)
        after = EPOCH if total and done == total else ""
        if sample.total_steps == sample.step:
            after = ENDING
        times = None
        if reading.speed and reading.speed_unit == STEPS:
            times = 1 / reading.speed, 1 / reading.speed
        self._watch.step(entry.timestamp, name, sample.step, after=after, times=times)

    def _reports(self, source: _Source, entry: LogEntry, sample: TrainingStep | None) -> bool:
        """Return whether the steps are read from this process."""
        current, at = self._reporter, self._reported_at
        if current is None or source < current or (at is not None and entry.timestamp - at > QUIET):
            if sample is None:
                return current is None
            if current is not None and source != current:
                self._start_anew()
            self._reporter, self.replica = source, entry.replica
        elif source != current:
            return False
        self._reported_at = entry.timestamp
        return True

    def _take_loss(self, at: datetime, reading: LineReading) -> None:
        """Record a loss while the step count is unknown."""
        first = self.progress.first_loss
        self.progress = replace(
            self.progress,
            step=None,
            total_steps=None,
            first_loss=reading.loss if first is None else first,
            last_loss=reading.loss,
            learning_rate=reading.learning_rate or self.progress.learning_rate,
            speed=reading.speed or self.progress.speed,
            speed_unit=reading.speed_unit if reading.speed else self.progress.speed_unit,
            updated_at=at,
            dialect=reading.dialect,
        )

    def _bounded(self, numbers: tuple[tuple[str, float], ...]) -> tuple[tuple[str, float], ...]:
        """Return the numbers with at most `MOST_NUMBERS` names. An untrusted line may have a new name each
        time."""
        for name, _ in numbers:
            if name not in self._names and len(self._names) < MOST_NUMBERS:
                self._names[name] = None
        return tuple((name, value) for name, value in numbers if name in self._names)
