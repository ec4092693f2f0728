"""A query of Monitoring: metric, series, interval and aggregation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

from google.api import metric_pb2
from google.cloud.monitoring_v3.types import common, metric_service

from tui.emulator.filters.evaluate import compiled
from tui.emulator.filters.fields import MISSING, Condition, FieldEntry, FieldTable, FilterField, UnknownField
from tui.emulator.filters.parser import parse
from tui.emulator.filters.syntax import And, Comparison, FilterError, Node, Not, Or, Value
from tui.emulator.messages import Pb
from tui.emulator.monitoring.alignment import NotAligned, align, look_back
from tui.emulator.monitoring.descriptors import METRICS, EmulatedMetric
from tui.emulator.monitoring.reduction import NotReduced, check_reducer, group_field, reduce
from tui.emulator.monitoring.series import Interval, TimeSeries
from tui.emulator.rpc.methods import invalid, not_found

MAX_PAGE = 100_000
"""Maximum number of points (FULL) or series (HEADERS) of a page (docs/facts/vertex.md 6.3)."""
FULL = metric_service.ListTimeSeriesRequest.TimeSeriesView.FULL
FIELDS = ("aggregation", "secondary_aggregation")
LOOK_BACK = 120 * 10**9
"""Time before the interval (ns) in which to search for the sample of a counter's first difference."""
_REDUCE_NONE = common.Aggregation.Reducer.REDUCE_NONE


@dataclass(frozen=True, slots=True)
class QueryTarget:
    """The part of a series that a filter tests. `metric_labels` is `None` if only the resource is known."""

    metric_type: str
    resource_type: str
    resource_labels: Mapping[str, str]
    metric_labels: Mapping[str, str] | None = None


_HINT = "use metric.type, metric.labels.NAME, resource.type, resource.labels.NAME or project"


def _metric(whole: bool) -> Callable[[tuple[str, ...]], FilterField[QueryTarget]]:
    def entry(rest: tuple[str, ...]) -> FilterField[QueryTarget]:
        match rest:
            case ("type",):
                return FilterField(lambda target: target.metric_type)
            case ("labels" | "label", *names) if names:
                name = ".".join(names)
                return FilterField(
                    lambda target: (target.metric_labels or {}).get(name, MISSING), known=whole
                )
        raise UnknownField(f"{'.'.join(('metric', *rest))!r} can't be used in a filter; {_HINT}")

    return entry


def _resource(rest: tuple[str, ...]) -> FilterField[QueryTarget]:
    match rest:
        case ("type",):
            return FilterField(lambda target: target.resource_type)
        case ("labels" | "label", *names) if names:
            return _resource_label(".".join(names))
    raise UnknownField(f"{'.'.join(('resource', *rest))!r} can't be used in a filter; {_HINT}")


def _resource_label(name: str) -> FilterField[QueryTarget]:
    return FilterField(lambda target: target.resource_labels.get(name, MISSING))


def _fields(whole: bool) -> FieldTable[QueryTarget]:
    entries: dict[str, FieldEntry[QueryTarget]] = {
        "metric": _metric(whole),
        "resource": _resource,
        "project": _resource_label("project_id"),
    }
    return FieldTable(entries, hint=_HINT)


SERIES_FIELDS = _fields(whole=True)
RESOURCE_FIELDS = _fields(whole=False)
"""Fields while only the resource is known; metric labels stay undecided."""


def checked_filter(text: str) -> Node:
    """Parse a filter. Raises WireError: INVALID_ARGUMENT with the position of the error."""
    try:
        node = parse(text)
        compiled(node, SERIES_FIELDS)
    except FilterError as error:
        raise invalid(("filter", str(error))) from error
    return node


def metric_of(node: Node) -> EmulatedMetric:
    """Return the one metric type that a filter names.

    Raises WireError: INVALID_ARGUMENT for none or several, NOT_FOUND for an unknown type.
    """
    named = _metric_types(node)
    if len(named) != 1 or named[0] is None:
        raise invalid(
            (
                "filter",
                f'must have exactly one metric.type="…", joined to the rest by AND; found {len(named)}',
            )
        )
    metric = METRICS.get(named[0])
    if metric is None:
        raise not_found("metric type", named[0])
    return metric


def _metric_types(node: Node, joined: bool = True) -> list[str | None]:
    """Return the types named by comparisons, or `None` for a comparison that leaves the type open."""
    match node:
        case And(parts):
            return [metric_type for part in parts for metric_type in _metric_types(part, joined)]
        case Or(parts):
            return [metric_type for part in parts for metric_type in _metric_types(part, False)]
        case Not(part):
            return _metric_types(part, False)
        case Comparison(("metric", "type"), "=", Value(text)) if joined:
            return [text]
        case Comparison(("metric", "type")):
            return [None]
    return []


