"""A job's time series, with readings merged point by point and bounded."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from tui.domain.core.metric import TRAINING_METRICS, MetricsReading, NotMeasured, Series
from tui.domain.core.replica import replica_order

MOST_POINTS = 2_000
"""Number of points stored per series: a day and a half at the cloud's one sample per minute."""

SeriesKey = tuple[str, str, str]


class SeriesStore:
    """Series by (metric, replica, accelerator)."""

    def __init__(self) -> None:
        self._series: dict[SeriesKey, Series] = {}
        self._missing: dict[str, NotMeasured] = {}
        self.read_at: datetime | None = None

    def add(self, reading: MetricsReading) -> None:
        """Merge a reading, which may repeat points or contain only the newest point."""
        self.read_at = reading.read_at
        for series in reading.series:
            key = (series.metric, series.replica, series.accelerator)
            old = self._series.get(key)
            self._series[key] = series if old is None else _merged(old, series)
        self._missing = {m.metric: m for m in reading.not_measured}

    @property
    def newest(self) -> datetime | None:
        """The time of the newest point of all series."""
        return max((s.points[-1][0] for s in self._series.values() if s.points), default=None)

    def of(self, metric: str, replica: str = "") -> list[Series]:
        """Return the series of a metric, of one replica or of all, in the order of their names."""
        matches = [
            s for s in self._series.values() if s.metric == metric and (not replica or s.replica == replica)
        ]
        return sorted(matches, key=lambda s: (replica_order(s.replica), s.accelerator))

    def not_measured(self) -> list[NotMeasured]:
        """Return the metrics never measured in this job, with the reason."""
        seen = {s.metric for s in self._series.values() if s.points}
        return [self._missing[m] for m in TRAINING_METRICS if m in self._missing and m not in seen]


def _merged(old: Series, new: Series) -> Series:
    if not old.points or not new.points:
        return new if new.points else old
    if new.points[0][0] > old.points[-1][0]:
        points: Iterable[tuple[datetime, float]] = (*old.points, *new.points)
    else:
        points = sorted({**dict(old.points), **dict(new.points)}.items())
    kept = tuple(points)[-MOST_POINTS:]
    return Series(new.metric, new.replica, new.accelerator, new.unit, kept, new.labels)


def buckets(
    points: Iterable[tuple[datetime, float]], end: datetime, span: timedelta, count: int
) -> list[float | None]:
    """Return the last value in each of `count` equal intervals before `end`; `None` without a value."""
    values: list[float | None] = [None] * count
    width = span / count
    start = end - span
    for moment, value in points:
        if start < moment <= end:
            values[min(count - 1, int((moment - start) / width))] = value
    return values
