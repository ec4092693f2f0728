"""REST: the same handlers for curl, for bare HTTP and for the high-level SDK."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from tests.waiting import LIMIT, until
from tests.wire.control import NEVER, QUICK, Clients, connect, state_dir
from tui.emulator.client import LauncherError, server_status, start_server, stop_server
from tui.emulator.config import EmulatorConfig
from tui.emulator.paths import StateDirError
from tui.emulator.rpc.rest_server import BODY_LIMIT, read_token, serve_rest
from tui.emulator.server import Emulator

JOBS = "/v1/projects/my-project/locations/us-central1/customJobs"
# The shape of the request body in the seeds' REST section, with its optional parts.
BODY: dict[str, Any] = {
    "displayName": "from-http",
    "jobSpec": {
        "workerPoolSpecs": [
            {
                "machineSpec": {
                    "machineType": "n1-standard-4",
                    "acceleratorType": "NVIDIA_TESLA_T4",
                    "acceleratorCount": 1,
                },
                "replicaCount": 1,
                "diskSpec": {"bootDiskType": "pd-ssd", "bootDiskSizeGb": 100},
                "containerSpec": {"imageUri": "us-docker.pkg.dev/p/r/x", "command": ["echo"], "args": ["hi"]},
            }
        ],
        "scheduling": {"timeout": "3600s"},
    },
    "labels": {"team": "nlp", "stage": "test"},
}


class Place:
    """An emulator with REST, an HTTP client that has its token, and one on the socket."""

    def __init__(self, emulator: Emulator, http: httpx.AsyncClient, clients: Clients) -> None:
        self.emulator, self.http, self.clients = emulator, http, clients
        self.url = str(emulator.rest_url)


async def started(auth: bool = True, **config: Any) -> AsyncIterator[Place]:
    with state_dir() as state:
        settings = EmulatorConfig.model_validate({**QUICK, **config})
        async with (
            Emulator(state, settings, rest="127.0.0.1:0", auth=auth) as emulator,
            connect(emulator.target) as clients,
        ):
            headers = {"Authorization": f"Bearer {read_token(state)}"} if auth else {}
            async with httpx.AsyncClient(
                base_url=str(emulator.rest_url), headers=headers, timeout=60, trust_env=False
            ) as http:
                yield Place(emulator, http, clients)


@pytest.fixture
async def place() -> AsyncIterator[Place]:
    async for found in started():
        yield found


@pytest.fixture
async def idle() -> AsyncIterator[Place]:
    """Jobs stay QUEUED."""
    async for found in started(**NEVER):
        yield found


async def test_a_job_from_creation_to_its_log_and_its_deletion(place: Place) -> None:
    made = await place.http.post(JOBS, json=BODY)
    assert made.status_code == 200 and made.headers["content-type"].startswith("application/json")
    job = made.json()
    assert job["labels"] == BODY["labels"] and job["jobSpec"]["scheduling"] == {"timeout": "3600s"}
    # 64-bit integers are strings, enums are names.
    pool = job["jobSpec"]["workerPoolSpecs"][0]
    assert pool["replicaCount"] == "1" and pool["machineSpec"]["acceleratorType"] == "NVIDIA_TESLA_T4"

    async def ended() -> bool:
        state = (await place.http.get(f"/v1/{job['name']}")).json()["state"]
        return bool(state == "JOB_STATE_SUCCEEDED")

    await until(ended, "the job to end")
    listed = (await place.http.get(JOBS, params={"filter": 'displayName="from-http"', "pageSize": 5})).json()
    assert [found["name"] for found in listed["customJobs"]] == [job["name"]]
    number = job["name"].rsplit("/", 1)[1]
    body = {
        "resourceNames": ["projects/my-project"],
        "filter": f'resource.labels.job_id="{number}" AND resource.labels.task_name="workerpool0-0"',
    }
    entries = (await place.http.post("/v2/entries:list", json=body)).json()["entries"]
    assert [entry["textPayload"] for entry in entries] == ["hi"]
    operation = (await place.http.delete(f"/v1/{job['name']}")).json()
    waited = (await place.http.post(f"/v1/{operation['name']}:wait", params={"timeout": "20s"})).json()
    assert waited["done"] is True
    gone = await place.http.get(f"/v1/{job['name']}")
    assert gone.status_code == 404 and gone.json()["error"]["status"] == "NOT_FOUND"


async def test_masks_pages_enums_and_the_beta_prefix(idle: Place) -> None:
    for _ in range(3):
        assert (await idle.http.post(JOBS.replace("v1", "v1beta1"), json=BODY)).status_code == 200
    page = (await idle.http.get(JOBS, params={"page_size": "2", "readMask": "name,display_name"})).json()
    assert len(page["customJobs"]) == 2 and set(page["customJobs"][0]) == {"name", "displayName"}
    rest = (await idle.http.get(JOBS, params={"pageToken": page["nextPageToken"]})).json()
    assert len(rest["customJobs"]) == 1 and "nextPageToken" not in rest
    numbers = (await idle.http.get(JOBS, params={"$alt": "json;enum-encoding=int"})).json()
    assert {job["state"] for job in numbers["customJobs"]} == {1}


async def test_series_and_descriptors(place: Place) -> None:
    described = await place.http.get(
        "/v3/projects/p/metricDescriptors/ml.googleapis.com/training/cpu/utilization"
    )
    assert described.json()["type"] == "ml.googleapis.com/training/cpu/utilization"
    params = {
        "filter": 'metric.type="ml.googleapis.com/training/cpu/utilization" AND resource.type="cloudml_job"',
        "interval.startTime": "2026-01-01T00:00:00Z",
        "interval.endTime": "2026-01-02T00:00:00Z",
        "aggregation.alignmentPeriod": "60s",
        "aggregation.perSeriesAligner": "ALIGN_MEAN",
        "view": "FULL",
    }
    series = await place.http.get("/v3/projects/p/timeSeries", params=params)
    assert series.status_code == 200 and series.json().get("timeSeries", []) == []


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({**BODY, "jobSpec": {**BODY["jobSpec"], "netwrok": "x"}}, "custom_job.job_spec.netwrok"),
        ({**BODY, "display": 1}, "custom_job.display"),
        ({**BODY, "labels": "x"}, "custom_job.labels"),
        ({"displayName": "x"}, "job_spec"),
    ],
    ids=["unknown field", "unknown field at the top", "wrong type", "refused by the handler"],
)
async def test_a_bad_body_is_refused_by_name(idle: Place, body: dict[str, Any], field: str) -> None:
    answer = await idle.http.post(JOBS, json=body)
    error = answer.json()["error"]
    assert answer.status_code == error["code"] == 400 and error["status"] == "INVALID_ARGUMENT"
    detail = error["details"][0]
    assert detail["@type"] == "type.googleapis.com/google.rpc.BadRequest"
    assert any(v["field"].startswith(field) for v in detail["fieldViolations"]), detail
    assert (await idle.http.get(JOBS)).json() == {}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"labels": {"a": 1}}, "'custom_job.labels' (type.googleapis.com/"
                               'google.cloud.aiplatform.v1.CustomJob.LabelsEntry), {"a": 1}'),
        ({"displayName": 3}, "'custom_job.display_name' (TYPE_STRING), 3"),
        ({"jobSpec": {"workerPoolSpecs": [{}, {"replicaCount": "x"}]}},
         "'custom_job.job_spec.worker_pool_specs[1].replica_count' (TYPE_INT64), \"x\""),
        ({"jobSpec": {"workerPoolSpecs": [{"machineSpec": {"acceleratorType": "GPU"}}]}},
         "'custom_job.job_spec.worker_pool_specs[0].machine_spec.accelerator_type' "
         '(type.googleapis.com/google.cloud.aiplatform.v1.AcceleratorType), "GPU"'),
        ({"jobSpec": {"scheduling": {"timeout": "1h"}}},
         "'custom_job.job_spec.scheduling.timeout' (type.googleapis.com/google.protobuf.Duration), \"1h\""),
    ],
)  # fmt: skip
async def test_a_value_of_a_wrong_type_is_refused_in_the_recorded_form(
    idle: Place, body: dict[str, Any], message: str
) -> None:
    error = (await idle.http.post(JOBS, json=body)).json()["error"]
    assert error["message"] == f"Invalid value at {message}"
    (violation,) = error["details"][0]["fieldViolations"]
    assert violation["description"] == error["message"] and violation["field"] == message.split("'")[1]


@pytest.mark.parametrize(
    "content", [b"{", b"[]", b"\xff\xfe", b'"x"', b"[" * 100_000, b'{"jobSpec":' * 200 + b"1" + b"}" * 200]
)
async def test_broken_json_is_refused(idle: Place, content: bytes) -> None:
    answer = await idle.http.post(JOBS, content=content)
    assert answer.status_code == 400 and "nvalid" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("params", "words"),
    [({"pageSiz": "1"}, "pageSiz"), ({"pageSize": "many"}, "page_size"), ({"filter.x": "1"}, "filter.x")],
)
async def test_a_bad_query_is_refused_by_name(idle: Place, params: dict[str, str], words: str) -> None:
    answer = await idle.http.get(JOBS, params=params)
    assert answer.status_code == 400 and words in json.dumps(answer.json())


async def test_unknown_paths_and_verbs(idle: Place) -> None:
    for path in ("/v1/nothing", "/v1beta1/projects/p/locations/l/featurestores/default"):
        missing = await idle.http.get(path)
        error = missing.json()["error"]
        assert missing.status_code == 400 and error["status"] == "UNIMPLEMENTED"
        assert path in error["message"] and "JobService" in error["message"]
    verb = await idle.http.post("/v1/projects/p/locations/us-central1/endpoints/1:explain", json={})
    assert verb.status_code == 400 and verb.json()["error"]["status"] == "UNIMPLEMENTED"
    refused = await idle.http.put(JOBS, json=BODY)
    assert refused.status_code == 405 and "GET, POST" in refused.json()["error"]["message"]


async def test_the_token_is_asked_for(idle: Place) -> None:
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": f"Basic {'x' * 43}"}):
        async with httpx.AsyncClient(base_url=idle.url, headers=headers, trust_env=False) as stranger:
            answer = await stranger.post(JOBS, json=BODY)
        assert answer.status_code == 401 and answer.json()["error"]["status"] == "UNAUTHENTICATED"
        assert answer.headers["www-authenticate"] == "Bearer"
    assert (await idle.http.get(JOBS)).json() == {}
    token = idle.emulator.state.token
    assert token.stat().st_mode & 0o777 == 0o600 and token.read_text().strip() not in json.dumps(
        answer.json()
    )


@pytest.mark.parametrize(
    "headers", [{"Host": "evil.example"}, {"Host": "10.0.0.1:80"}, {"Origin": "http://evil.example"}]
)
async def test_web_pages_are_kept_out(idle: Place, headers: dict[str, str]) -> None:
    answer = await idle.http.get(JOBS, headers=headers)
    assert answer.status_code == 403 and answer.json()["error"]["status"] == "PERMISSION_DENIED"


async def test_large_bodies_are_refused(idle: Place) -> None:
    async def endless() -> AsyncIterator[bytes]:
        for _ in range(BODY_LIMIT // (1 << 20) + 2):
            yield b" " * (1 << 20)

    for content in (b" " * (BODY_LIMIT + 1), endless()):
        try:
            answer = await idle.http.post(JOBS, content=content)
        except httpx.TransportError:
            continue  # It is allowed to hang up on what it will not read.
        assert answer.status_code == 413
    assert (await idle.http.get(JOBS)).status_code == 200


@pytest.mark.slow
async def test_a_connection_outlives_a_pause_between_two_requests(idle: Place) -> None:
    """A client may not repeat a request that changes something, where the server closes in that moment."""
    host, _, port = idle.url.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        writer.write(f"GET {JOBS} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        await reader.readexactly(int(head.partition("content-length: ")[2].split()[0]))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.read(1), 6)
    finally:
        writer.close()


async def test_other_addresses_are_not_served() -> None:
    with state_dir() as state:
        state.prepare()
        for host in ("0.0.0.0", "192.168.1.1", "example.com"):
            with pytest.raises(StateDirError, match="loopback"):
                await serve_rest([], state, host, 0)
        with socket.socket() as other:
            other.bind(("127.0.0.1", 0))
            other.listen()
            with pytest.raises(OSError, match="can't listen"):
                await serve_rest([], state, "127.0.0.1", other.getsockname()[1])


async def test_an_emulator_that_runs_opens_rest() -> None:
    with state_dir() as state:
        async with Emulator(state, EmulatorConfig.model_validate(QUICK)) as emulator:

            async def start(rest: str | None, **options: bool) -> dict[str, Any]:
                return await asyncio.to_thread(start_server, state, rest=rest, **options)

            with socket.create_server(("127.0.0.1", 0)) as taken:
                address = f"127.0.0.1:{taken.getsockname()[1]}"
                with pytest.raises(LauncherError, match=f"{address}.* in use"):
                    await start(address)
            with pytest.raises(LauncherError, match="only a loopback address"):
                await start("10.0.0.1:0")
            both = await asyncio.gather(start("127.0.0.1:0"), start("127.0.0.1:0"))
            url = emulator.rest_url
            assert url is not None and [info["rest"] for info in both] == [url, url]
            shown = await asyncio.to_thread(server_status, state)
            assert shown is not None and shown["rest"] == url
            async with httpx.AsyncClient(base_url=url, timeout=60, trust_env=False) as http:
                assert (await http.get(JOBS)).status_code == 401
                headers = {"Authorization": f"Bearer {read_token(state)}"}
                assert (await http.get(JOBS, headers=headers)).status_code == 200
            assert (await start(f"127.0.0.1:{url.rpartition(':')[2]}"))["rest"] == url
            for options in ({"no_auth": True}, {"simulate_accelerators": True}):
                with pytest.raises(LauncherError, match="already"):
                    await start("127.0.0.1:0", **options)
            assert (await start(None))["pid"] == shown["pid"], "it is the server that was to be started"


def test_several_starts_at_once_end_with_one_server() -> None:
    with state_dir() as state:
        code = (
            "import sys; from pathlib import Path; from tui.emulator.client import StateDir, start_server\n"
            "print(start_server(StateDir(Path(sys.argv[1])))['pid'])"
        )
        command = [sys.executable, "-c", code, str(state.root)]
        starts = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(5)]
        said = [start.communicate() for start in starts]
        try:
            assert [start.returncode for start in starts] == [0] * 5
            assert len({out for out, _ in said}) == 1
        finally:
            stop_server(state)


async def test_a_token_is_kept_and_an_empty_one_refused() -> None:
    with state_dir() as state:
        state.prepare()
        first = read_token(state)
        assert len(first) >= 32 and read_token(state) == first
        state.token.write_text("\n")
        with pytest.raises(StateDirError, match="empty"):
            read_token(state)


async def test_curl_creates_a_job(place: Place) -> None:
    curl = shutil.which("curl")
    assert curl is not None
    body = place.emulator.state.root / "request.json"
    body.write_text(json.dumps(BODY))
    done = await asyncio.to_thread(
        subprocess.run,
        [curl, "-sS", "-X", "POST", "-H", f"Authorization: Bearer {read_token(place.emulator.state)}",
         "-H", "Content-Type: application/json; charset=utf-8", "-d", f"@{body}", place.url + JOBS],
        capture_output=True, text=True, timeout=LIMIT, check=True, env={"PATH": os.environ["PATH"]},
    )  # fmt: skip
    await place.clients.reach(json.loads(done.stdout)["name"], "SUCCEEDED")


SDK = """
import sys
import google.auth.credentials
from google.cloud import aiplatform

