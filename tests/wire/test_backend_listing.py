"""Listings: all jobs, what a poll finds, and what a service that refuses large pages gets."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from google.cloud.aiplatform_v1.types.custom_job import CustomJob
from grpc import StatusCode

from tests.wire.fake_vertex import START, Abort, Fake, State, connected
from tui.backends.interface import InvalidRequest, NotFound, PermissionDenied
from tui.backends.vertex.backend import VertexBackend
from tui.domain.core.job import Job, known_replicas
from tui.domain.core.states import JobState

PARENT = "projects/p/locations/us-central1/customJobs"


def sized(fake: Fake, number: int, machine: str = "n1-standard-4") -> Any:
    """A job of two pools, three replicas."""
    job = fake.add_job(number, labels={"team": "nlp"})
    job.job_spec.worker_pool_specs.add(replica_count=1).machine_spec.machine_type = machine
    job.job_spec.worker_pool_specs.add(replica_count=2).machine_spec.machine_type = machine
    return job


def watched(fake: Fake) -> list[Any]:
    """The list requests that come from now on."""
    asked: list[Any] = []

    async def look(request: Any) -> None:
        asked.append(request)

    fake.before["ListCustomJobs"] = look
    return asked


async def listed(found: VertexBackend, filter: str = "") -> dict[str, Job]:
    jobs: dict[str, Job] = {}
    async for page in found.jobs["custom_job"].list_all(filter=filter):
        if page.error is not None:
            raise page.error
        jobs |= {job.id: job for job in page.jobs}
    return jobs


async def poll(found: VertexBackend) -> tuple[dict[str, Job], set[str]]:
    """What may have changed: jobs by id, and ids of those that are gone."""
    jobs: dict[str, Job] = {}
    gone: set[str] = set()
    async for page in found.jobs["custom_job"].changes():
        if page.error is not None:
            raise page.error
        assert not page.whole
        jobs |= {job.id: job for job in page.jobs}
        gone |= {name.rpartition("/")[2] for name in page.gone}
    return jobs, gone


def ended(fake: Fake, count: int, first: int = 100) -> None:
    """Jobs that ended yesterday, a second apart, before every other one."""
    for number in range(first, first + count):
        job = sized(fake, number)
        job.state = State.JOB_STATE_SUCCEEDED
        job.create_time.FromDatetime(START - timedelta(hours=1, seconds=number))


async def test_a_poll_reads_what_may_have_changed_and_nothing_else() -> None:
    fake = Fake()
    ended(fake, 50)
    for number in range(3):
        sized(fake, number)
    async with connected(fake) as found:
        first = await listed(found)
        assert len(first) == 53
        asked = watched(fake)
        jobs, gone = await poll(found)
        assert set(jobs) == {"0", "1", "2"} and not gone and len(asked) == 1
        assert all(jobs[number] == first[number] for number in jobs)
        fake.end(f"{PARENT}/1")
        jobs, gone = await poll(found)
        # It left the active states after it was the newest: the filter by time still finds it.
        assert jobs["1"].state is JobState.SUCCEEDED and not fake.calls["GetCustomJob"]
        assert [pool.replicas for pool in jobs["1"].groups] == [1, 2] and jobs["1"].labels == {"team": "nlp"}
        whole = await found.jobs["custom_job"].get(jobs["1"].name)
        assert known_replicas(jobs["1"]) == whole.replicas and not jobs["1"].replicas
        assert jobs["1"] == replace(whole, replicas=())


async def test_a_job_that_left_the_active_ones_is_read_once_more() -> None:
    fake = Fake()
    old = sized(fake, 1)
    old.create_time.FromDatetime(START - timedelta(hours=2))
    sized(fake, 2)
    async with connected(fake) as found:
        await listed(found)
        fake.end(old.name)
        jobs, gone = await poll(found)
        assert jobs["1"].state is JobState.SUCCEEDED and not gone and fake.calls["GetCustomJob"] == 1
        assert jobs["1"] == (await listed(found))["1"]
        await poll(found)
        assert fake.calls["GetCustomJob"] == 1


async def test_a_new_job_is_found_also_of_the_same_or_a_somewhat_older_time() -> None:
    fake = Fake()
    ended(fake, 3)
    sized(fake, 1)
    async with connected(fake) as found:
        await listed(found)
        sized(fake, 2).state = State.JOB_STATE_FAILED
        late = sized(fake, 3, "a2-highgpu-8g")
        late.state = State.JOB_STATE_FAILED
        late.create_time.FromDatetime(START - timedelta(seconds=20))
        jobs, _ = await poll(found)
        assert set(jobs) == {"1", "2", "3"} and jobs["3"].groups[1].machine_type == "a2-highgpu-8g"
        assert not fake.calls["GetCustomJob"]


async def test_a_job_that_somebody_deleted_is_gone() -> None:
    fake = Fake()
    ended(fake, 3)
    running = sized(fake, 1)
    running.create_time.FromDatetime(START - timedelta(hours=2))
    sized(fake, 2)
    async with connected(fake) as found:
        await listed(found)
        # An active job ends before it can be deleted; both may happen between two polls.
        del fake.jobs[running.name]
        assert (await poll(found))[1] == {"1"}
        # Deleted here, an ended one is told of; deleted elsewhere, the next whole listing finds it.
        await found.jobs["custom_job"].delete(f"{PARENT}/100")
        assert (await poll(found))[1] == {"100"}
        del fake.jobs[f"{PARENT}/101"]
        assert not (await poll(found))[1]
        # Whoever reads the job itself finds out, and with that the list too.
        with pytest.raises(NotFound):
            await found.jobs["custom_job"].get(f"{PARENT}/101")
        assert (await poll(found))[1] == {"101"} and not (await poll(found))[1]
        assert set(await listed(found)) == {"2", "102"}


async def test_many_jobs_that_end_at_once_are_listed_rather_than_read_one_by_one() -> None:
    fake = Fake()
    for number in range(60):
        sized(fake, number).create_time.FromDatetime(START - timedelta(hours=1, seconds=number))
    sized(fake, 99)
    async with connected(fake) as found:
        await listed(found)
        for number in range(60):
            fake.end(f"{PARENT}/{number}")
        pages = [page async for page in found.jobs["custom_job"].changes()]
        assert [len(page.jobs) for page in pages if page.whole] == [61] and not fake.calls["GetCustomJob"]


async def test_a_region_that_failed_is_listed_whole_by_the_next_poll() -> None:
    fake = Fake()
    ended(fake, 3)
    fake.fail("ListCustomJobs", Abort(StatusCode.PERMISSION_DENIED, "no"))
    async with connected(fake) as found:
        with pytest.raises(PermissionDenied):
            await listed(found)
        pages = [page async for page in found.jobs["custom_job"].changes()]
        assert [(len(page.jobs), page.whole) for page in pages] == [(3, True)]
        fake.fail("ListCustomJobs", Abort(StatusCode.PERMISSION_DENIED, "no"))
        with pytest.raises(PermissionDenied):
            await poll(found)
        assert set((await poll(found))[0]) == {"100", "101", "102"}


async def test_a_region_without_jobs_is_polled_for_its_first() -> None:
    fake = Fake()
    async with connected(fake) as found:
        assert await listed(found) == {}
        assert await poll(found) == ({}, set())
        sized(fake, 1).state = State.JOB_STATE_SUCCEEDED
        assert set((await poll(found))[0]) == {"1"}


async def test_a_service_that_refuses_the_filter_is_listed_whole_each_time() -> None:
    fake = Fake()
    sized(fake, 1)

    async def refuse(request: Any) -> None:
        if " OR " in request.filter:
            raise Abort(StatusCode.INVALID_ARGUMENT, "no such operator")

    fake.before["ListCustomJobs"] = refuse
    async with connected(fake) as found:
        await listed(found)
        for _ in range(2):
            pages = [page async for page in found.jobs["custom_job"].changes()]
            assert [(len(page.jobs), page.whole) for page in pages] == [(1, True)]


async def test_a_filtered_listing_leaves_the_poll_as_it_is() -> None:
    fake = Fake()
    for number in range(3):
        sized(fake, number)
    async with connected(fake) as found:
        await listed(found)
        (job,) = (await listed(found, 'display_name="job-2"')).values()
        assert job.id == "2" and len(job.groups) == 2
        assert set((await poll(found))[0]) == {"0", "1", "2"}


async def test_a_service_that_refuses_large_pages_gets_small_ones_from_then_on() -> None:
    fake = Fake()
    for number in range(150):
        sized(fake, number)
    sizes = []

    async def refuse(request: Any) -> None:
        sizes.append(request.page_size)
        if request.page_size > 100:
            raise Abort(StatusCode.INVALID_ARGUMENT, "page_size is too large")

    fake.before["ListCustomJobs"] = refuse
    async with connected(fake) as found:
        assert len(await listed(found)) == 150
        assert len(await listed(found)) == 150
    assert sizes == [1000, 100, 100, 100, 100]


async def test_a_filter_that_is_refused_is_not_blamed_on_the_page() -> None:
    fake = Fake()
    sized(fake, 0)
    refusal = Abort(StatusCode.INVALID_ARGUMENT, "no such field")
    fake.fail("ListCustomJobs", refusal, refusal)
    async with connected(fake) as found:
        with pytest.raises(InvalidRequest):
            await listed(found, "nonsense=1")
        asked = watched(fake)
        await listed(found)
        assert asked[0].page_size == 1000


def test_unknown_states_and_pools_are_shown_as_they_are() -> None:
    from tui.backends.vertex.jobs import convert

    message = CustomJob.pb()(name="projects/p/locations/x/customJobs/9", state=State.JOB_STATE_EXPIRED)
    job = convert.listed_job(message, "c")
    assert job.state is JobState.EXPIRED and job.groups == () and job.region == "x" and job.id == "9"
