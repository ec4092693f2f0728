"""google.monitoring.v3.MetricService: metrics of replicas and endpoints, and the training quotas.

Training series come from the samples that each attempt's runner records. Quotas have no history here: their
series have one point, the current value.
"""

from __future__ import annotations

import asyncio
import logging
import re
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Sequence

from google.api import metric_pb2
from google.cloud.monitoring_v3.types import metric_service

from tui.domain.vertex.catalog import SERVICE as AIPLATFORM
from tui.domain.vertex.catalog import all_quota_metrics
from tui.emulator.config import load_config
from tui.emulator.interfaces import JobRecord, project_id
from tui.emulator.messages import Pb
from tui.emulator.monitoring.descriptors import (
    ENDPOINT_RESOURCE,
    METRICS,
    QUOTA_LIMIT,
    TRAINING_RESOURCE,
    EmulatedMetric,
)
from tui.emulator.monitoring.query import FULL, MAX_PAGE, SERIES_FIELDS, QueryTarget, Question
from tui.emulator.monitoring.series import Kind, SeriesPoint, TimeSeries, ValueType, differences, gauge
from tui.emulator.paths import AttemptDir, StateDir
from tui.emulator.rpc.methods import Method, invalid, methods_of, not_found
from tui.emulator.rpc.paging import page_of_names, page_size, query_digest, read_token, write_token
from tui.emulator.runner.database import Sample, read_samples
from tui.emulator.runner.simulated_gpus import MARK
from tui.emulator.services.quota_service import quota_id
from tui.emulator.vertex.job_catalog import JobCatalog
from tui.emulator.vertex.resource_requests import request_filter

log = logging.getLogger(__name__)

SERVICE = "google.monitoring.v3.MetricService"
QUOTA_AGE = 60 * 10**9
"""Time for which the current value of a quota counts as its past value, in ns."""

Predictions = Callable[[str, EmulatedMetric, int], Iterable[TimeSeries]]
ListResponse = metric_service.ListTimeSeriesResponse.pb()
DescriptorsResponse = metric_service.ListMetricDescriptorsResponse.pb()

_NAME = re.compile(r"projects/([^/\s]+)")
_DESCRIPTOR = re.compile(r"projects/([^/\s]+)/metricDescriptors/(\S+)")


class MonitoringService:
    """RPC handlers of the monitoring service."""

    def __init__(
        self, state: StateDir, catalog: JobCatalog, sample_period: float, predictions: Predictions
    ) -> None:
        """Set the sources. `predictions` returns the series of a project's endpoints."""
        self._state = state
        self._catalog = catalog
        self._sample_period = sample_period
        self._predictions = predictions

    async def list_time_series(self, request: Pb) -> Pb:
        project = _project(request.name)
        question = Question.of(request)
        size = page_size(request.page_size, MAX_PAGE, MAX_PAGE)
        aggregations = str(request.aggregation), str(request.secondary_aggregation)
        digest = query_digest(
            "series", request.name, request.filter, str(request.interval), *aggregations, str(request.view)
        )
        key = read_token(request.page_token, digest, (str, int))
        after = None if key is None else (str(key[0]), int(key[1]))
        find = self._finder(project, question)

        def work() -> Pb:
            return _page(question.answer(find()), request.view == FULL, size, after, digest)

        return await asyncio.to_thread(work)

    def _finder(self, project: str, question: Question) -> Callable[[], Iterator[TimeSeries]]:
        """Return a function that reads the series. The catalog is read here, in the event loop that changes
        it."""
        if question.metric.resource == TRAINING_RESOURCE:
            jobs = list(self._catalog.list(project))
            return lambda: (
                series
                for job in jobs
                if question.wants_resource(_job_labels(job))
                for series in self._training(job, question)
            )
        if question.metric.resource == ENDPOINT_RESOURCE:
            since = question.interval.start - question.look_back
            counted = list(self._predictions(project, question.metric, since))
            return lambda: iter(counted)
        quotas = list(self._quotas(project, question))
        return lambda: iter(quotas)

    def _training(self, job: JobRecord, question: Question) -> Iterator[TimeSeries]:
        metric, since = question.metric, question.interval.start - question.look_back
        points: dict[tuple[str, str], list[SeriesPoint]] = {}
        for attempt in self._state.attempts(job.id):
            samples: dict[tuple[str, str], list[tuple[int, float]]] = {}
            for at, replica, name, accelerator, value in _samples(attempt, since):
                if name == metric.training:
                    samples.setdefault((replica, accelerator), []).append((at, value))
            # A counter starts at zero in every attempt.
            make = differences if metric.kind == Kind.DELTA else gauge
            for which, values in samples.items():
                points.setdefault(which, []).extend(make(values))
        for (replica, accelerator), replica_points in points.items():
            yield _series(metric, _labels(replica, accelerator), _job_labels(job), replica_points)

    def _quotas(self, project: str, question: Question) -> Iterator[TimeSeries]:
        metric, now = question.metric, time.time_ns()
        at = min(now, question.interval.end)
        if now - at > QUOTA_AGE:
            return
        for region in self._catalog.regions(project):
            resource = {"project_id": project, "service": AIPLATFORM, "location": region}
            if not question.wants_resource(resource):
                continue
            if metric.type == QUOTA_LIMIT:
                values = {m: self._catalog.quota_limit(project, region, m) for m in all_quota_metrics()}
            else:
                values = dict(self._catalog.quota_usage(project, region))
            for name, value in values.items():
                labels = {"quota_metric": f"{AIPLATFORM}/{name}"}
                if metric.type == QUOTA_LIMIT:
                    labels["limit_name"] = quota_id(name)
                yield _series(metric, labels, resource, [SeriesPoint(at, at, value)])

    async def list_metric_descriptors(self, request: Pb) -> Pb:
        project = _project(request.name)
        size = page_size(request.page_size, MAX_PAGE, MAX_PAGE)
        condition = request_filter(request.filter, SERIES_FIELDS)
        names = sorted(
            name
            for name, metric in METRICS.items()
            if condition(QueryTarget(metric.type, metric.resource, {}))
        )
        digest = query_digest("descriptors", request.name, request.filter)
        page, token = page_of_names(names, request.page_token, size, digest)
        descriptors = [METRICS[name].descriptor(project, self._sample_period) for name in page]
        return DescriptorsResponse(metric_descriptors=descriptors, next_page_token=token)

    async def get_metric_descriptor(self, request: Pb) -> Pb:
        match = _DESCRIPTOR.fullmatch(request.name)
        if match is None:
            raise invalid(("name", f"{request.name!r}: write projects/PROJECT/metricDescriptors/TYPE"))
        metric = METRICS.get(match[2])
        if metric is None:
            raise not_found("metric descriptor", request.name)
        return metric.descriptor(match[1], self._sample_period)


