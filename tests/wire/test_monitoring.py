"""google.monitoring.v3 through the unmodified client, over samples as runners record them."""

from __future__ import annotations

import time
from typing import Any

import pytest
from google.api_core import exceptions
from google.cloud.monitoring_v3.types import ListTimeSeriesRequest, TimeSeries

from tests.wire.observe import JOB, PROJECT, Jobs, Place, place
from tui.domain.core.metric import CPU, GPU, MEMORY, NET_IN, TRAINING_PREFIX
from tui.emulator.interfaces import JobRecord
from tui.emulator.monitoring.series import Kind, ValueType
from tui.emulator.runner.database import create

OTHER = JobRecord("p", "europe-west4", "1002")
START = (int(time.time()) - 600) // 60 * 60
MEANS = {"per_series_aligner": "ALIGN_MEAN", "alignment_period": {"seconds": 60}}
REPLICAS = ("workerpool0-0", "workerpool1-0")
FULL, HEADERS = ListTimeSeriesRequest.TimeSeriesView.FULL, ListTimeSeriesRequest.TimeSeriesView.HEADERS


def ns(second: float) -> int:
    return round((START + second) * 1e9)


def record(
    here: Place, job: JobRecord, number: int, samples: list[tuple[float, str, str, str, float]]
) -> None:
    attempt = here.state.attempt(job.id, number)
    attempt.root.mkdir(parents=True, exist_ok=True)
    db = create(attempt.database)
    db.executemany("INSERT INTO samples VALUES (?, ?, ?, ?, ?)", [(ns(at), *rest) for at, *rest in samples])
    db.close()


def steady(metric: str, values: list[float], step: float = 10, first: float = 0) -> list[Any]:
    return [
        (first + i * step, replica, metric, "", value)
        for i, value in enumerate(values)
        for replica in REPLICAS
    ]


async def read(here: Place, metric: str, more: str = "", **request: Any) -> list[TimeSeries]:
    interval = request.pop(
        "interval", {"start_time": {"seconds": START - 1}, "end_time": {"seconds": START + 300}}
    )
    text = f'metric.type="{metric}"' + (f" AND {more}" if more else "")
    pager = await here.metrics.list_time_series(
        request={"name": PROJECT, "filter": text, "interval": interval, "view": FULL, **request}, timeout=60
    )
    return [series async for series in pager]


def shape(series: TimeSeries) -> tuple[str, str, str]:
    return Kind.Name(series.metric_kind), ValueType.Name(series.value_type), series.unit


def seconds(series: TimeSeries) -> list[float]:
    return [point.interval.end_time.timestamp() - START for point in series.points]


async def test_a_gauge_has_each_replica_newest_first() -> None:
    async with place() as here:
        record(here, JOB, 1, steady(CPU, [0.1, 0.2, 0.3]))
        record(here, JOB, 2, steady(CPU, [0.9], first=100))
        found = await read(
            here, TRAINING_PREFIX + CPU, f'resource.type="cloudml_job" AND resource.labels.job_id="{JOB.id}"'
        )
        assert [dict(s.metric.labels) for s in found] == [{"replica_id": r} for r in REPLICAS]
        for series in found:
            assert dict(series.resource.labels) == {
                "project_id": "p",
                "job_id": JOB.id,
                "region": "us-central1",
            }
            assert seconds(series) == [100, 20, 10, 0]
            assert [p.value.double_value for p in series.points] == [0.9, 0.3, 0.2, 0.1]
            assert shape(series) == ("GAUGE", "DOUBLE", "1")


