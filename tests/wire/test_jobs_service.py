"""JobService, Operations, Locations and Admin as the unmodified clients see them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import grpc
import pytest
from google.api_core import exceptions
from google.cloud.location import locations_pb2
from google.longrunning import operations_pb2
from google.rpc import error_details_pb2

from tests.wire.control import NEVER, PARENT, Clients, connect, emulator, pool, python
from tui.emulator.interfaces import project_number
from tui.emulator.server import Emulator


@pytest.fixture
async def place() -> AsyncIterator[tuple[Emulator, Clients]]:
    async with emulator(**NEVER) as (running, clients):
        yield running, clients


@pytest.fixture
def clients(place: tuple[Emulator, Clients]) -> Clients:
    return place[1]


async def test_create_fills_in_what_the_service_owns(clients: Clients) -> None:
    job = await clients.create(
        python("pass"), name="mine", labels={"team": "nlp"}, parent="projects/any.org:x/locations/mars-west9"
    )
    head, number = job.name.rsplit("/", 1)
    assert head == f"projects/{project_number('any.org:x')}/locations/mars-west9/customJobs"
    assert await clients.get(job.name.replace(project_number("any.org:x"), "any.org:x")) == job
    assert number.isdecimal() and len(number) == 19
    assert job.state.name == "JOB_STATE_QUEUED" and job.labels == {"team": "nlp"}
    assert job.create_time == job.update_time and not job.start_time and not job.end_time
    assert await clients.get(job.name) == job


async def test_output_fields_of_the_request_are_ignored(clients: Clients) -> None:
    job = await clients.create(python("pass"), state="JOB_STATE_SUCCEEDED", error={"code": 3})
    assert job.state.name == "JOB_STATE_QUEUED" and not job.error.code


async def test_a_bad_job_names_every_field(clients: Clients) -> None:
    bad = pool("true")
    bad["machine_spec"]["machine_type"] = "n1-standart-4"
    with pytest.raises(exceptions.InvalidArgument) as caught:
        await clients.create(bad, name="")
    violations = next(d for d in caught.value.details if isinstance(d, error_details_pb2.BadRequest))
    fields = {v.field: v.description for v in violations.field_violations}
    path = "job_spec.worker_pool_specs[0].machine_spec.machine_type"
    assert set(fields) == {"custom_job.display_name", path}
    entries = [f"\t{n}.Field: {f}; Message: {text}" for n, (f, text) in enumerate(fields.items(), 1)]
    assert caught.value.message == f"List of found errors:{''.join(entries)}\t"
    assert "n1-standard-4" in fields[path]
    assert await clients.listed() == []


async def test_what_is_not_served_is_said_with_what_is(place: tuple[Emulator, Clients]) -> None:
    from google.cloud.aiplatform_v1 import FeaturestoreServiceAsyncClient
    from google.cloud.aiplatform_v1.services.featurestore_service import transports

    async with grpc.aio.insecure_channel(place[0].target) as channel:
        client = FeaturestoreServiceAsyncClient(
            transport=transports.FeaturestoreServiceGrpcAsyncIOTransport(channel=channel)
        )
        with pytest.raises(
            exceptions.MethodNotImplemented, match=r"FeaturestoreService/GetFeat.*serves.* JobService"
        ):
            await client.get_featurestore(name=f"{PARENT}/featurestores/default")
        stream = channel.unary_stream("/google.cloud.aiplatform.v1.PredictionService/StreamRawPredict")
        with pytest.raises(grpc.aio.AioRpcError, match="PredictionService"):
            _ = [answer async for answer in stream(b"")]


async def test_a_refusal_of_many_or_long_problems_fits_a_status(
    place: tuple[Emulator, Clients],
) -> None:
    _, clients = place
    labels = {f"Key{n}é": "V" * 40 for n in range(300)}
    for bad in (labels, {"K" * 100_000: "v"}):
        with pytest.raises(exceptions.InvalidArgument, match="labels") as refused:
            await clients.create(python("pass"), labels=bad)
    assert len(refused.value.message) < 3000
    with pytest.raises(exceptions.InvalidArgument, match="more"):
        await clients.create(python("pass"), labels=labels)


async def test_v1beta1_has_what_v1_has(place: tuple[Emulator, Clients]) -> None:
    from google.cloud.aiplatform_v1beta1 import JobServiceAsyncClient
    from google.cloud.aiplatform_v1beta1.services.job_service import transports

    async with grpc.aio.insecure_channel(place[0].target) as channel:
        beta = JobServiceAsyncClient(transport=transports.JobServiceGrpcAsyncIOTransport(channel=channel))
        spec = {"worker_pool_specs": [python("pass")]}
        made = await beta.create_custom_job(
            parent=PARENT, custom_job={"display_name": "beta", "job_spec": spec, "labels": {"a": "b"}}
        )
        assert (await beta.get_custom_job(name=made.name)) == made and made.labels == {"a": "b"}
        assert (await place[1].get(made.name)).display_name == "beta"


@pytest.mark.parametrize("verb", ["get", "cancel", "delete"])
async def test_unknown_and_malformed_names(clients: Clients, verb: str) -> None:
    call = getattr(clients.jobs, f"{verb}_custom_job")
    with pytest.raises(exceptions.NotFound) as caught:
        await call(name=f"{PARENT}/customJobs/42")
    info = next(d for d in caught.value.details if isinstance(d, error_details_pb2.ResourceInfo))
    assert info.resource_name == f"{PARENT}/customJobs/42"
    with pytest.raises(exceptions.InvalidArgument, match="customJobs"):
        await call(name="42")


async def test_an_id_of_another_place_is_not_found(clients: Clients) -> None:
    job = await clients.create(python("pass"))
    with pytest.raises(exceptions.NotFound):
        await clients.get(job.name.replace("us-central1", "us-east1"))


async def test_a_job_on_no_persistent_resource_is_refused(clients: Clients) -> None:
    with pytest.raises(exceptions.NotFound, match="us-central1/persistentResources/pool-1 is not found"):
        await clients.create(python("pass"), spec={"persistent_resource_id": "pool-1"})


async def test_list_filters_newest_first_and_stays_in_its_place(clients: Clients) -> None:
    for i in range(4):
        await clients.create(python("pass"), name=f"run_{i}", labels={"parity": str(i % 2)})
    await clients.create(python("pass"), name="abroad", parent="projects/p/locations/us-east1")
    await clients.create(python("pass"), name="other", parent="projects/q/locations/us-central1")
    assert await clients.listed() == ["run_3", "run_2", "run_1", "run_0"]
    assert await clients.listed('labels.parity="1" AND NOT display_name="run_3"') == ["run_1"]
    assert await clients.listed('displayName:"run_*" (state=JOB_STATE_RUNNING OR -labels.parity=1)') == [
        "run_2", "run_0",
    ]  # fmt: skip
    assert await clients.listed(parent="projects/p/locations/-") == [
        "abroad", "run_3", "run_2", "run_1", "run_0",
    ]  # fmt: skip
    with pytest.raises(exceptions.InvalidArgument, match="character 8"):
        await clients.listed("state= ")


async def test_pages_hold_still_while_jobs_come(clients: Clients) -> None:
    for i in range(7):
        await clients.create(python("pass"), name=f"old-{i}")
    seen: list[str] = []
    token = ""
    for round_ in range(10):
        request = {"parent": PARENT, "page_size": 3, "page_token": token, "filter": 'display_name:"*"'}
        pager = await clients.jobs.list_custom_jobs(request=request)
        page = await anext(pager.pages)
        seen += [job.display_name for job in page.custom_jobs]
        token = page.next_page_token
        await clients.create(python("pass"), name=f"new-{round_}")
        if not token:
            break
        if round_ == 0:
            with pytest.raises(exceptions.InvalidArgument, match="page_token"):
                await clients.jobs.list_custom_jobs(request={**request, "page_token": token, "filter": ""})
    assert seen == [f"old-{i}" for i in reversed(range(7))]


async def test_read_mask(clients: Clients) -> None:
    job = await clients.create(python("pass"))
    pager = await clients.jobs.list_custom_jobs(
        request={"parent": PARENT, "read_mask": {"paths": ["name", "create_time"]}}
    )
    found = [j async for j in pager]
    assert [j.name for j in found] == [job.name] and found[0].create_time == job.create_time
    assert not found[0].display_name and not found[0].job_spec.worker_pool_specs
    with pytest.raises(exceptions.InvalidArgument, match="unknown field"):
        await clients.listed(read_mask={"paths": ["nmae"]})


async def test_cancel_of_a_queued_job_is_at_once_and_once(clients: Clients) -> None:
    job = await clients.create(python("pass"))
    await clients.jobs.cancel_custom_job(name=job.name)
    ended = await clients.get(job.name)
    assert ended.state.name == "JOB_STATE_CANCELLED" and ended.error.code == 1 and ended.end_time
    assert not ended.start_time
    with pytest.raises(exceptions.FailedPrecondition, match=r"is in state .* and cannot be canceled"):
        await clients.jobs.cancel_custom_job(name=job.name)


async def test_delete_is_an_operation_and_takes_the_files(place: tuple[Emulator, Clients]) -> None:
    running, clients = place
    job = await clients.create(python("pass"))
    with pytest.raises(exceptions.FailedPrecondition, match="cancel the"):
        await clients.jobs.delete_custom_job(name=job.name)
    await clients.jobs.cancel_custom_job(name=job.name)
    directory = running.state.job(job.name.rsplit("/", 1)[1])
    (directory / "attempt-1").mkdir(parents=True)
    (directory / "attempt-1" / "workerpool0-0.stdout").write_text("x")
    deletion = await clients.jobs.delete_custom_job(name=job.name)
    await deletion.result(timeout=60)
    assert deletion.metadata.generic_metadata.create_time and not directory.exists()
    with pytest.raises(exceptions.NotFound):
        await clients.get(job.name)
    assert await clients.listed() == []

    name = deletion.operation.name
    found = await clients.jobs.get_operation(operations_pb2.GetOperationRequest(name=name))
    assert found.done and found.HasField("response")
    waited = await clients.jobs.wait_operation(operations_pb2.WaitOperationRequest(name=name))
    # This client gives the raw bytes of a WaitOperation reply.
    assert operations_pb2.Operation.FromString(waited) == found
    every = await clients.jobs.list_operations(operations_pb2.ListOperationsRequest(name=PARENT))
    assert [o.name for o in every.operations] == [name]
    await clients.jobs.delete_operation(operations_pb2.DeleteOperationRequest(name=name))
    with pytest.raises(exceptions.NotFound):
        await clients.jobs.cancel_operation(operations_pb2.CancelOperationRequest(name=name))


async def test_ids_are_never_used_again(clients: Clients) -> None:
    seen: list[int] = []
    for _ in range(3):
        job = await clients.create(python("pass"))
        seen.append(int(job.name.rsplit("/", 1)[1]))
        await clients.jobs.cancel_custom_job(name=job.name)
        await (await clients.jobs.delete_custom_job(name=job.name)).result(timeout=60)
    assert seen == sorted(set(seen))


async def test_locations(clients: Clients) -> None:
    found = await clients.jobs.list_locations(locations_pb2.ListLocationsRequest(name="projects/p"))
    assert "us-central1" in [x.location_id for x in found.locations]
    one = await clients.jobs.get_location(locations_pb2.GetLocationRequest(name=PARENT))
    assert one.name == PARENT
    with pytest.raises(exceptions.NotFound):
        await clients.jobs.get_location(locations_pb2.GetLocationRequest(name="projects/p/locations/nowhere"))


async def test_admin_status_and_refusals(place: tuple[Emulator, Clients]) -> None:
    running, clients = place
    job = await clients.create(python("pass"), name="twice")
    await clients.create(python("pass"), name="twice")
    status = await clients.admin(do="status")
    assert status["jobs"] == {"QUEUED": 2} and status["socket"] == str(running.state.socket)
    assert status["pid"] > 0 and status["state_dir"] == str(running.state.root) and status["rest"] is None
    for asked, words in (
        ({"do": "dance"}, "must be one of status, rest, program, preempt"),
        ({"do": "preempt"}, "job"),
        ({"do": "preempt", "job": "nobody"}, "does not exist"),
        ({"do": "preempt", "job": "twice"}, "several jobs"),
        ({"do": "preempt", "job": job.name}, "no running replicas"),
    ):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await clients.admin(**asked)
        assert words in str(caught.value.details())
    assert not running.stopping.is_set()
    await clients.admin(do="stop")
    assert running.stopping.is_set()


async def test_many_creates_at_once_are_all_kept(place: tuple[Emulator, Clients]) -> None:
    running, _ = place
    async with connect(running.target) as one, connect(running.target) as two:
        jobs = await asyncio.gather(
            *(c.create(python("pass"), name=f"j{i}") for i in range(20) for c in (one, two))
        )
        assert len({job.name for job in jobs}) == 40
        assert len(await one.listed(page_size=7)) == 40
