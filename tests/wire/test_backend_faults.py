"""Jobs over a service that fails: lost replies, refusals, regions that are away."""

from __future__ import annotations

import asyncio
import socket
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import pytest
from google.longrunning import operations_pb2
from google.protobuf import duration_pb2
from google.rpc import error_details_pb2
from grpc import StatusCode

from tests.waiting import LIMIT, until
from tests.wire.fake_vertex import Abort, Fake, FixedEndpoint, State, backend, connected, serving
from tui.backends.interface import (
    BackendError,
    FailedPrecondition,
    InvalidRequest,
    LaunchRequest,
    NotFound,
    QuotaExceeded,
    Unauthenticated,
    Unavailable,
)
from tui.backends.vertex.jobs import service as jobs_module
from tui.backends.vertex.transport.connect import LOCAL_PACE
from tui.domain.core.states import JobState

NAME = "projects/p/locations/us-central1/customJobs/1"
LAUNCH = LaunchRequest("us-central1", {"displayName": "x", "jobSpec": {"workerPoolSpecs": [{}]}})
LOST = Abort(StatusCode.UNAVAILABLE, "connection reset")


@pytest.mark.parametrize(
    "code",
    [StatusCode.UNAVAILABLE, StatusCode.DEADLINE_EXCEEDED, StatusCode.CANCELLED, StatusCode.INTERNAL],
)
async def test_a_create_whose_reply_is_lost_makes_exactly_one_job(code: StatusCode) -> None:
    fake = Fake()
    fake.fail("CreateCustomJob", Abort(code), after=True)
    async with connected(fake) as found:
        job = await found.jobs["custom_job"].create(LAUNCH)
    assert job.name == NAME
    assert len(job.labels["vxtui-launch"]) >= 16
    assert fake.calls["CreateCustomJob"] == len(fake.jobs) == 1


async def test_a_create_that_never_answers_is_looked_up_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tui.backends.vertex.transport.deadlines.CREATE", 0.5)
    fake = Fake()

    async def hang(_request: object) -> None:
        await asyncio.sleep(30)

    fake.after["CreateCustomJob"] = hang
    async with connected(fake) as found:
        assert (await found.jobs["custom_job"].create(LAUNCH)).name == NAME
    assert fake.calls["CreateCustomJob"] == 1


async def test_a_create_that_was_lost_on_its_way_is_not_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs_module, "LOOK_AGAIN", (0.1, 0.1))
    fake = Fake()
    fake.fail("CreateCustomJob", LOST)
    async with connected(fake) as found:
        with pytest.raises(Unavailable, match="most likely nothing was created"):
            await found.jobs["custom_job"].create(LAUNCH)
    assert fake.calls["CreateCustomJob"] == 1
    assert fake.calls["ListCustomJobs"] == 3


async def test_a_create_of_which_nothing_can_be_known_says_how_to_find_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(jobs_module, "LOOK_AGAIN", ())
    fake = Fake()
    fake.fail("CreateCustomJob", LOST, after=True)
    fake.fail("ListCustomJobs", *[Abort(StatusCode.PERMISSION_DENIED)] * 5)
    async with connected(fake) as found:
        with pytest.raises(Unavailable, match="unknown whether the job exists") as lost:
            await found.jobs["custom_job"].create(LAUNCH)
    mark = next(iter(fake.jobs.values())).labels["vxtui-launch"]
    assert mark in lost.value.fix


async def test_a_job_that_shows_up_late_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs_module, "LOOK_AGAIN", (0.1, 0.1, 0.1))
    fake = Fake()
    fake.fail("CreateCustomJob", LOST, after=True)
    hidden: list[dict[str, object]] = []

    async def hide(_request: object) -> None:
        if not hidden:
            hidden.append(dict(fake.jobs))
            fake.jobs.clear()
        else:
            fake.jobs.update(hidden[0])

    fake.before["ListCustomJobs"] = hide
    async with connected(fake) as found:
        assert (await found.jobs["custom_job"].create(LAUNCH)).display_name == "x"
    assert fake.calls["CreateCustomJob"] == 1