@dataclass(frozen=True, slots=True)
class Aggregation:
    """The alignment of series and the reduction of the aligned series."""

    aligner: int
    period: int
    """Alignment period in ns."""
    reducer: int
    fields: tuple[tuple[str, str], ...]
    """Fields to group by; see `group_field`."""

    def apply(self, all_series: Iterable[TimeSeries], interval: Interval, field: str) -> list[TimeSeries]:
        """Aggregate series. Raises WireError: INVALID_ARGUMENT for an aligner that does not apply to the
        metric."""
        with _naming(f"{field}.per_series_aligner"):
            aligned = [align(series, self.aligner, self.period, interval) for series in all_series]
        if self.reducer == _REDUCE_NONE:
            return aligned
        with _naming(f"{field}.cross_series_reducer"):
            return reduce((series for series in aligned if series.points), self.reducer, self.fields)


@dataclass(frozen=True, slots=True)
class Question:
    """A valid ListTimeSeries request."""

    metric: EmulatedMetric
    resource: Condition[QueryTarget]
    series: Condition[QueryTarget]
    interval: Interval
    aggregations: tuple[Aggregation, ...]
    """The aggregations to apply, in this order; at most two."""

    @classmethod
    def of(cls, request: Pb) -> Question:
        """Parse a request. Raises WireError: INVALID_ARGUMENT or NOT_FOUND."""
        node = checked_filter(request.filter)
        metric = metric_of(node)
        if request.order_by:
            raise invalid(("order_by", "must be empty: points come newest first"))
        return cls(
            metric,
            compiled(node, RESOURCE_FIELDS),
            compiled(node, SERIES_FIELDS),
            _interval(request, metric),
            _aggregations(request),
        )

    @property
    def look_back(self) -> int:
        """Time before the interval whose points are needed, in ns."""
        return max(
            LOOK_BACK,
            *(look_back(aggregation.aligner, aggregation.period) for aggregation in self.aggregations),
            0,
        )

    def wants_resource(self, labels: Mapping[str, str]) -> bool:
        """Return whether a series of this resource may match."""
        return self.resource(QueryTarget(self.metric.type, self.metric.resource, labels)) is not False

    def answer(self, all_series: Iterable[TimeSeries]) -> list[TimeSeries]:
        """Return the matching series with points in the interval, aggregated, in order of their keys.

        Raises WireError: INVALID_ARGUMENT for an aligner that does not fit.
        """
        matches = [series for series in all_series if self.series(_target(series))]
        for number, aggregation in enumerate(self.aggregations):
            matches = aggregation.apply(matches, self.interval, FIELDS[number])
        if not any(aggregation.aligner for aggregation in self.aggregations):
            holds = self.interval.holds
            matches = [
                replace(series, points=tuple(point for point in series.points if holds(point.end)))
                for series in matches
            ]
        return sorted((series for series in matches if series.points), key=lambda series: series.key)


def _target(series: TimeSeries) -> QueryTarget:
    return QueryTarget(series.metric_type, series.resource_type, series.resource_labels, series.metric_labels)


def _interval(request: Pb, metric: EmulatedMetric) -> Interval:
    requested = request.interval
    if not requested.HasField("end_time"):
        raise invalid(("interval.end_time", "is needed"))
    end = requested.end_time.ToNanoseconds()
    start = requested.start_time.ToNanoseconds() if requested.HasField("start_time") else end
    counter = metric.kind == metric_pb2.MetricDescriptor.DELTA
    if start > end or (counter and start == end):
        raise invalid(("interval.start_time", "must be earlier than interval.end_time"))
    return Interval(start, end)


def _aggregations(request: Pb) -> tuple[Aggregation, ...]:
    aggregations = []
    for field, aggregation in zip(FIELDS, (request.aggregation, request.secondary_aggregation), strict=True):
        period: int = aggregation.alignment_period.ToNanoseconds()
        if aggregation.per_series_aligner and period < 10**9:
            problem = "must be at least one second with an aligner (in the cloud 60)"
            raise invalid((f"{field}.alignment_period", problem))
        if aggregation.cross_series_reducer and not aggregation.per_series_aligner:
            problem = "must be set with a reducer: a reducer combines aligned series"
            raise invalid((f"{field}.per_series_aligner", problem))
        fields: list[tuple[str, str]] = []
        if aggregation.cross_series_reducer:
            with _naming(f"{field}.cross_series_reducer"):
                check_reducer(aggregation.cross_series_reducer)
            for number, text in enumerate(aggregation.group_by_fields):
                with _naming(f"{field}.group_by_fields[{number}]"):
                    fields.append(group_field(text))
        aggregations.append(
            Aggregation(
                aggregation.per_series_aligner, period, aggregation.cross_series_reducer, tuple(fields)
            )
        )
    if aggregations[1].aligner and not aggregations[0].aligner:
        raise invalid(("secondary_aggregation", "requires aligned series; set aggregation too"))
    return tuple(aggregation for aggregation in aggregations if aggregation.aligner)


@contextmanager
def _naming(field: str) -> Iterator[None]:
    try:
        yield
    except (NotAligned, NotReduced) as error:
        raise invalid((field, str(error))) from error