def _project(name: str) -> str:
    match = _NAME.fullmatch(name)
    if match is None:
        raise invalid(("name", f"{name!r}: write projects/PROJECT_ID"))
    return project_id(match[1])


def _samples(attempt: AttemptDir, since: int) -> list[Sample]:
    try:
        return read_samples(attempt, since)
    except sqlite3.Error as error:
        # The record is incomplete: there are no samples, which differs from zero.
        log.info("samples of %s: %s", attempt.root, error)
        return []


def _job_labels(job: JobRecord) -> dict[str, str]:
    """Return the labels of the monitored resource `cloudml_job` (docs/facts/vertex.md 6.1)."""
    return {"project_id": job.project, "job_id": job.id, "region": job.location}


def _labels(replica: str, accelerator: str) -> dict[str, str]:
    """Return the labels of a training metric. `simulated` marks values that are not measured."""
    labels = {"replica_id": replica}
    if accelerator:
        labels["accelerator_id"] = accelerator.removeprefix(MARK)
    if accelerator.startswith(MARK):
        labels["simulated"] = "true"
    return labels


def _series(
    metric: EmulatedMetric, labels: dict[str, str], resource: dict[str, str], points: Sequence[SeriesPoint]
) -> TimeSeries:
    about = metric.type, metric.resource, metric.kind, metric.value_type, metric.unit
    return TimeSeries(*about, labels, resource, tuple(points))


def _page(
    all_series: Sequence[TimeSeries], full: bool, size: int, after: tuple[str, int] | None, digest: str
) -> Pb:
    """Return one page. `size` counts points in FULL, series in HEADERS. A series may span pages."""
    response = ListResponse()
    last: tuple[str, int] | None = None
    for series in all_series:
        if after is not None and (series.key < after[0] or (series.key == after[0] and not after[1])):
            continue
        points = series.points[::-1]
        if after is not None and series.key == after[0]:
            points = tuple(point for point in points if point.end < after[1])
        if not points:
            continue
        if size <= 0 and last is not None:
            response.next_page_token = write_token(last, digest)
            return response
        shown = points[:size] if full else ()
        _fill(response.time_series.add(), series, shown)
        response.unit = series.unit
        size -= len(shown) if full else 1
        # In HEADERS, and after a series' last point, the next page starts with the next series.
        last = (series.key, shown[-1].end if len(shown) < len(points) and full else 0)
        if last[1]:
            response.next_page_token = write_token(last, digest)
            return response
    return response


def _fill(target: Pb, series: TimeSeries, points: Sequence[SeriesPoint]) -> None:
    target.metric.type = series.metric_type
    target.metric.labels.update(series.metric_labels)
    target.resource.type = series.resource_type
    target.resource.labels.update(series.resource_labels)
    target.metric_kind = series.kind
    target.value_type = series.value_type
    target.unit = series.unit
    whole = series.value_type == ValueType.INT64
    for point in points:
        added = target.points.add()
        added.interval.start_time.FromNanoseconds(point.start)
        added.interval.end_time.FromNanoseconds(point.end)
        if point.distribution is not None:
            point.distribution.fill(added.value.distribution_value)
        elif whole:
            added.value.int64_value = round(point.value)
        else:
            added.value.double_value = point.value


def methods(state: StateDir, catalog: JobCatalog, predictions: Predictions = lambda *_: ()) -> list[Method]:
    """Return the RPCs of this service. `predictions` returns the series of a project's endpoints since a
    time."""
    service = MonitoringService(state, catalog, load_config(state.config).sample_period, predictions)
    return methods_of(
        SERVICE,
        metric_service,
        ("ListTimeSeries", service.list_time_series),
        ("ListMetricDescriptors", service.list_metric_descriptors),
        ("GetMetricDescriptor", service.get_metric_descriptor, metric_pb2.MetricDescriptor),
    )