async def test_a_refused_create_is_neither_repeated_nor_looked_up() -> None:
    violation = error_details_pb2.BadRequest.FieldViolation(field="job_spec", description="needs a pool")
    details = error_details_pb2.BadRequest(field_violations=[violation])
    fake = Fake()
    fake.fail("CreateCustomJob", Abort(StatusCode.INVALID_ARGUMENT, "bad", details))
    async with connected(fake) as found:
        with pytest.raises(InvalidRequest) as refused:
            await found.jobs["custom_job"].create(LAUNCH)
    assert refused.value.fields == {"job_spec": "needs a pool"}
    assert fake.calls == {"CreateCustomJob": 1}


async def test_each_launch_has_a_label_of_its_own_beside_the_users() -> None:
    fake = Fake()
    request = replace(LAUNCH, resource={**LAUNCH.resource, "labels": {"team": "nlp"}})
    async with connected(fake) as found:
        marks = {(await found.jobs["custom_job"].create(request)).labels["vxtui-launch"] for _ in range(3)}
    assert len(marks) == 3
    assert all(job.labels["team"] == "nlp" for job in fake.jobs.values())


async def test_a_used_up_rate_is_waited_out_as_long_as_the_service_says() -> None:
    retry = error_details_pb2.RetryInfo(retry_delay=duration_pb2.Duration(nanos=700_000_000))
    fake = Fake()
    fake.add_job()
    fake.fail("GetCustomJob", Abort(StatusCode.RESOURCE_EXHAUSTED, "slow down", retry))
    async with connected(fake) as found:
        began = time.monotonic()
        assert (await found.jobs["custom_job"].get(NAME)).display_name == "job-1"
        assert time.monotonic() - began >= 0.7
    assert fake.calls["GetCustomJob"] == 2


async def test_a_rate_that_stays_used_up_is_told_with_the_time_to_wait() -> None:
    retry = error_details_pb2.RetryInfo(retry_delay=duration_pb2.Duration(seconds=600))
    fake = Fake()
    fake.fail("GetCustomJob", *[Abort(StatusCode.RESOURCE_EXHAUSTED, "slow down", retry)] * 9)
    async with connected(fake) as found:
        with pytest.raises(QuotaExceeded) as refused:
            await found.jobs["custom_job"].get(NAME)
    assert refused.value.retry_after == 600


async def test_expired_credentials_are_not_tried_again_and_again() -> None:
    fake = Fake()
    fake.fail("GetCustomJob", *[Abort(StatusCode.UNAVAILABLE, "Getting metadata from plugin failed: x")] * 9)
    async with connected(fake) as found:
        with pytest.raises(Unauthenticated):
            await found.jobs["custom_job"].get(NAME)
    assert fake.calls["GetCustomJob"] == 1


async def test_a_region_that_is_away_does_not_hold_up_the_others() -> None:
    fake = Fake()
    for number in range(1050):
        fake.add_job(number)
    async with serving(fake) as target:
        endpoint = FixedEndpoint({"us-central1": target, "europe-west4": "unix:/nonexistent/socket"})
        async with backend(endpoint, "us-central1", "europe-west4") as found:
            pages = [page async for page in found.jobs["custom_job"].list_all()]
    good = [page for page in pages if page.region == "us-central1"]
    assert [len(page.jobs) for page in good] == [1000, 50]
    assert all(page.error is None and page.read_at is not None for page in good)
    (bad,) = [page for page in pages if page.region == "europe-west4"]
    assert isinstance(bad.error, Unavailable)
    assert bad.jobs == ()


async def test_many_regions_are_read_at_once_but_not_all() -> None:
    fake, active, most = Fake(), 0, 0
    full = asyncio.Event()

    async def slow(_request: object) -> None:
        nonlocal active, most
        active += 1
        most = max(most, active)
        if most == jobs_module.AT_ONCE:
            full.set()
        # None answers before as many as may be have come; one more would come in the time after.
        await full.wait()
        await asyncio.sleep(0.1)
        active -= 1

    fake.before["ListCustomJobs"] = slow
    regions = [f"r{number}" for number in range(30)]
    async with serving(fake) as target, backend(FixedEndpoint({"": target}), *regions) as found:
        pages = [page async for page in found.jobs["custom_job"].list_all()]
    assert {page.region for page in pages} == set(regions)
    assert most == jobs_module.AT_ONCE


