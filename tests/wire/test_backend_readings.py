"""Series, progress and steps: what is asked for, how often, and what is made of the answers."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from google.api import metric_pb2
from google.cloud.aiplatform_v1.types.accelerator_type import AcceleratorType
from google.cloud.monitoring_v3.types import metric as metric_types
from grpc import StatusCode

from tests.wire.backend_readings_support import NAME, step
from tests.wire.fake_vertex import START, Abort, Fake, State, connected
from tui.backends.interface import LogQuery, PermissionDenied
from tui.backends.vertex.logs import progress as progress_module
from tui.backends.vertex.logs import reader as logs_module
from tui.domain.core.metric import CPU, GPU, NET_IN, TRAINING_METRICS
from tui.domain.training import collected_steps as steps_module

PREFIX = "ml.googleapis.com/training/"


def series(metric: str, *values: float, **labels: str) -> Any:
    """Points a minute apart, newest first as on the wire."""
    pb = metric_types.TimeSeries.pb()(metric=metric_pb2.Metric(type=PREFIX + metric, labels=labels))
    for minute, value in reversed(list(enumerate(values))):
        point = pb.points.add()
        point.interval.end_time.FromDatetime(START + timedelta(minutes=minute))
        point.value.double_value = value
    return pb


def answering(fake: Fake) -> list[Any]:
    """Let the fake give each metric its own series; the requests for series that came."""
    asked: list[Any] = []
    every = list(fake.series)

    async def choose(request: Any) -> None:
        asked.append(request)
        fake.series = [pb for pb in every if f'"{pb.metric.type}"' in request.filter]

    fake.before["ListTimeSeries"] = choose
    return asked


async def test_series_of_every_replica_oldest_point_first() -> None:
    fake = Fake(series=[
        series(CPU, 0.1, 0.2, 0.3, replica_id="workerpool0-0"),
        series(CPU, 0.5, replica_id="workerpool1-0"),
    ])  # fmt: skip
    fake.add_job()
    asked = answering(fake)
    async with connected(fake) as found:
        reading = await found.metrics.read(NAME)
    first, second = reading.series
    assert (first.metric, first.replica, second.replica) == (CPU, "workerpool0-0", "workerpool1-0")
    assert [value for _at, value in first.points] == [0.1, 0.2, 0.3]
    assert first.points[0][0] == START
    assert first.latest == first.points[-1]
    assert len(asked) == len(TRAINING_METRICS)
    assert all('resource.labels.job_id="1"' in request.filter for request in asked)
    missing = {one.metric: one.reason for one in reading.not_measured}
    assert set(missing) == set(TRAINING_METRICS) - {CPU}
    assert missing[GPU] == "no accelerator in this job"
    assert "no samples" in missing[NET_IN]


@pytest.mark.parametrize(
    ("labels", "replica", "accelerator"),
    [
        ({"replica_id": "workerpool1-3", "accelerator_id": "2"}, "workerpool1-3", "2"),
        ({"task_name": "workerpool1-3", "gpu_id": "0"}, "workerpool1-3", "0"),
        ({"something_new": "workerpool2-0"}, "workerpool2-0", ""),
        ({"colour": "blue"}, "", ""),
    ],
)
async def test_labels_whose_names_nobody_documents(
    labels: dict[str, str], replica: str, accelerator: str
) -> None:
    fake = Fake(series=[series(GPU, 0.9, **labels)])
    job = fake.add_job()
    answering(fake)
    machine = job.job_spec.worker_pool_specs.add(replica_count=1).machine_spec
    machine.accelerator_type, machine.accelerator_count = AcceleratorType.NVIDIA_L4.value, 1
    async with connected(fake) as found:
        reading = await found.metrics.read(NAME, metrics=[GPU])
    (one,) = reading.series
    assert (one.replica, one.accelerator) == (replica, accelerator)
    assert dict(one.labels) == labels
    assert reading.not_measured == ()


async def test_counters_are_asked_for_as_rates_and_gauges_as_they_are() -> None:
    fake = Fake(series=[series(NET_IN, 5.0, replica_id="workerpool0-0")])
    fake.add_job()
    asked = answering(fake)
    async with connected(fake) as found:
        reading = await found.metrics.read(NAME, metrics=[NET_IN, CPU])
    by_metric = {request.filter.split('"')[1].removeprefix(PREFIX): request for request in asked}
    assert by_metric[NET_IN].aggregation.per_series_aligner == metric_aligner("ALIGN_RATE")
    assert by_metric[NET_IN].aggregation.alignment_period.seconds >= 1
    assert not by_metric[CPU].HasField("aggregation")
    assert reading.series[0].unit == "By/s"


def metric_aligner(name: str) -> int:
    from google.cloud.monitoring_v3.types import Aggregation

    return int(Aggregation.Aligner[name])


async def test_a_job_that_has_not_run_is_said_and_its_window_is_valid() -> None:
    fake = Fake()
    job = fake.add_job(state=State.JOB_STATE_QUEUED)
    job.ClearField("start_time")
    asked = answering(fake)
    async with connected(fake) as found:
        reading = await found.metrics.read(NAME, since=START + timedelta(days=400), metrics=[CPU])
    assert [one.reason for one in reading.not_measured] == ["the job has not run yet"]
    interval = asked[0].interval
    assert interval.start_time.ToDatetime() < interval.end_time.ToDatetime()


async def test_series_that_may_not_be_read_are_an_error_and_not_a_zero() -> None:
    fake = Fake()
    fake.add_job()
    fake.fail("ListTimeSeries", *[Abort(StatusCode.PERMISSION_DENIED, "monitoring.timeSeries.list")] * 9)
    async with connected(fake) as found:
        with pytest.raises(PermissionDenied):
            await found.metrics.read(NAME)


async def test_progress_of_several_jobs_takes_one_read_and_the_next_one_only_what_is_new() -> None:
    fake = Fake()
    jobs = []
    for number in (1, 2, 3):
        fake.add_job(number)
        for index in range(3 * (number - 1)):
            step(fake, index, 9.0 - index, at=index, job=str(number))
    async with connected(fake) as found:
        jobs = [job async for page in found.list_jobs() for job in page.jobs]
        progress = await found.progress.read(jobs)
        assert fake.calls["ListLogEntries"] == 1
        by_id = {job.id: progress[job.name] for job in jobs}
        assert by_id["1"].step is None
        assert (by_id["2"].step, by_id["2"].first_loss, by_id["2"].last_loss) == (2, 9.0, 7.0)
        assert (by_id["3"].step, by_id["3"].total_steps) == (5, 100)
        step(fake, 50, 1.0, at=500, job="3")
        again = await found.progress.read(jobs)
        assert fake.calls["ListLogEntries"] == 2
        third = next(job.name for job in jobs if job.id == "3")
        assert (again[third].step, again[third].first_loss, again[third].last_loss) == (50, 9.0, 1.0)
        assert await found.progress.read([]) == {}
        assert fake.calls["ListLogEntries"] == 2


async def test_the_first_loss_of_a_long_job_is_looked_up_once() -> None:
    fake = Fake()
    fake.add_job()
    for index in range(500):
        step(fake, index, 9.0 - index / 100, at=index)
    async with connected(fake) as found:
        job = await found.jobs["custom_job"].get(NAME)
        first = (await found.progress.read([job]))[NAME]
        assert (first.step, first.first_loss, first.last_loss) == (499, 9.0, pytest.approx(4.01))
        calls = fake.calls["ListLogEntries"]
        assert calls == 2
        assert (await found.progress.read([job]))[NAME] == first
        assert fake.calls["ListLogEntries"] == calls + 1


async def test_reads_stay_few_however_many_jobs_there_are() -> None:
    fake = Fake()
    # The busy ones fill every page; the last ten have nothing to say.
    for number in range(1, 31):
        fake.add_job(number)
        for index in range(60 if number <= 20 else 0):
            step(fake, index, 9.0 - index / 100, at=index + number / 100, job=str(number))
    async with connected(fake) as found:
        jobs = [job async for page in found.list_jobs() for job in page.jobs]
        counts = []
        for _ in range(8):
            before = fake.calls["ListLogEntries"]
            progress = await found.progress.read(jobs)
            counts.append(fake.calls["ListLogEntries"] - before)
        assert counts[0] == 1 + progress_module.ALONE + progress_module.FIRST_LOSSES
        assert counts[1:5] == [1 + progress_module.FIRST_LOSSES] * 4
        assert counts[5:] == [1] * 3
        losses = [progress[job.name].first_loss for job in jobs if int(job.id) <= 20]
        assert losses == [9.0] * 20


async def test_a_job_that_printed_nothing_at_first_is_not_kept_out_by_busy_ones() -> None:
    fake = Fake()
    for number in (1, 2, 3):
        fake.add_job(number)
    async with connected(fake) as found:
        jobs = [job async for page in found.list_jobs() for job in page.jobs]
        await found.progress.read(jobs)
        # All of it is within the overlap of two reads, so that each read has the busy jobs' lines again.
        for index in range(90):
            step(fake, index, 2.0, at=10 + index / 100, job="1")
            step(fake, index, 2.0, at=10 + index / 100, job="2")
        step(fake, 7, 2.5, at=9, job="3")
        read = await found.progress.read(jobs)
        progress = {job.id: read[job.name] for job in jobs}
        assert [progress[id].step for id in "123"] == [89, 89, 7]
        assert progress["3"].first_loss == 2.5


async def test_a_quiet_job_beside_a_busy_one_is_not_forgotten() -> None:
    fake = Fake()
    fake.add_job(1)
    fake.add_job(2)
    step(fake, 7, 3.0, at=0, job="2")
    for index in range(300):
        step(fake, index, 9.0, at=10 + index, job="1")
    async with connected(fake) as found:
        jobs = [job async for page in found.list_jobs() for job in page.jobs]
        progress = await found.progress.read(jobs)
    assert {job.id: progress[job.name].step for job in jobs} == {"1": 299, "2": 7}


async def test_steps_are_of_one_replica_thinned_and_read_on_from_where_they_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(steps_module, "MOST_TRAINING_STEPS", 64)
    fake = Fake()
    fake.add_job()
    for index in range(1000):
        for replica in ("workerpool0-0", "workerpool1-0"):
            step(fake, index, 9.0, at=index, replica=replica)
    async with connected(fake) as found:
        steps = await found.progress.training_steps(NAME)
        numbers = [one.step for one in steps]
        assert numbers == sorted(set(numbers))
        assert 16 <= len(numbers) <= 65
        assert (numbers[0], numbers[-1]) == (0, 999)
        before = fake.calls["ListLogEntries"]
        step(fake, 1000, 1.0, at=1000, replica="workerpool0-0")
        again = await found.progress.training_steps(NAME)
        assert again[-1].step == 1000
        assert fake.calls["ListLogEntries"] == before + 1


async def test_logs_come_in_pages_up_to_the_limit_from_either_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs_module, "PAGE", 10)
    fake = Fake()
    fake.add_job()
    for index in range(25):
        fake.write(f"{index:02}", at=index)
    async with connected(fake) as found:

        async def read(**how: Any) -> list[list[str]]:
            query = LogQuery(NAME)
            return [[e.message for e in b.entries] async for b in found.logs.read(query, **how)]

        assert [len(page) for page in await read()] == [10, 10, 5]
        assert await read(limit=2) == [["00", "01"]]
        assert await read(limit=2, newest_first=True) == [["24", "23"]]
        assert [len(page) for page in await read(limit=13)] == [10, 3]
        assert await read(limit=0) == []
    asked = [r for r in fake.requests if hasattr(r, "order_by")]
    assert all('timestamp>="' in request.filter for request in asked)
    # Without a time of the query's own the job's creation bounds it; asked for once.
    assert fake.calls["GetCustomJob"] == 1


async def test_the_log_of_a_deleted_job_can_still_be_read() -> None:
    fake = Fake()
    fake.write("left", at=1)
    async with connected(fake) as found:
        batches = [batch async for batch in found.logs.read(LogQuery(NAME))]
    assert [entry.message for batch in batches for entry in batch.entries] == ["left"]