async def test_without_a_gpu_there_is_no_gpu_series() -> None:
    async with place() as here:
        record(here, JOB, 1, steady(CPU, [0.1]))
        assert await read(here, TRAINING_PREFIX + GPU) == []
        record(here, JOB, 2, [(5, REPLICAS[0], GPU, str(n), 0.5) for n in range(2)])
        found = await read(here, TRAINING_PREFIX + GPU)
        assert [dict(s.metric.labels) for s in found] == [
            {"replica_id": REPLICAS[0], "accelerator_id": str(n)} for n in range(2)
        ]


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ("", 4),
        (f'resource.labels.job_id="{OTHER.id}"', 2),
        (f'resource.labels.job_id=one_of("{JOB.id}", "{OTHER.id}")', 4),
        ('resource.labels.job_id=one_of("5")', 0),
        ('resource.label.region=starts_with("europe")', 2),
        ('metric.labels.replica_id="workerpool1-0"', 2),
        ('metric.label.replica_id!="workerpool1-0" AND resource.labels.region="us-central1"', 1),
        ('project="p" AND resource.type="cloudml_job"', 4),
        ('resource.type="gce_instance"', 0),
        ('NOT (metric.labels.replica_id=ends_with("0-0") OR resource.labels.job_id="1002")', 1),
    ],
)
async def test_filters(more: str, expected: int) -> None:
    async with place(Jobs([JOB, OTHER, JobRecord("q", "us-central1", "9")])) as here:
        for job in here.jobs.records:
            record(here, job, 1, steady(MEMORY, [0.5]))
        assert len(await read(here, TRAINING_PREFIX + MEMORY, more)) == expected


async def test_counters_are_differences_and_rates() -> None:
    async with place() as here:
        # 100 bytes a second; the counter begins again with the second attempt, and once within it.
        record(here, JOB, 1, [(t, REPLICAS[0], NET_IN, "", 5000 + 100 * t) for t in range(0, 60, 10)])
        record(
            here, JOB, 2, [(t, REPLICAS[0], NET_IN, "", v) for t, v in ((100, 0), (110, 1000), (120, 400))]
        )
        (raw,) = await read(here, TRAINING_PREFIX + NET_IN)
        assert shape(raw) == ("DELTA", "INT64", "By")
        assert seconds(raw) == [120, 110, 50, 40, 30, 20, 10]
        assert [p.value.int64_value for p in raw.points] == [400, 1000, 1000, 1000, 1000, 1000, 1000]
        newest = raw.points[0].interval
        assert (newest.end_time - newest.start_time).total_seconds() == 10
        aligned = {"alignment_period": {"seconds": 20}, "per_series_aligner": "ALIGN_RATE"}
        (rate,) = await read(here, TRAINING_PREFIX + NET_IN, aggregation=aligned)
        assert shape(rate) == ("GAUGE", "DOUBLE", "By/s")
        assert seconds(rate) == [120, 60, 40, 20]
        assert [p.value.double_value for p in rate.points] == pytest.approx([70, 100, 100, 100])


@pytest.mark.parametrize(
    ("aligner", "values"),
    [
        ("ALIGN_MEAN", [0.5, 0.2]),
        ("ALIGN_MAX", [0.5, 0.3]),
        ("ALIGN_MIN", [0.5, 0.1]),
        ("ALIGN_SUM", [0.5, 0.6]),
    ],
)
async def test_gauges_are_aligned_back_from_the_end(aligner: str, values: list[float]) -> None:
    async with place() as here:
        record(here, JOB, 1, steady(CPU, [0.1, 0.2, 0.3, 0.5], step=20, first=10))
        found = await read(
            here,
            TRAINING_PREFIX + CPU,
            aggregation={"alignment_period": {"seconds": 60}, "per_series_aligner": aligner},
        )
        assert len(found) == 2
        for series in found:
            assert seconds(series) == [120, 60]
            assert [p.value.double_value for p in series.points] == pytest.approx(values)


async def test_the_interval_is_open_at_its_start() -> None:
    async with place() as here:
        record(here, JOB, 1, steady(CPU, [0.1, 0.2, 0.3]))
        between = {"start_time": {"seconds": START}, "end_time": {"seconds": START + 20}}
        assert seconds((await read(here, TRAINING_PREFIX + CPU, interval=between))[0]) == [20, 10]
        moment = {"end_time": {"seconds": START + 10}}
        assert seconds((await read(here, TRAINING_PREFIX + CPU, interval=moment))[0]) == [10]
        later = {"start_time": {"seconds": START + 100}, "end_time": {"seconds": START + 200}}
        assert await read(here, TRAINING_PREFIX + CPU, interval=later) == []


