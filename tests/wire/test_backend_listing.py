"""Listings: what is asked for once, what every time, and what a service that refuses large pages gets."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from google.cloud.aiplatform_v1.types.custom_job import CustomJob
from grpc import StatusCode

from tests.wire.fake_vertex import Abort, Fake, State, connected
from tui.backends.interface import InvalidRequest
from tui.backends.vertex.backend import VertexBackend
from tui.domain.job import Job, known_replicas
from tui.domain.states import JobState


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


async def test_the_specification_is_asked_for_once() -> None:
    fake = Fake()
    for number in range(3):
        sized(fake, number)
    asked = watched(fake)
    async with connected(fake) as found:
        first = await listed(found)
        fake.end("projects/p/locations/us-central1/customJobs/1")
        second = await listed(found)
        third = await listed(found)
        whole = await found.jobs["custom_job"].get(first["1"].name)
    assert [("job_spec" in request.read_mask.paths) for request in asked] == [True, False, False]
    assert first["1"].state is JobState.RUNNING and second["1"].state is JobState.SUCCEEDED
    assert [pool.replicas for pool in second["1"].groups] == [1, 2] and second["1"].labels == {"team": "nlp"}
    # What did not change is the very object, so that comparing ten thousand of them costs nothing.
    assert second["0"] is first["0"] and all(third[i] is second[i] for i in third)
    assert known_replicas(second["1"]) == whole.replicas and not second["1"].replicas
    assert second["1"] == replace(whole, replicas=())


async def test_a_job_that_is_new_is_read_whole_and_one_that_is_gone_is_forgotten() -> None:
    fake = Fake()
    for number in range(3):
        sized(fake, number)
    async with connected(fake) as found:
        await listed(found)
        sized(fake, 7, "a2-highgpu-8g")
        del fake.jobs["projects/p/locations/us-central1/customJobs/0"]
        after = await listed(found)
        assert set(after) == {"1", "2", "7"} and after["7"].groups[1].machine_type == "a2-highgpu-8g"
        assert fake.calls["GetCustomJob"] == 1
        # Its number given out again is another job.
        sized(fake, 0, "g2-standard-4")
        assert (await listed(found))["0"].groups[0].machine_type == "g2-standard-4"


async def test_many_new_jobs_are_listed_rather_than_read_one_by_one() -> None:
    fake = Fake()
    sized(fake, 0)
    async with connected(fake) as found:
        await listed(found)
        for number in range(1, 60):
            sized(fake, number)
        after = await listed(found)
        assert len(after) == 60 and all(len(job.groups) == 2 for job in after.values())
        assert not fake.calls["GetCustomJob"]
        assert len(await listed(found)) == 60


async def test_a_filtered_listing_is_always_whole() -> None:
    fake = Fake()
    for number in range(3):
        sized(fake, number)
    async with connected(fake) as found:
        await listed(found)
        (job,) = (await listed(found, 'display_name="job-2"')).values()
        assert job.id == "2" and len(job.groups) == 2
        assert len(await listed(found)) == 3


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
    assert convert.relisted_job(message, job) is job
