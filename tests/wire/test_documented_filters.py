"""The documented filters, answered by gRPC and by REST through the official clients and bare HTTP."""

from __future__ import annotations

import time

import httpx
import pytest
from google.api_core import exceptions
from google.cloud.logging_v2.types import LogEntry
from google.protobuf import json_format

from tests.wire.documented_filters import ENTRIES, LOG_FILTERS, METRIC_FILTERS, REFUSED
from tests.wire.observe import PROJECT, Jobs, Place, place
from tui.domain.core.metric import CPU
from tui.emulator.interfaces import JobRecord
from tui.emulator.logging import service as logging_service
from tui.emulator.monitoring import service as monitoring_service
from tui.emulator.rpc.rest_server import RestServer, serve_rest
from tui.emulator.runner.database import create

JOBS = [JobRecord("p", "us-central1", "1"), JobRecord("p", "europe-west4", "2")]
NOW = int(time.time()) // 60 * 60


async def rest(here: Place) -> RestServer:
    methods = [
        *logging_service.methods(here.store),
        *monitoring_service.methods(here.state, here.jobs),
    ]
    return await serve_rest(methods, here.state, "127.0.0.1", 0, auth=False)


async def test_log_filters_select_what_is_documented() -> None:
    async with place() as here:
        found = [LogEntry.from_json(json_format.json.dumps(entry)) for entry in ENTRIES]
        await here.logs.write_log_entries(request={"entries": found}, timeout=60)
        server = await rest(here)
        async with httpx.AsyncClient(base_url=server.url, timeout=60, trust_env=False) as http:
            wrong = {}
            for text, names in LOG_FILTERS:
                wanted = sorted(names.split())
                grpc = sorted(entry.insert_id for entry in await here.entries(text))
                body = {"resourceNames": [PROJECT], "filter": text, "pageSize": 1000}
                reply = (await http.post("/v2/entries:list", json=body)).json()
                bare = sorted(entry["insertId"] for entry in reply.get("entries", []))
                if not grpc == bare == wanted:
                    wrong[text] = (grpc, bare, wanted)
            assert wrong == {}
            for text, says in REFUSED:
                with pytest.raises(exceptions.InvalidArgument) as refused:
                    await here.entries(text)
                assert says in str(refused.value), text
                body = {"resourceNames": [PROJECT], "filter": text}
                reply = await http.post("/v2/entries:list", json=body)
                assert reply.status_code == 400 and says in reply.json()["error"]["message"], text
        await server.close()


async def test_metric_filters_select_what_is_documented() -> None:
    async with place(Jobs(JOBS)) as here:
        for job in JOBS:
            attempt = here.state.attempt(job.id, 1)
            attempt.root.mkdir(parents=True)
            db = create(attempt.database)
            rows = [((NOW - 60) * 10**9, f"workerpool0-{index}", CPU, "", 0.5) for index in range(2)]
            db.executemany("INSERT INTO samples VALUES (?, ?, ?, ?, ?)", rows)
            db.close()
        server = await rest(here)
        interval = {"start_time": {"seconds": NOW - 600}, "end_time": {"seconds": NOW}}
        ends = {"interval.startTime": time.strftime("%FT%TZ", time.gmtime(NOW - 600))}
        ends["interval.endTime"] = time.strftime("%FT%TZ", time.gmtime(NOW))
        async with httpx.AsyncClient(base_url=server.url, timeout=60, trust_env=False) as http:
            wrong = {}
            for text, names in METRIC_FILTERS:
                wanted = sorted(names.split())
                pager = await here.metrics.list_time_series(
                    request={"name": PROJECT, "filter": text, "interval": interval}, timeout=60
                )
                labels = [(s.resource.labels["job_id"], s.metric.labels["replica_id"]) async for s in pager]
                reply = (await http.get(f"/v3/{PROJECT}/timeSeries", params={"filter": text, **ends})).json()
                bare = [
                    (series["resource"]["labels"]["job_id"], series["metric"]["labels"]["replica_id"])
                    for series in reply.get("timeSeries", [])
                ]
                both = [sorted(f"{job}/{replica[-1]}" for job, replica in found) for found in (labels, bare)]
                if both != [wanted, wanted]:
                    wrong[text] = (both, wanted, reply.get("error"))
            assert not wrong
        await server.close()


def test_there_are_as_many_as_promised() -> None:
    assert len({text for text, _ in (*LOG_FILTERS, *METRIC_FILTERS)}) >= 80
