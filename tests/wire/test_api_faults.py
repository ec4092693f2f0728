"""Faults of the API on request, seen by Google's clients: by method, over gRPC, REST and HTTP."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator
from typing import Any

import grpc
import httpx
import pytest
from google.api_core import exceptions
from google.cloud.logging_v2.services.logging_service_v2 import LoggingServiceV2AsyncClient
from google.cloud.logging_v2.services.logging_service_v2.transports import (
    LoggingServiceV2GrpcAsyncIOTransport,
)
from google.cloud.logging_v2.types import TailLogEntriesRequest
from google.cloud.monitoring_v3.services.metric_service import MetricServiceAsyncClient
from google.cloud.monitoring_v3.services.metric_service.transports import MetricServiceGrpcAsyncIOTransport

from tests.waiting import until
from tests.wire.control import PARENT, QUICK, Clients, connect, emulator, python, state_dir
from tui.emulator.client import admin_call
from tui.emulator.config import EmulatorConfig
from tui.emulator.rpc.rest_server import read_token
from tui.emulator.server import Emulator

SHORT = 0.3
"""Deadline of a call that gets no reply, in seconds."""


@pytest.fixture
async def place() -> AsyncIterator[tuple[Emulator, Clients]]:
    async with emulator() as found:
        yield found


async def numbers(clients: Clients) -> list[int]:
    return [int(one["number"]) for one in (await clients.admin(do="faults"))["api"]]


def test_a_fault_names_what_is_wrong_with_it() -> None:
    async def asked(**fault: Any) -> str:
        async with emulator() as (_, clients):
            found = []
            for wrong in (
                {"method": "GetJob", "kind": "lost"}, {"method": "*", "kind": "slow"}, {"method": "*"},
                {"method": "*", "kind": "error", "code": "TEAPOT"}, {"method": "*", "delay": -1},
            ):  # fmt: skip
                with pytest.raises(grpc.aio.AioRpcError) as refused:
                    await clients.admin(do="api", **wrong)
                assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
                found.append(str(refused.value.details()))
            assert await numbers(clients) == []
            return "\n".join(found)

    said = asyncio.run(asked())
    for word in ("JobService.GetCustomJob", "malformed", "must have a kind", "UNAVAILABLE", "delay must be"):
        assert word in said


async def test_errors_by_method_count_and_code(place: tuple[Emulator, Clients]) -> None:
    _, clients = place
    job = await clients.create(python("pass"))
    await clients.admin(
        do="api", method="jobservice.get*", kind="error", code="RESOURCE_EXHAUSTED", message="m", times=2
    )
    for _ in range(2):
        with pytest.raises(exceptions.ResourceExhausted, match="m"):
            await clients.get(job.name)
        assert await clients.listed() == ["x"]
    assert (await clients.get(job.name)).name == job.name
    assert await numbers(clients) == []


async def test_lost_and_malformed_replies_of_a_create_that_took_effect(
    place: tuple[Emulator, Clients],
) -> None:
    _, clients = place
    for fault, error in (
        ({"kind": "lost"}, exceptions.ServiceUnavailable),
        ({"kind": "error", "code": "RESOURCE_EXHAUSTED", "applied": True}, exceptions.ResourceExhausted),
    ):
        await clients.admin(do="api", method="CreateCustomJob", times=1, **fault)
        with pytest.raises(error):
            await clients.create(python("pass"))
    await clients.admin(do="api", method="CreateCustomJob", times=1, kind="malformed")
    # What grpc.aio makes of bytes that it can't decode.
    assert await clients.create(python("pass")) is None
    assert await clients.listed() == ["x"] * 3
    await clients.admin(do="api", method="CreateCustomJob", kind="error", code="UNAVAILABLE", times=1)
    with pytest.raises(exceptions.ServiceUnavailable):
        await clients.create(python("pass"))
    assert await clients.listed() == ["x"] * 3


async def test_a_silent_call_goes_on_when_the_fault_is_cleared(place: tuple[Emulator, Clients]) -> None:
    _, clients = place
    metrics = MetricServiceAsyncClient(transport=MetricServiceGrpcAsyncIOTransport(channel=clients.channel))
    request = {"name": "projects/p"}
    await clients.admin(do="api", method="MetricService.*", kind="silent")
    with pytest.raises(exceptions.DeadlineExceeded):
        await metrics.list_metric_descriptors(request=request, timeout=SHORT, retry=None)
    held = asyncio.create_task(metrics.list_metric_descriptors(request=request, timeout=60, retry=None))
    await clients.admin(do="clear", numbers=await numbers(clients))
    assert (await held).metric_descriptors


async def test_a_stream_that_is_silent_malformed_or_cut(place: tuple[Emulator, Clients]) -> None:
    running, clients = place
    logs = LoggingServiceV2AsyncClient(
        transport=LoggingServiceV2GrpcAsyncIOTransport(channel=clients.channel)
    )
    resource = f"projects/{PARENT.split('/')[1]}"

    async def write(text: str) -> None:
        entry = {"log_name": f"{resource}/logs/l", "text_payload": text, "resource": {"type": "global"}}
        await logs.write_log_entries(request={"entries": [entry]})

    async def requests() -> AsyncIterator[TailLogEntriesRequest]:
        yield TailLogEntriesRequest(resource_names=[resource], buffer_window="0s")
        await asyncio.Event().wait()

    texts: list[str] = []

    async def read() -> None:
        async for response in await logs.tail_log_entries(requests=requests()):
            # What grpc.aio makes of bytes that it can't decode.
            known = [] if response is None else response.entries
            texts.extend([entry.text_payload for entry in known] or ["undecodable"])

    reader = asyncio.create_task(read())
    await until(lambda: _said(write, texts, "open"), "the stream")
    await clients.admin(do="api", method="TailLogEntries", kind="silent")
    await write("kept back")
    with pytest.raises(exceptions.DeadlineExceeded):
        async for _ in await logs.tail_log_entries(requests=requests(), timeout=SHORT):
            raise AssertionError("a silent stream has a message")
    assert "kept back" not in texts
    await clients.admin(do="clear")
    await until(lambda: "kept back" in texts, "the message")
    await clients.admin(do="api", method="TailLogEntries", kind="malformed", times=1)
    await write("garbled")
    await until(lambda: "undecodable" in texts, "the message")
    await until(lambda: _said(write, texts, "readable"), "the stream after it")
    reader.cancel()
    assert running.api_faults.active() == ()


async def _said(write: Any, texts: list[str], text: str) -> bool:
    await write(text)
    return text in texts


async def test_rest_and_storage_have_the_same_faults() -> None:
    with state_dir() as state:
        async with Emulator(state, EmulatorConfig.model_validate(QUICK), rest="127.0.0.1:0") as running:
            headers = {"Authorization": f"Bearer {read_token(state)}"}
            async with httpx.AsyncClient(headers=headers, timeout=30, trust_env=False) as http:
                admin = f"{running.rest_url}/vxtui/v1/admin"
                jobs = f"{running.rest_url}/v1/{PARENT}/customJobs"
                buckets = f"{running.buckets.url}/storage/v1/b"

                async def add(**fault: Any) -> None:
                    answer = await http.post(admin, json={"do": "api", "times": 1, **fault})
                    assert answer.status_code == 200, answer.text

                await add(method="ListCustomJobs", kind="error", code="UNAVAILABLE")
                assert (await http.get(jobs)).status_code == 503
                await add(method="ListCustomJobs", kind="malformed")
                with pytest.raises(ValueError, match=""):
                    (await http.get(jobs)).json()
                assert (await http.get(jobs)).json() == {}

                await add(method="storage.GET", kind="error", code="PERMISSION_DENIED")
                assert (await http.get(buckets)).status_code == 403
                await add(method="storage.post", kind="lost")
                with pytest.raises(httpx.RemoteProtocolError):
                    await http.post(buckets, params={"project": "p"}, json={"name": "made"})
                names = [one["name"] for one in (await http.get(buckets)).json()["items"]]
                assert names == ["made"]


async def test_a_full_disk_refuses_and_changes_nothing(place: tuple[Emulator, Clients]) -> None:
    running, clients = place
    await clients.admin(do="disk", full=True)
    with pytest.raises(exceptions.ResourceExhausted, match="full"):
        await clients.create(python("pass"))
    async with httpx.AsyncClient(timeout=30, trust_env=False) as http:
        reply = await http.post(f"{running.buckets.url}/storage/v1/b?project=p", json={"name": "made"})
        assert reply.status_code == 507
    await clients.admin(do="disk")
    assert await clients.listed() == []
    assert (await clients.create(python("pass"))).name


async def test_a_half_open_connection_says_nothing_until_it_is_cleared(
    place: tuple[Emulator, Clients],
) -> None:
    running, _ = place
    asked = asyncio.to_thread(admin_call, running.state, {"do": "connections", "half_open": True})
    assert (await asked)["half_open"] is True
    async with connect(running.state.target) as clients:
        with pytest.raises(exceptions.DeadlineExceeded):
            await clients.jobs.list_custom_jobs(request={"parent": PARENT}, timeout=SHORT, retry=None)
    await asyncio.to_thread(admin_call, running.state, {"do": "clear"})
    async with connect(running.state.target) as clients:
        assert await clients.listed() == []


async def test_the_clock_of_the_service_can_be_wrong(place: tuple[Emulator, Clients]) -> None:
    _, clients = place
    for number in (math.nan, math.inf):
        with pytest.raises(grpc.aio.AioRpcError, match="every number must be finite"):
            await clients.admin(do="clock", offset=number)
    right = await clients.create(python("pass"))
    await clients.admin(do="clock", offset=3600)
    ahead = await clients.create(python("pass"))
    await clients.admin(do="clock", offset=-3600)
    behind = await clients.create(python("pass"))
    await clients.admin(do="clock")
    hour = 3600 - 300
    assert ahead.create_time.timestamp() - right.create_time.timestamp() > hour
    assert right.create_time.timestamp() - behind.create_time.timestamp() > hour
    assert (await clients.admin(do="faults"))["clock"]["offset"] == 0
