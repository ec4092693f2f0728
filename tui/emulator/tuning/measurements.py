"""What a trial reports: the file of cloudml-hypertune, early stopping, and the measurement that counts.

The file has a JSON object a line, {"timestamp", "trial", TAG: "value", "global_step", "checkpoint_path"}. It
keeps the last 100 reports and is written anew at each (docs/facts/vertex.md 10.4).
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from google.cloud.aiplatform_v1.types import study as study_types

from tui.emulator.messages import Pb
from tui.emulator.tuning.search import MAXIMIZE

FILE_LIMIT = 4 * 1024**2
"""Bytes of a metric file that are read; 100 reports have some 20 kB."""
ENOUGH_TRIALS = 2
"""Completed trials without which no other is stopped early."""
ENOUGH_POINTS = 3
"""Measurements without which a curve says nothing."""
WHOLE = 0.9
"""Share of the longest curve from which on one counts as complete."""
LOW_CHANCE = 0.01
"""'Very low probability' in the documentation of decay_curve_stopping_spec."""
BEST = int(study_types.StudySpec.MeasurementSelectionType.BEST_MEASUREMENT)


@dataclass(frozen=True, slots=True)
class Report:
    """One report: when (seconds since the epoch), at which training step, and its metrics."""

    time: float
    step: int
    metrics: Mapping[str, float]


def read_reports(path: Path, metric_ids: Sequence[str]) -> list[Report]:
    """The reports of these metrics in a file, oldest first. Lines that are no report are skipped."""
    try:
        with path.open("rb") as file:
            lines = file.read(FILE_LIMIT).splitlines()
    except OSError:
        return []
    return sorted((found for line in lines for found in _report(line, metric_ids)), key=lambda r: r.time)


def _report(line: bytes, metric_ids: Sequence[str]) -> Iterator[Report]:
    try:
        found = json.loads(line)
        at, step = float(found["timestamp"]), int(float(found.get("global_step") or 0))
        metrics = {name: float(found[name]) for name in metric_ids if name in found}
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError):
        return
    metrics = {name: value for name, value in metrics.items() if math.isfinite(value)}
    if metrics and math.isfinite(at):
        yield Report(at, step, metrics)


def add_reports(trial: Pb, reports: Sequence[Report]) -> bool:
    """Add to a trial what it has not measured yet; whether there was any."""
    began = trial.start_time.ToNanoseconds()
    last = max((each.elapsed_duration.ToNanoseconds() for each in trial.measurements), default=-1)
    found = False
    for report in reports:
        elapsed = max(0, round(report.time * 1e6) * 1000 - began)
        if elapsed <= last:
            continue
        last, found = elapsed, True
        made = trial.measurements.add(step_count=report.step)
        made.elapsed_duration.FromNanoseconds(elapsed)
        for name, value in report.metrics.items():
            made.metrics.add(metric_id=name, value=value)
    return found


def metric(measurement: Pb, metric_id: str) -> float | None:
    """The value of a metric in a measurement."""
    return next((float(each.value) for each in measurement.metrics if each.metric_id == metric_id), None)


def final_measurement(trial: Pb, study: Pb) -> Pb | None:
    """The measurement that stands for the trial: the last or the best one; None without any."""
    wanted = study.metrics[0]
    found = [each for each in trial.measurements if metric(each, wanted.metric_id) is not None]
    if not found:
        return None
    if study.measurement_selection_type != BEST:
        return found[-1]
    sign = 1 if wanted.goal == MAXIMIZE else -1
    return max(found, key=lambda each: sign * (metric(each, wanted.metric_id) or 0.0))


def objective(trial: Pb, study: Pb) -> float | None:
    """The first metric of the trial's final measurement."""
    if not trial.HasField("final_measurement"):
        return None
    return metric(trial.final_measurement, study.metrics[0].metric_id)


def is_hopeless(trial: Pb, completed: Sequence[Pb], study: Pb) -> bool:
    """Whether the study's stopping rule ends a trial. Blocks for a moment: call it in a thread."""
    if len(completed) < ENOUGH_TRIALS:
        return False
    if study.HasField("median_automated_stopping_spec"):
        return _below_median(trial, completed, study)
    return study.HasField("decay_curve_stopping_spec") and _has_no_chance(trial, completed, study)


def _has_no_chance(trial: Pb, completed: Sequence[Pb], study: Pb) -> bool:
    """The rule of decay_curve_stopping_spec: its curve, and those of the others, leave it no chance.

    Curves that ended early (the trial was stopped) do not say where a curve ends.
    """
    # It imports numpy, which a study without this rule does not need.
    from tui.emulator.tuning.decay_curve import chance_to_exceed  # noqa: PLC0415

    sign = 1 if study.metrics[0].goal == MAXIMIZE else -1
    by_time = study.decay_curve_stopping_spec.use_elapsed_duration

    def curve(each: Pb) -> list[tuple[float, float]]:
        return [(float(at), sign * value) for at, value in sorted(_course(each, study, by_time))]

    mine, others = curve(trial), [found for each in completed if (found := curve(each))]
    longest = max((found[-1][0] for found in others), default=0.0)
    whole = [each for each in others if len(each) > 1 and each[-1][0] >= WHOLE * longest]
    if len(mine) < ENOUGH_POINTS or len(whole) < ENOUGH_TRIALS or mine[-1][0] >= longest:
        return False
    best = max(sign * value for each in completed if (value := objective(each, study)) is not None)
    return chance_to_exceed(mine, whole, best) < LOW_CHANCE


def _below_median(trial: Pb, completed: Sequence[Pb], study: Pb) -> bool:
    """The rule of median_automated_stopping_spec.

    A trial ends when its best value so far is worse than the median of the others' running averages up to its
    step, or up to its elapsed time with `use_elapsed_duration` (StudySpec's documentation).
    """
    sign = 1 if study.metrics[0].goal == MAXIMIZE else -1
    by_time = study.median_automated_stopping_spec.use_elapsed_duration
    mine = _course(trial, study, by_time)
    if not mine:
        return False
    now = mine[-1][0]
    averages = [
        statistics.fmean(values)
        for other in completed
        if (values := [value for at, value in _course(other, study, by_time) if at <= now])
    ]
    best = max(sign * value for _, value in mine)
    return bool(averages) and best < statistics.median(sign * each for each in averages)


def _course(trial: Pb, study: Pb, by_time: bool) -> list[tuple[int, float]]:
    """(step or nanoseconds, objective) of a trial's measurements."""
    name = study.metrics[0].metric_id
    return [
        (each.elapsed_duration.ToNanoseconds() if by_time else int(each.step_count), value)
        for each in trial.measurements
        if (value := metric(each, name)) is not None
    ]