async def test_a_list_that_is_not_read_to_its_end_stops_its_calls() -> None:
    fake = Fake()
    for number in range(3000):
        fake.add_job(number)
    async with connected(fake) as found:
        pages = found.jobs["custom_job"].list_all()
        assert len((await anext(pages)).jobs) == 1000
        await pages.aclose()  # type: ignore[attr-defined]
        calls = fake.calls["ListCustomJobs"]
        await asyncio.sleep(0.2)
        assert fake.calls["ListCustomJobs"] <= calls + 1


async def test_one_listing_for_all_regions_is_told_region_by_region() -> None:
    fake = Fake()
    fake.add_job(1)
    fake.add_job(2, "europe-west4")
    async with serving(fake) as target:
        fixed = FixedEndpoint({"us-central1": target}, everywhere=True)

        async def here(request: object) -> None:
            request.parent = "projects/p/locations/"  # type: ignore[attr-defined]

        fake.before["ListCustomJobs"] = here
        async with backend(fixed) as found:
            pages = [page async for page in found.jobs["custom_job"].list_all()]
            assert {job.id: page.region for page in pages for job in page.jobs} == {
                "1": "us-central1", "2": "europe-west4",
            }  # fmt: skip
            # A region whose last job is gone is told as read, so that nothing stays on the screen.
            del fake.jobs["projects/p/locations/europe-west4/customJobs/2"]
            pages = [page async for page in found.jobs["custom_job"].list_all()]
    # The page "-" ends a list of everything.
    assert {page.region for page in pages} == {"us-central1", "europe-west4", "-"}
    assert [page.parent for page in fake.requests] == ["projects/p/locations/"] * 2


async def test_jobs_are_found_by_name_id_and_display_name_over_all_regions() -> None:
    here, there = Fake(), Fake()
    here.add_job(7).display_name = "8"
    there.add_job(8, "europe-west4")
    async with serving(here) as one, serving(there) as two:
        endpoint = FixedEndpoint({"us-central1": one, "europe-west4": two})
        async with backend(endpoint, "us-central1", "europe-west4") as found:
            name = "projects/p/locations/europe-west4/customJobs/8"
            assert [job.name for job in await found.jobs["custom_job"].find(name)] == [name]
            assert [job.id for job in await found.jobs["custom_job"].find("8")] == ["8"]
            assert [job.id for job in await found.jobs["custom_job"].find("job-8")] == ["8"]
            del there.jobs[name]
            # Nothing has that id now, so the number is taken for a display name.
            assert [job.id for job in await found.jobs["custom_job"].find("8")] == ["7"]
            assert await found.jobs["custom_job"].find(name) == []
            assert await found.jobs["custom_job"].find('no "such" job') == []


async def test_a_name_that_is_none_is_refused_before_it_is_sent() -> None:
    fake = Fake()
    async with connected(fake) as found:
        for call in (
            found.jobs["custom_job"].get,
            found.jobs["custom_job"].cancel,
            found.jobs["custom_job"].delete,
            found.jobs["custom_job"].spec,
        ):
            with pytest.raises(InvalidRequest, match="full name"):
                await call("42")
    assert not fake.calls


async def test_a_cancel_is_repeated_after_a_lost_reply() -> None:
    fake = Fake()
    job = fake.add_job()
    fake.fail("CancelCustomJob", LOST, after=True)
    async with connected(fake) as found:
        await found.jobs["custom_job"].cancel(NAME)
        assert job.state == State.JOB_STATE_CANCELLING
        assert fake.calls["CancelCustomJob"] == 2
        fake.end(NAME)
        with pytest.raises(FailedPrecondition):
            await found.jobs["custom_job"].cancel(NAME)
        assert (await found.jobs["custom_job"].get(NAME)).state is JobState.SUCCEEDED


async def test_a_delete_waits_for_its_operation_and_survives_a_lost_reply() -> None:
    fake = Fake()
    fake.add_job()
    fake.operations = [operations_pb2.Operation(name="projects/p/operations/1")] * 2
    async with connected(fake) as found:
        await found.jobs["custom_job"].delete(NAME)
        assert fake.calls["GetOperation"] == 3
        with pytest.raises(NotFound):
            await found.jobs["custom_job"].delete(NAME)
        fake.add_job()
        fake.fail("DeleteCustomJob", LOST, after=True)
        await found.jobs["custom_job"].delete(NAME)
    assert not fake.jobs


