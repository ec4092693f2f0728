"""TensorboardService: TensorBoards, their experiments, runs and time series, and the points of the series.

A TensorBoard named in config.yaml exists without being created; resources created below it are stored. A step
that is written again replaces its earlier point (docstring of TimeSeriesDataPoint). Blobs are not served.
"""

from __future__ import annotations

import fnmatch
from collections import Counter
from collections.abc import Sequence
from typing import Any

from google.cloud.aiplatform_v1.types import tensorboard_data, tensorboard_service

from tui.emulator.config import EmulatorConfig
from tui.emulator.experiments.kinds import BOARD, EXPERIMENT, RUN, SERIES, TENSORBOARD
from tui.emulator.experiments.resource_service import ResourceServer, touched
from tui.emulator.experiments.store import Point, ResourceStore
from tui.emulator.filters.fields import FieldTable, FilterField
from tui.emulator.filters.value_types import Ordered, rfc3339_value
from tui.emulator.messages import Pb, copied
from tui.emulator.rpc.methods import Method, invalid, methods_of
from tui.emulator.rpc.paging import in_slices, page_at, query_digest
from tui.emulator.services.check_faults import ActiveCheckFaults
from tui.emulator.vertex.operations import Operations
from tui.emulator.vertex.resource_requests import request_filter

DataPb = tensorboard_data.TimeSeriesData.pb()
PointPb = tensorboard_data.TimeSeriesDataPoint.pb()
DEFAULT_POINTS = 1000
"""Number of points in a read without max_data_points, as documented; also the page size of an export."""
MAX_POINTS = 10_000
_t = tensorboard_service
_POINT_FIELDS: FieldTable[Pb] = FieldTable(
    {
        "step": FilterField(lambda point: int(point.step), Ordered(int)),
        "wall_time": FilterField(lambda point: point.wall_time.ToNanoseconds(), Ordered(rfc3339_value)),
    },
    hint="use step or wall_time",
)


class BoardServer(ResourceServer):
    """Also serves the TensorBoards of the configuration, which must exist before their experiments."""

    def __init__(
        self,
        kind: Any,
        store: ResourceStore,
        operations: Operations,
        config: EmulatorConfig,
        faults: ActiveCheckFaults,
    ) -> None:
        super().__init__(kind, store, operations)
        self._config, self._faults = config, faults

    def find(self, name: str) -> Pb:
        configured = self._configured(name) if self.kind is BOARD else None
        return configured if configured is not None else super().find(name)

    def _must_exist(self, parent: str) -> None:
        if self._configured(parent) is None:
            super()._must_exist(parent)

    def _configured(self, name: str) -> Pb | None:
        if not BOARD.names.fullmatch(name) or self._store.get(name) is not None:
            return None
        known = any(fnmatch.fnmatchcase(name, pattern) for pattern in self._config.tensorboards)
        if not known or self._faults.current.misses(name, name.rpartition("/")[2]):
            return None
        return BOARD.message(name=name, display_name=name.rpartition("/")[2])