@pytest.mark.parametrize("size", [1, 2, 3, 5, 100])
async def test_pages_count_points_and_lose_none(size: int) -> None:
    async with place(Jobs([JOB, OTHER])) as here:
        for job in here.jobs.records:
            record(here, job, 1, steady(CPU, [i / 10 for i in range(5)]))
        whole = await read(here, TRAINING_PREFIX + CPU)
        paged: dict[tuple[str, str], list[float]] = {}
        for series in await read(here, TRAINING_PREFIX + CPU, page_size=size):
            key = (series.resource.labels["job_id"], series.metric.labels["replica_id"])
            paged.setdefault(key, []).extend(seconds(series))
        assert paged == {
            (s.resource.labels["job_id"], s.metric.labels["replica_id"]): seconds(s) for s in whole
        }
        headers = await read(here, TRAINING_PREFIX + CPU, page_size=size, view=HEADERS)
        assert len(headers) == 4 and not any(s.points for s in headers)


@pytest.mark.parametrize(
    ("request_", "named"),
    [
        ({"name": "p"}, "name"),
        ({"filter": 'resource.type="cloudml_job"'}, "exactly one metric.type"),
        ({"filter": 'metric.type="a" OR metric.type="b"'}, "exactly one metric.type"),
        ({"filter": f'metric.type="{TRAINING_PREFIX}{CPU}" cpu'}, "stands alone"),
        ({"filter": f'metric.type="{TRAINING_PREFIX}{CPU}" AND group.id=1'}, "group.id"),
        ({"filter": 'metric.type="x'}, "quote is never closed"),
        ({"interval": {}}, "interval.end_time"),
        ({"interval": {"start_time": {"seconds": 9}, "end_time": {"seconds": 5}}}, "start_time"),
        ({"order_by": "x"}, "order_by"),
        ({"page_size": -1}, "page_size"),
        ({"page_token": "x"}, "page_token"),
        ({"aggregation": {"per_series_aligner": "ALIGN_MEAN"}}, "alignment_period"),
        ({"aggregation": {"per_series_aligner": "ALIGN_RATE", "alignment_period": {"seconds": 60}}}, "gauge"),
        (
            {
                "aggregation": {
                    "per_series_aligner": "ALIGN_PERCENTILE_99",
                    "alignment_period": {"seconds": 60},
                }
            },
            "requires distributions.*ALIGN_MEAN",
        ),
        (
            {"aggregation": {"cross_series_reducer": "REDUCE_SUM"}},
            "aggregation.per_series_aligner: must be set",
        ),
        ({"aggregation": {**MEANS, "cross_series_reducer": "REDUCE_COUNT_TRUE"}}, "requires booleans"),
        (
            {
                "aggregation": {
                    **MEANS,
                    "cross_series_reducer": "REDUCE_SUM",
                    "group_by_fields": ["resource.type", "job"],
                }
            },
            r"group_by_fields\[1\]: 'job' can't be used",
        ),
        ({"secondary_aggregation": MEANS}, "secondary_aggregation: requires aligned series"),
    ],
)
async def test_what_makes_no_sense_is_refused(request_: dict[str, Any], named: str) -> None:
    async with place() as here:
        record(here, JOB, 1, steady(CPU, [0.1]))
        request = {
            "name": PROJECT,
            "filter": f'metric.type="{TRAINING_PREFIX}{CPU}"',
            "interval": {"start_time": {"seconds": START - 1}, "end_time": {"seconds": START + 60}},
            **request_,
        }
        with pytest.raises(exceptions.InvalidArgument, match=named):
            await here.metrics.list_time_series(request=request, timeout=60)


async def test_an_unknown_metric_is_not_found() -> None:
    async with place() as here:
        with pytest.raises(exceptions.NotFound, match="nosuch"):
            await read(here, "compute.googleapis.com/nosuch")
        with pytest.raises(exceptions.NotFound, match="nosuch"):
            await here.metrics.get_metric_descriptor(request={"name": f"{PROJECT}/metricDescriptors/nosuch"})


