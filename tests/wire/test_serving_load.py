"""Predictions counted by deployed model, as Monitoring serves them and as the backend reads them."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

import pytest
from google.api_core import exceptions
from google.cloud.monitoring_v3.services.metric_service import MetricServiceAsyncClient
from google.cloud.monitoring_v3.services.metric_service.transports import MetricServiceGrpcAsyncIOTransport
from google.cloud.monitoring_v3.types import ListTimeSeriesRequest, TimeSeries

from tests.wire.control import PARENT, emulator
from tests.wire.fake_vertex import FixedEndpoint
from tests.wire.serving import SERVER, Serving
from tui.backends.interface import ContextInfo
from tui.backends.vertex.backend import VertexBackend

PREFIX = "aiplatform.googleapis.com/prediction/online/"
_, PROJECT, _, REGION = PARENT.split("/")
FULL = ListTimeSeriesRequest.TimeSeriesView.FULL
BROKEN = SERVER.replace("asked = json.loads(body)", "return self.reply(503, b'overloaded')")


async def read(metrics: MetricServiceAsyncClient, metric: str, **aggregation: Any) -> list[TimeSeries]:
    now = int(time.time()) + 1
    request: dict[str, Any] = {
        "name": f"projects/{PROJECT}", "filter": f'metric.type="{PREFIX}{metric}"', "view": FULL,
        "interval": {"start_time": {"seconds": now - 300}, "end_time": {"seconds": now}},
    }  # fmt: skip
    if aggregation:
        request["aggregation"] = {"alignment_period": {"seconds": 300}, **aggregation}
    return [series async for series in await metrics.list_time_series(request=request, timeout=60)]


def by_label(found: list[TimeSeries], label: str) -> dict[tuple[str, str], int]:
    return {
        (series.metric.labels["deployed_model_id"], series.metric.labels[label]): sum(
            point.value.int64_value for point in series.points
        )
        for series in found
    }


# Seconds: two model servers are started.
async def test_predictions_are_counted_by_model_status_and_time() -> None:
    async with emulator() as (running, clients):
        serving = Serving(clients.channel)
        metrics = MetricServiceAsyncClient(
            transport=MetricServiceGrpcAsyncIOTransport(channel=clients.channel)
        )
        good, bad = await serving.upload(name="a"), await serving.upload(name="b", code=BROKEN)
        endpoint = await serving.endpoint(display_name="front")
        old = await serving.deploy(endpoint, good, {"0": 100})
        new = await serving.deploy(endpoint, bad, {old: 80, "0": 20})
        assert await read(metrics, "response_count") == []
        for _ in range(10):
            with suppress(exceptions.ServiceUnavailable):
                await serving.ask(endpoint, "x", "y", retry=None)
        with pytest.raises(exceptions.GoogleAPICallError):
            for _ in range(2):
                await serving.predictions.predict(endpoint=endpoint, instances=[404], retry=None)

        answers = by_label(await read(metrics, "response_count"), "response_code")
        assert answers == {(old, "2xx"): 8, (old, "4xx"): 1, (new, "5xx"): 2}
        counted = by_label(await read(metrics, "prediction_count"), "endpoint_display_name")
        assert counted == {(old, "front"): 17, (new, "front"): 4}
        errors = by_label(await read(metrics, "error_count"), "model_display_name")
        assert errors == {(old, "a"): 1, (new, "b"): 2}

        times = await read(metrics, "prediction_latencies")
        assert {(t.metric.labels["deployed_model_id"], t.metric.labels["latency_type"]) for t in times} == {
            (which, kind) for which in (old, new) for kind in ("total", "model", "overhead")
        }
        first = times[0].points[0].value.distribution_value
        assert times[0].resource.type == "aiplatform.googleapis.com/Endpoint"
        assert times[0].resource.labels["endpoint_id"] == endpoint.rpartition("/")[2]
        assert sum(first.bucket_counts) == first.count > 0 and first.mean > 0
        (merged,) = [
            t
            for t in await read(metrics, "prediction_latencies", per_series_aligner="ALIGN_DELTA")
            if t.metric.labels["latency_type"] == "total" and t.metric.labels["deployed_model_id"] == old
        ]
        assert [point.value.distribution_value.count for point in merged.points] == [9]
        with pytest.raises(exceptions.InvalidArgument, match="ALIGN_MEAN requires numbers"):
            await read(metrics, "prediction_latencies", per_series_aligner="ALIGN_MEAN")
        with pytest.raises(exceptions.InvalidArgument, match="align them with a percentile first"):
            await read(
                metrics, "prediction_latencies", per_series_aligner="ALIGN_DELTA",
                cross_series_reducer="REDUCE_SUM",
            )  # fmt: skip

        info = ContextInfo("test", PROJECT, (REGION,), "the emulator", local=True)
        async with VertexBackend(info, FixedEndpoint({REGION: running.target})) as backend:
            found = (await backend.serving.endpoints()).items
            loads = await backend.serving.loads(found)
            assert loads[endpoint, old].requests == 9 and loads[endpoint, old].errors == {"4xx": 1}
            broken = loads[endpoint, new]
            assert broken.error_text == "100 % 5xx" and 0 < broken.rate < 1
            assert broken.p50 is not None and broken.p95 is not None and 0 < broken.p50 <= broken.p95 < 60_000