async def test_a_delete_whose_operation_fails_says_why() -> None:
    fake = Fake()
    fake.add_job()
    bad = operations_pb2.Operation(name="o", done=True)
    bad.error.code, bad.error.message = StatusCode.FAILED_PRECONDITION.value[0], "still running"
    fake.operations = [bad]
    async with connected(fake) as found:
        with pytest.raises(FailedPrecondition, match="still running"):
            await found.jobs["custom_job"].delete(NAME)


async def test_a_half_open_server_costs_one_time_limit_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tui.backends.vertex.transport.deadlines.CHECK", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as mute:
        endpoint = FixedEndpoint({"us-central1": f"127.0.0.1:{mute.getsockname()[1]}"})
        async with backend(endpoint) as found:
            began = time.monotonic()
            lines = await found.check_health()
            # About 1 s; the rest of the bound is for a busy machine.
            assert time.monotonic() - began < 10
    assert [line.ok for line in lines] == [True, False, False, False, False]
    assert all(line.detail for line in lines)


async def test_closing_ends_calls_under_way_with_a_word_and_not_with_a_cancel() -> None:
    fake = Fake()

    async def hang(_request: object) -> None:
        await asyncio.sleep(60)

    fake.before["GetCustomJob"] = hang
    async with connected(fake) as found:
        call = asyncio.create_task(found.jobs["custom_job"].get(NAME))
        await until(lambda: fake.calls["GetCustomJob"], "the call")
        await found.aclose()
        with pytest.raises(Unavailable, match="closed"):
            await asyncio.wait_for(call, LIMIT)
        with pytest.raises(Unavailable, match="Not connected"):
            await found.jobs["custom_job"].get(NAME)
        await found.aclose()


async def test_connecting_again_keeps_what_is_there_and_opens_what_was_closed() -> None:
    fake = Fake()
    fake.add_job()
    async with serving(fake) as target:
        endpoint = FixedEndpoint({"us-central1": target})
        found = backend(endpoint)
        await asyncio.gather(found.connect(), found.connect())
        assert endpoint.opened == 2
        assert (await found.jobs["custom_job"].get(NAME)).id == "1"
        await found.aclose()
        await found.connect()
        assert (await found.jobs["custom_job"].get(NAME)).id == "1"
        await found.aclose()


async def test_a_connect_that_fails_says_why_and_can_be_repeated() -> None:
    class Refusing(FixedEndpoint):
        async def open(self) -> None:
            raise Unauthenticated("no credentials", fix="log in")

    found = backend(Refusing({"us-central1": "unix:/nonexistent"}))
    for _ in range(2):
        with pytest.raises(Unauthenticated):
            await found.connect()
    lines = await found.check_health()
    assert [(line.ok, line.detail, line.fix) for line in lines] == [(False, "no credentials", "log in")]


async def test_a_service_that_is_restarted_is_found_again() -> None:
    fake = Fake()
    fake.add_job()
    with tempfile.TemporaryDirectory(prefix="vx") as folder:
        address = Path(folder) / "s"
        async with serving(fake, address) as target:
            found = backend(FixedEndpoint({"us-central1": target}, replace(LOCAL_PACE, patience=20.0)))
            await found.connect()
            assert (await found.jobs["custom_job"].get(NAME)).id == "1"
        waiting = asyncio.create_task(found.jobs["custom_job"].get(NAME))
        await asyncio.sleep(0.3)
        assert not waiting.done()
        async with serving(fake, address):
            assert (await asyncio.wait_for(waiting, LIMIT)).id == "1"
        await found.aclose()


async def test_what_is_wrong_inside_the_service_is_told_and_not_repeated() -> None:
    fake = Fake()
    fake.fail("GetCustomJob", *[Abort(StatusCode.INTERNAL, "a defect")] * 5)
    async with connected(fake) as found:
        with pytest.raises(BackendError, match="a defect"):
            await found.jobs["custom_job"].get(NAME)
    assert fake.calls["GetCustomJob"] == 1