class Token(google.auth.credentials.Credentials):
    def refresh(self, request): self.token = sys.argv[2]

def run_job(endpoint, credentials):
    aiplatform.init(project="sdk-project", location="us-central1", api_transport="rest",
                    api_endpoint=endpoint, credentials=credentials, staging_bucket="gs://staging")
    command = ["python3", "-c", "print('hello')"]
    pool = {"machine_spec": {"machine_type": "n1-standard-4"}, "replica_count": 1,
            "container_spec": {"image_uri": "python", "command": command, "args": []}}
    job = aiplatform.CustomJob(display_name="from-sdk", worker_pool_specs=[pool])
    job.run(sync=True)
    found = aiplatform.CustomJob.list(filter='display_name="from-sdk"')
    assert [j.display_name for j in found] == ["from-sdk"]
    print(job.state.name)
    job.delete()

run_job(sys.argv[1], Token())
run_job(sys.argv[3], google.auth.credentials.AnonymousCredentials())
"""


# Seconds: the import of the SDK takes most of them.
async def test_the_high_level_sdk_runs_a_job_with_a_token_and_without() -> None:
    async for place in started():
        async for open_place in started(auth=False):
            sdk = await asyncio.create_subprocess_exec(
                sys.executable, "-W", "ignore", "-c", SDK,
                place.url, read_token(place.emulator.state), open_place.url,
                env={"PATH": os.environ["PATH"], "HOME": str(place.emulator.state.root)},
                stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            )  # fmt: skip
            out, err = await asyncio.wait_for(sdk.communicate(), 2 * LIMIT)
            assert sdk.returncode == 0, err.decode()[-3000:]
            states = [line for line in out.split() if line.startswith(b"JOB_STATE")]
            assert states[-2:] == [b"JOB_STATE_SUCCEEDED"] * 2
            assert await place.clients.listed() == await open_place.clients.listed() == []


LOGGING = """
import sys
from google.auth.credentials import AnonymousCredentials
from google.cloud import logging

client = logging.Client(project="p", credentials=AnonymousCredentials(), _use_grpc=False,
                        client_options={"api_endpoint": sys.argv[1]})
client.logger("mine").log_text("over HTTP", severity="WARNING")
for entry in client.list_entries(filter_='logName="projects/p/logs/mine" AND severity=WARNING'):
    print(entry.payload, entry.severity)
"""


async def test_the_logging_client_writes_and_lists_over_http() -> None:
    async for place in started(auth=False):
        client = await asyncio.create_subprocess_exec(
            sys.executable, "-W", "ignore", "-c", LOGGING, place.url,
            env={"PATH": os.environ["PATH"], "HOME": str(place.emulator.state.root)},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        out, err = await asyncio.wait_for(client.communicate(), LIMIT)
        assert client.returncode == 0, err.decode()[-3000:]
        assert out.decode() == "over HTTP WARNING\n"
