"""What a client asks of Monitoring: one metric, which series, over which time, how aligned."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from google.api import metric_pb2
from google.cloud.monitoring_v3.types import common, metric_service

from tui.emulator.filters import (
    MISSING,
    And,
    Comparison,
    Condition,
    Field,
    FieldEntry,
    FieldTable,
    FilterError,
    Node,
    Not,
    Or,
    UnknownField,
    Value,
    compiled,
    parse,
)
from tui.emulator.logging.record import Pb
from tui.emulator.monitoring.descriptors import METRICS, Metric
from tui.emulator.monitoring.series import Aligner, Interval, NotAligned, TimeSeries, align
from tui.emulator.rpc.methods import invalid, not_found

MAX_PAGE = 100_000
"""Points (FULL) or series (HEADERS) of a page (vertex facts 6.3)."""
FULL = metric_service.ListTimeSeriesRequest.TimeSeriesView.FULL
_REDUCE_NONE = common.Aggregation.Reducer.REDUCE_NONE


@dataclass(frozen=True, slots=True)
class Target:
    """What a filter looks at. `metric_labels` is `None` while only the resource is known."""

    metric_type: str
    resource_type: str
    resource_labels: Mapping[str, str]
    metric_labels: Mapping[str, str] | None = None


_HINT = "use metric.type, metric.labels.NAME, resource.type, resource.labels.NAME or project"


def _metric(whole: bool) -> Callable[[tuple[str, ...]], Field[Target]]:
    def entry(rest: tuple[str, ...]) -> Field[Target]:
        match rest:
            case ("type",):
                return Field(lambda target: target.metric_type)
            case ("labels" | "label", *names) if names:
                name = ".".join(names)
                return Field(lambda target: (target.metric_labels or {}).get(name, MISSING), known=whole)
        raise UnknownField(f"{'.'.join(('metric', *rest))!r} can't be filtered by; {_HINT}")

    return entry


def _resource(rest: tuple[str, ...]) -> Field[Target]:
    match rest:
        case ("type",):
            return Field(lambda target: target.resource_type)
        case ("labels" | "label", *names) if names:
            return _resource_label(".".join(names))
    raise UnknownField(f"{'.'.join(('resource', *rest))!r} can't be filtered by; {_HINT}")


def _resource_label(name: str) -> Field[Target]:
    return Field(lambda target: target.resource_labels.get(name, MISSING))


def _fields(whole: bool) -> FieldTable[Target]:
    entries: dict[str, FieldEntry[Target]] = {
        "metric": _metric(whole),
        "resource": _resource,
        "project": _resource_label("project_id"),
    }
    return FieldTable(entries, hint=_HINT)


SERIES_FIELDS = _fields(whole=True)
RESOURCE_FIELDS = _fields(whole=False)
"""While only the resource is known; metric labels stay undecided."""


def checked_filter(text: str) -> Node:
    """Raises WireError: INVALID_ARGUMENT with the position of what is wrong."""
    try:
        node = parse(text)
        compiled(node, SERIES_FIELDS)
    except FilterError as error:
        raise invalid(("filter", str(error))) from error
    return node


def metric_of(node: Node) -> Metric:
    """The one metric type that a filter names.

    Raises:
        WireError: INVALID_ARGUMENT for none or several, NOT_FOUND for one that does not exist.
    """
    named = _metric_types(node)
    if len(named) != 1 or named[0] is None:
        raise invalid(
            (
                "filter",
                f'exactly one metric.type="…" is needed, joined to the rest by AND; found {len(named)}',
            )
        )
    metric = METRICS.get(named[0])
    if metric is None:
        raise not_found("metric type", named[0])
    return metric


def _metric_types(node: Node, joined: bool = True) -> list[str | None]:
    """Types named by comparisons; `None` for a comparison that leaves the type open."""
    match node:
        case And(parts):
            return [found for part in parts for found in _metric_types(part, joined)]
        case Or(parts):
            return [found for part in parts for found in _metric_types(part, False)]
        case Not(part):
            return _metric_types(part, False)
        case Comparison(("metric", "type"), "=", Value(text)) if joined:
            return [text]
        case Comparison(("metric", "type")):
            return [None]
    return []


@dataclass(frozen=True, slots=True)
class Question:
    """A ListTimeSeries request that makes sense."""

    metric: Metric
    resource: Condition[Target]
    series: Condition[Target]
    interval: Interval
    aligner: int
    period: int

    @classmethod
    def of(cls, request: Pb) -> Question:
        """Raises WireError: INVALID_ARGUMENT or NOT_FOUND."""
        node = checked_filter(request.filter)
        metric = metric_of(node)
        if request.order_by:
            raise invalid(("order_by", "must be empty: points come newest first"))
        aligner, period = _alignment(request)
        return cls(
            metric,
            compiled(node, RESOURCE_FIELDS),
            compiled(node, SERIES_FIELDS),
            _interval(request, metric),
            aligner,
            period,
        )

    def wants_resource(self, labels: Mapping[str, str]) -> bool:
        """Whether a series of this resource may be wanted."""
        return self.resource(Target(self.metric.type, self.metric.resource, labels)) is not False

    def answer(self, series: TimeSeries) -> TimeSeries | None:
        """The series cut to the interval and aligned; `None` if not wanted or without points.

        Raises:
            WireError: INVALID_ARGUMENT for an aligner that does not fit.
        """
        target = Target(
            series.metric_type, series.resource_type, series.resource_labels, series.metric_labels
        )
        if not self.series(target):
            return None
        if self.aligner != Aligner.ALIGN_NONE:
            try:
                series = align(series, self.aligner, self.period, self.interval)
            except NotAligned as error:
                raise invalid(("aggregation.per_series_aligner", str(error))) from error
            return series if series.points else None
        points = tuple(point for point in series.points if self.interval.holds(point.end))
        return (
            TimeSeries(
                series.metric_type,
                series.resource_type,
                series.kind,
                series.value_type,
                series.unit,
                series.metric_labels,
                series.resource_labels,
                points,
            )
            if points
            else None
        )


def _interval(request: Pb, metric: Metric) -> Interval:
    given = request.interval
    if not given.HasField("end_time"):
        raise invalid(("interval.end_time", "is needed"))
    end = given.end_time.ToNanoseconds()
    start = given.start_time.ToNanoseconds() if given.HasField("start_time") else end
    counter = metric.kind == metric_pb2.MetricDescriptor.DELTA
    if start > end or (counter and start == end):
        raise invalid(("interval.start_time", "must be earlier than interval.end_time"))
    return Interval(start, end)


def _alignment(request: Pb) -> tuple[int, int]:
    aggregation = request.aggregation
    for field, given in (
        ("aggregation", aggregation),
        ("secondary_aggregation", request.secondary_aggregation),
    ):
        if given.cross_series_reducer != _REDUCE_NONE or given.group_by_fields:
            raise invalid(
                (f"{field}.cross_series_reducer", "the emulator does not combine series; ask for each one")
            )
    if request.secondary_aggregation.per_series_aligner:
        raise invalid(("secondary_aggregation", "the emulator aligns once; leave it out"))
    period: int = aggregation.alignment_period.ToNanoseconds()
    if aggregation.per_series_aligner and period < 10**9:
        raise invalid(
            (
                "aggregation.alignment_period",
                "at least one second is needed with an aligner (in the cloud it is 60)",
            )
        )
    return aggregation.per_series_aligner, period