async def test_quota_series() -> None:
    metric = "custom_model_training_cpus"
    jobs = Jobs(limits={("us-central1", metric): 42}, used={("us-central1", metric): 8})
    now = int(time.time())
    recent = {"start_time": {"seconds": now - 90_000}, "end_time": {"seconds": now + 1}}
    where = 'resource.type="consumer_quota" AND resource.labels.location="us-central1"'
    async with place(jobs) as here:
        limits = await read(here, "serviceruntime.googleapis.com/quota/limit", where, interval=recent)
        found = {s.metric.labels["quota_metric"]: s for s in limits}
        cpus = found[f"aiplatform.googleapis.com/{metric}"]
        assert cpus.points[0].value.int64_value == 42
        assert cpus.metric.labels["limit_name"] == "CustomModelTrainingCPUsPerProjectPerRegion"
        assert cpus.resource.labels["service"] == "aiplatform.googleapis.com" and len(found) > 20
        (used,) = await read(
            here, "serviceruntime.googleapis.com/quota/allocation/usage", where, interval=recent
        )
        assert used.points[0].value.int64_value == 8
        # There is no history: nothing is claimed about the past.
        past = {"start_time": {"seconds": now - 9000}, "end_time": {"seconds": now - 5000}}
        assert await read(here, "serviceruntime.googleapis.com/quota/limit", where, interval=past) == []


async def test_descriptors() -> None:
    async with place() as here:
        pager = await here.metrics.list_metric_descriptors(
            request={
                "name": PROJECT,
                "filter": 'metric.type=starts_with("ml.googleapis.com/training/")',
                "page_size": 4,
            }
        )
        found = {d.type: d async for d in pager}
        assert len(found) == 6
        one = await here.metrics.get_metric_descriptor(request={"name": found[TRAINING_PREFIX + GPU].name})
        assert {label.key for label in one.labels} == {"replica_id", "accelerator_id", "simulated"}
        assert one.metadata.sample_period.ToTimedelta().total_seconds() == 2
        assert found[TRAINING_PREFIX + NET_IN].metric_kind == 2


async def test_series_are_reduced_to_one_for_each_group_and_once_more() -> None:
    async with place(Jobs([JOB, OTHER])) as here:
        # Both replicas of each job: 0.1 and 0.3 in the first minute, 0.5 in the second.
        for job in (JOB, OTHER):
            record(here, job, 1, steady(CPU, [0.1, 0.3, 0.5], step=30, first=15))
        interval = {"start_time": {"seconds": START}, "end_time": {"seconds": START + 120}}
        by_job = {**MEANS, "cross_series_reducer": "REDUCE_SUM", "group_by_fields": ["resource.label.job_id"]}
        found = await read(here, TRAINING_PREFIX + CPU, interval=interval, aggregation=by_job)
        assert [dict(s.resource.labels) for s in found] == [
            {"project_id": "p", "job_id": job.id} for job in (JOB, OTHER)
        ]
        for series in found:
            assert not series.metric.labels and series.metric.type == TRAINING_PREFIX + CPU
            assert shape(series) == ("GAUGE", "DOUBLE", "1")
            assert [p.value.double_value for p in series.points] == pytest.approx([1.0, 0.4])
            assert seconds(series) == [120, 60]
        longer = {"per_series_aligner": "ALIGN_MAX", "alignment_period": {"seconds": 120}}
        (one,) = await read(
            here, TRAINING_PREFIX + CPU, interval=interval, aggregation=by_job,
            secondary_aggregation={**longer, "cross_series_reducer": "REDUCE_COUNT"},
        )  # fmt: skip
        assert [(p.value.int64_value, shape(one)) for p in one.points] == [(2, ("GAUGE", "INT64", "1"))]
        headers = await read(here, TRAINING_PREFIX + CPU, interval=interval, aggregation=by_job, view=HEADERS)
        assert len(headers) == 2 and not any(series.points for series in headers)


async def test_a_percentage_takes_what_came_before_the_interval_into_account() -> None:
    async with place() as here:
        record(here, JOB, 1, steady(CPU, [0.2] * 6 + [0.4] * 6, step=60, first=-660))
        change = {"per_series_aligner": "ALIGN_PERCENT_CHANGE", "alignment_period": {"seconds": 300}}
        interval = {"start_time": {"seconds": START - 300}, "end_time": {"seconds": START}}
        found = await read(here, TRAINING_PREFIX + CPU, interval=interval, aggregation=change)
        # Ten minutes up to now: 4 of 0.2 and 6 of 0.4; five minutes ago 6 of 0.2 and 1 of 0.4.
        after, before = 0.32, 1.6 / 7
        for series in found:
            assert [p.value.double_value for p in series.points] == pytest.approx(
                [(after - before) / before * 100]
            )
        assert len(found) == len(REPLICAS)
