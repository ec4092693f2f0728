"""Reports of a trial: the file of cloudml-hypertune, early stopping, and the final measurement.

The file has one JSON object per line, {"timestamp", "trial", TAG: "value", "global_step", "checkpoint_path"}.
It keeps the last 100 reports and is rewritten at each (docs/facts/vertex.md 10.4).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from google.cloud.aiplatform_v1.types import study as study_types

from tui.config.regular_file import open_regular
from tui.domain.document.decoding import decode_json
from tui.emulator.messages import Pb
from tui.emulator.tuning.search import MAXIMIZE

FILE_LIMIT = 4 * 1024**2
"""Number of bytes read of a metric file; 100 reports take about 20 kB."""
ENOUGH_TRIALS = 2
"""Number of completed trials before another trial is stopped early."""
ENOUGH_POINTS = 3
"""Minimum number of measurements of a usable curve."""
WHOLE = 0.9
"""Fraction of the longest curve's length at which a curve counts as complete."""
LOW_CHANCE = 0.01
"""Threshold of the 'very low probability' in the documentation of decay_curve_stopping_spec."""
BEST = int(study_types.StudySpec.MeasurementSelectionType.BEST_MEASUREMENT)


@dataclass(frozen=True, slots=True)
class Report:
    """One report: time (seconds since the epoch), training step, and metrics."""

    time: float
    step: int
    metrics: Mapping[str, float]


def read_reports(path: Path, metric_ids: Sequence[str]) -> list[Report]:
    """Return the reports of these metrics in a file, oldest first. Other lines are skipped."""
    try:
        with open_regular(path) as file:
            lines = file.read(FILE_LIMIT).splitlines()
    except OSError:
        return []
    return sorted((report for line in lines for report in _report(line, metric_ids)), key=lambda r: r.time)


def _report(line: bytes, metric_ids: Sequence[str]) -> Iterator[Report]:
    try:
        fields = decode_json(line)
        at, step = float(fields["timestamp"]), int(float(fields.get("global_step") or 0))
        metrics = {name: float(fields[name]) for name in metric_ids if name in fields}
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError):
        return
    metrics = {name: value for name, value in metrics.items() if math.isfinite(value)}
    if metrics and math.isfinite(at):
        yield Report(at, step, metrics)


def add_reports(trial: Pb, reports: Sequence[Report]) -> bool:
    """Add new reports to a trial's measurements. Return whether there were any."""
    began = trial.start_time.ToNanoseconds()
    last = max(
        (measurement.elapsed_duration.ToNanoseconds() for measurement in trial.measurements), default=-1
    )
    added = False
    for report in reports:
        elapsed = max(0, round(report.time * 1e6) * 1000 - began)
        if elapsed <= last:
            continue
        last, added = elapsed, True
        measurement = trial.measurements.add(step_count=report.step)
        measurement.elapsed_duration.FromNanoseconds(elapsed)
        for name, value in report.metrics.items():
            measurement.metrics.add(metric_id=name, value=value)
    return added


def metric(measurement: Pb, metric_id: str) -> float | None:
    """Return the value of a metric in a measurement."""
    return next(
        (float(reading.value) for reading in measurement.metrics if reading.metric_id == metric_id), None
    )


def final_measurement(trial: Pb, study: Pb) -> Pb | None:
    """Return the measurement that represents the trial, the last or the best, or `None` if there are no
    measurements."""
    study_metric = study.metrics[0]
    measured = [
        measurement
        for measurement in trial.measurements
        if metric(measurement, study_metric.metric_id) is not None
    ]
    if not measured:
        return None
    if study.measurement_selection_type != BEST:
        return measured[-1]
    sign = 1 if study_metric.goal == MAXIMIZE else -1
    return max(measured, key=lambda measurement: sign * (metric(measurement, study_metric.metric_id) or 0.0))


def objective(trial: Pb, study: Pb) -> float | None:
    """Return the first metric of the trial's final measurement."""
    if not trial.HasField("final_measurement"):
        return None
    return metric(trial.final_measurement, study.metrics[0].metric_id)


def is_hopeless(trial: Pb, completed: Sequence[Pb], study: Pb) -> bool:
    """Return whether the study's stopping rule ends a trial. The call blocks for a moment, so run it in a
    thread."""
    if len(completed) < ENOUGH_TRIALS:
        return False
    if study.HasField("median_automated_stopping_spec"):
        return _below_median(trial, completed, study)
    return study.HasField("decay_curve_stopping_spec") and _has_no_chance(trial, completed, study)


def _has_no_chance(trial: Pb, completed: Sequence[Pb], study: Pb) -> bool:
    """Apply decay_curve_stopping_spec: whether the trial has no chance, judging by its curve and those of the
    other trials.

    Curves of trials that were stopped early do not show where a curve ends.
    """
    # This imports numpy, which only a study with this rule needs.
    from tui.emulator.tuning.decay_curve import chance_to_exceed  # noqa: PLC0415

    sign = 1 if study.metrics[0].goal == MAXIMIZE else -1
    by_time = study.decay_curve_stopping_spec.use_elapsed_duration

    def curve(past: Pb) -> list[tuple[float, float]]:
        return [(float(at), sign * value) for at, value in sorted(_course(past, study, by_time))]

    mine, others = curve(trial), [other for past in completed if (other := curve(past))]
    longest = max((other[-1][0] for other in others), default=0.0)
    whole = [other for other in others if len(other) > 1 and other[-1][0] >= WHOLE * longest]
    if len(mine) < ENOUGH_POINTS or len(whole) < ENOUGH_TRIALS or mine[-1][0] >= longest:
        return False
    best = max(sign * value for past in completed if (value := objective(past, study)) is not None)
    return chance_to_exceed(mine, whole, best) < LOW_CHANCE


def _below_median(trial: Pb, completed: Sequence[Pb], study: Pb) -> bool:
    """Apply median_automated_stopping_spec.

    A trial ends when its best value so far is worse than the median of the other trials' running averages up
    to its step, or up to its elapsed time with `use_elapsed_duration` (StudySpec's documentation).
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
    return bool(averages) and best < statistics.median(sign * average for average in averages)


def _course(trial: Pb, study: Pb, by_time: bool) -> list[tuple[int, float]]:
    """Return the steps (or nanoseconds) and objectives of a trial's measurements."""
    name = study.metrics[0].metric_id
    return [
        (measurement.elapsed_duration.ToNanoseconds() if by_time else int(measurement.step_count), value)
        for measurement in trial.measurements
        if (value := metric(measurement, name)) is not None
    ]