class TensorboardServer:
    """RPC handlers; they take and return plain protobuf."""

    def __init__(
        self, store: ResourceStore, operations: Operations, config: EmulatorConfig, faults: ActiveCheckFaults
    ) -> None:
        self._store = store
        kinds = BOARD, EXPERIMENT, RUN, SERIES
        self._servers = [BoardServer(kind, store, operations, config, faults) for kind in kinds]
        self._boards, self._experiments, self._runs, self._series = self._servers

    def methods(self) -> list[Method]:
        """Return the RPCs of this service."""
        return [
            *(method for server in self._servers for method in server.methods()),
            *methods_of(
                TENSORBOARD,
                tensorboard_service,
                ("BatchCreateTensorboardRuns", self.create_runs),
                ("BatchCreateTensorboardTimeSeries", self.create_series),
                ("WriteTensorboardRunData", self.write_run),
                ("WriteTensorboardExperimentData", self.write_experiment),
                ("ReadTensorboardTimeSeriesData", self.read),
                ("BatchReadTensorboardTimeSeriesData", self.read_several),
                ("ExportTensorboardTimeSeriesData", self.export),
            ),
        ]

    async def create_runs(self, request: Pb) -> Pb:
        """Create runs of one experiment, all or none."""
        self._experiments.find(request.parent)
        runs = [
            self._runs.new(
                creation.parent or request.parent, creation.tensorboard_run, creation.tensorboard_run_id
            )
            for creation in request.requests
        ]
        await self._store.put(*_distinct(runs))
        return _t.BatchCreateTensorboardRunsResponse.pb()(tensorboard_runs=runs)

    async def create_series(self, request: Pb) -> Pb:
        """Create time series of runs of one experiment, all or none."""
        self._experiments.find(request.parent)
        series = [
            self._series.new(
                creation.parent, creation.tensorboard_time_series, creation.tensorboard_time_series_id
            )
            for creation in request.requests
        ]
        await self._store.put(*_distinct(series))
        return _t.BatchCreateTensorboardTimeSeriesResponse.pb()(tensorboard_time_series=series)

    async def write_run(self, request: Pb) -> Pb:
        """Write points of series of one run, all or none."""
        await self._write([(request.tensorboard_run, request.time_series_data)])
        return _t.WriteTensorboardRunDataResponse.pb()()

    async def write_experiment(self, request: Pb) -> Pb:
        """Write points of series of several runs, all or none."""
        self._experiments.find(request.tensorboard_experiment)
        await self._write([(r.tensorboard_run, r.time_series_data) for r in request.write_run_data_requests])
        return _t.WriteTensorboardExperimentDataResponse.pb()()

    async def read(self, request: Pb) -> Pb:
        series = self._series.find(request.tensorboard_time_series)
        points = await self._points(series, request.filter)
        limit = request.max_data_points or DEFAULT_POINTS
        return _t.ReadTensorboardTimeSeriesDataResponse.pb()(
            time_series_data=_data(series, _thinned(points, limit))
        )

    async def read_several(self, request: Pb) -> Pb:
        several = []
        for name in request.time_series:
            if not name.startswith(f"{request.tensorboard}/"):
                raise invalid(("time_series", f"{name} must belong to the TensorBoard {request.tensorboard}"))
            series = self._series.find(name)
            several.append(_data(series, _thinned(await self._points(series), DEFAULT_POINTS)))
        return _t.BatchReadTensorboardTimeSeriesDataResponse.pb()(time_series_data=several)

    async def export(self, request: Pb) -> Pb:
        """Return one page of all points, by step."""
        series = self._series.find(request.tensorboard_time_series)
        points = await self._points(series, request.filter)
        if request.order_by not in {"", "step", "step asc"}:
            raise invalid(("order_by", f"{request.order_by!r} is not served; points are ordered by step"))
        size = min(request.page_size or DEFAULT_POINTS, MAX_POINTS)
        digest = query_digest(series.name, request.filter)
        page, token = page_at(points, request.page_token, size, digest)
        return _t.ExportTensorboardTimeSeriesDataResponse.pb()(
            time_series_data_points=page, next_page_token=token
        )

    async def _write(self, runs: Sequence[tuple[str, Sequence[Pb]]]) -> None:
        points: list[tuple[str, Point]] = []
        changed: dict[str, Pb] = {}
        for run, run_data in runs:
            self._runs.find(run)
            for data in run_data:
                name = f"{run}/{SERIES.collection}/{data.tensorboard_time_series_id}"
                series = changed.get(name)
                if series is None:
                    series = copied(self._series.find(name))
                    changed[name] = touched(series)
                points += [(name, _point(series, data, value)) for value in data.values]
        if len(points) > MAX_POINTS:
            raise invalid(("time_series_data", f"has {len(points)} points; the limit is {MAX_POINTS}"))
        await self._store.add_points(points, *changed.values())

    async def _points(self, series: Pb, text: str = "") -> list[Pb]:
        """Return the points that match a filter. Raises WireError."""
        condition = request_filter(text, _POINT_FIELDS)
        rows = await self._store.points(series.name)
        points = [PointPb.FromString(row.body) async for row in in_slices(rows)]
        return [point async for point in in_slices(points) if condition(point)]


def _point(series: Pb, data: Pb, value: Pb) -> Point:
    """Check a point and update its series' statistics. Raises WireError."""
    if data.value_type != series.value_type:
        kinds = tensorboard_data.TimeSeriesData.pb().DESCRIPTOR.fields_by_name["value_type"].enum_type
        name = kinds.values_by_number[series.value_type].name
        raise invalid(("time_series_data.value_type", f"the series {series.name} has {name}"))
    held = value.WhichOneof("value")
    if held == "blobs" or held is None:
        raise invalid(
            ("time_series_data.values", "a point must have a scalar or a tensor; blobs are not served")
        )
    figures = series.metadata
    figures.max_step = max(figures.max_step, value.step)
    if value.wall_time.ToNanoseconds() > figures.max_wall_time.ToNanoseconds():
        figures.max_wall_time.CopyFrom(value.wall_time)
    return Point(value.step, value.wall_time.ToMicroseconds(), value.SerializeToString())


def _data(series: Pb, points: Sequence[Pb]) -> Pb:
    identity = series.name.rpartition("/")[2]
    return DataPb(tensorboard_time_series_id=identity, value_type=series.value_type, values=points)


def _thinned(points: Sequence[Pb], limit: int) -> Sequence[Pb]:
    """Return at most `limit` evenly spaced points, including the first and the last."""
    if len(points) <= limit:
        return points
    if limit == 1:
        return points[-1:]
    return [points[round(at * (len(points) - 1) / (limit - 1))] for at in range(limit)]


def _distinct(resources: Sequence[Pb]) -> Sequence[Pb]:
    (double, count), *_ = Counter(pb.name for pb in resources).most_common(1) or [("", 0)]
    if count > 1:
        raise invalid(("requests", f"{double} is created twice"))
    return resources
