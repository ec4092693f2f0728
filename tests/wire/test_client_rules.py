"""How Prefect, gcloud and the SDK read ended jobs and errors: their rules, run again on the emulator.

The rules of gcloud are those of its command_lib/ai/log_util.py, command_lib/logs/stream.py and
api_lib/ai/custom_jobs/client.py; gcloud itself runs where it is installed, and takes half a minute.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from google.api_core import exceptions
from google.cloud.aiplatform_v1.types import CustomJob, JobState

from tests.wire.control import QUICK, Clients, emulator, python, state_dir
from tui.emulator.client import start_server, stop_server
from tui.verbs.emulator.gcloud import gcloud_environment

START = "1970-01-01T01:00:00.000000000Z"
BAD = "print('hello')\nraise KeyError('x')"


def prefect(final: CustomJob) -> int:
    """The status code of Prefect's worker (prefect_gcp/workers/vertex.py). Raises RuntimeError."""
    message = final.error.message
    if message and "CANCELED" not in message:
        raise RuntimeError(message)
    return 0 if final.state == JobState.JOB_STATE_SUCCEEDED else 1


async def test_prefect_tells_a_cancelled_job_from_a_failed_one() -> None:
    async with emulator() as (_, clients):
        forever = await clients.create(python("import time; time.sleep(600)"))
        done, failed = await clients.create(python("pass")), await clients.create(python(BAD))
        await clients.reach(forever.name, "RUNNING")
        await clients.jobs.cancel_custom_job(name=forever.name)
        assert prefect(await clients.reach(forever.name, "CANCELLED")) == 1
        assert prefect(await clients.reach(done.name, "SUCCEEDED")) == 0
        with pytest.raises(RuntimeError, match="exited with a non-zero status of 1"):
            prefect(await clients.reach(failed.name, "FAILED"))
        # The worker takes a job with this text for one that is gone.
        with pytest.raises(exceptions.NotFound, match="does not exist"):
            await clients.jobs.cancel_custom_job(name=f"{done.name}1")


@pytest.fixture
async def rest() -> AsyncIterator[tuple[Clients, httpx.AsyncClient]]:
    async with emulator() as (running, clients):
        info = await running.open_rest("127.0.0.1:0", False)
        async with httpx.AsyncClient(base_url=info["rest"], timeout=60) as http:
            yield clients, http


class LogFetcher:
    """gcloud's poll of a job's log, without its pauses; `now` is later by the 5 s that it leaves out."""

    def __init__(self, http: httpx.AsyncClient, job_id: str) -> None:
        self._http = http
        self._filters = ['resource.type="ml_job"', f'resource.labels.job_id="{job_id}"']
        self._at, self._id, self._by_id = START, "", False

    async def poll(self) -> list[Any]:
        low = f'timestamp>="{self._at}"'
        if self._by_id:
            low = f'((timestamp="{self._at}" AND insertId>"{self._id}") OR timestamp>"{self._at}")'
        upper = (datetime.now(UTC) + timedelta(seconds=1)).strftime("%Y-%m-%dT%H:%M:%S.%f+00:00")
        body = {
            "resourceNames": ["projects/p"],
            "filter": " AND ".join([*self._filters, low, f'timestamp<"{upper}"']),
            "orderBy": "timestamp asc", "pageSize": 1000,
        }  # fmt: skip
        reply = (await self._http.post("/v2/entries:list", json=body)).raise_for_status().json()
        return [entry for entry in reply.get("entries", []) if self._new(entry)]

    def _new(self, entry: Any) -> bool:
        at, insert_id = entry["timestamp"], entry["insertId"]
        if at < self._at or (at == self._at and insert_id <= self._id):
            return False
        self._by_id = at == self._at
        self._at, self._id = at, insert_id
        return True


async def test_gcloud_streams_a_log_to_its_end(rest: tuple[Clients, httpx.AsyncClient]) -> None:
    clients, http = rest
    job = await clients.create(python(BAD))
    await clients.reach(job.name, "FAILED")
    shown = (await http.get(f"/v1beta1/{job.name}")).json()
    fetcher, lines, empty = LogFetcher(http, job.name.rpartition("/")[2]), [], 0
    while empty <= 1 or "endTime" not in shown:
        entries = await fetcher.poll()
        empty = 0 if entries else empty + 1
        for entry in entries:
            task = entry["resource"]["labels"].get("task_name", "unknown_task")
            text = entry.get("jsonPayload", {}).get("message") or entry.get("textPayload", "")
            lines += [(entry["severity"], task, line) for line in text.splitlines() or [""]]
    assert lines[0] == ("INFO", "service", "Waiting for job to be provisioned.")
    assert ("INFO", "workerpool0-0", "hello") in lines
    assert lines.index(("ERROR", "workerpool0-0", "KeyError: 'x'")) < lines.index(
        ("ERROR", "service", "KeyError: 'x'")
    )
    assert lines[-1] == ("INFO", "service", "Job failed.")


async def test_gcloud_shows_an_error_with_its_details(rest: tuple[Clients, httpx.AsyncClient]) -> None:
    clients, http = rest
    jobs = "/v1/projects/p/locations/us-central1/customJobs"
    spec = {"workerPoolSpecs": [{"machineSpec": {"machineType": "nope"}, "replicaCount": 2}]}
    refused = (await http.post(jobs, json={"displayName": "x", "jobSpec": spec})).json()["error"]
    assert (refused["code"], refused["status"]) == (400, "INVALID_ARGUMENT")
    assert refused["message"].startswith("List of found errors:\t1.Field: job_spec.worker_pool_specs[0].")
    (detail,) = refused["details"]
    assert detail["@type"] == "type.googleapis.com/google.rpc.BadRequest"
    assert {violation["field"] for violation in detail["fieldViolations"]} >= {
        "job_spec.worker_pool_specs[0].machine_spec.machine_type"
    }
    job = await clients.create(python("pass"))
    await clients.reach(job.name, "SUCCEEDED")
    refused = (await http.post(f"/v1/{job.name}:cancel")).json()["error"]
    assert (refused["code"], refused["status"]) == (400, "FAILED_PRECONDITION")
    assert refused["message"].endswith("is in state JOB_STATE_SUCCEEDED and cannot be canceled.")
    await clients.admin(do="scarcity", quota="*")
    spec["workerPoolSpecs"][0] |= {
        "machineSpec": {"machineType": "n1-standard-4"}, "replicaCount": 1,
        "containerSpec": {"imageUri": "python:3.11", "command": ["true"]},
    }  # fmt: skip
    refused = (await http.post(jobs, json={"displayName": "x", "jobSpec": spec})).json()["error"]
    assert (refused["code"], refused["status"]) == (429, "RESOURCE_EXHAUSTED")


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("gcloud") is None, reason="gcloud is not installed")
def test_gcloud_itself_streams_a_log_and_shows_errors() -> None:
    with state_dir() as state:
        state.prepare()
        state.config.write_text(json.dumps(QUICK))
        info = start_server(state, rest="127.0.0.1:0")
        try:
            env = {**os.environ, **gcloud_environment(state, info, "p", "us-central1")}
            env["CLOUDSDK_CONFIG"] = str(state.root / "gcloud")

            def gcloud(*words: str) -> subprocess.CompletedProcess[str]:
                command = ["gcloud", "ai", "custom-jobs", *words, "--quiet"]
                return subprocess.run(
                    command, env=env, capture_output=True, text=True, timeout=120, check=False
                )

            config = state.root / "job.json"
            container = {"imageUri": "python:3.11", "command": python(BAD)["container_spec"]["command"]}
            pool = {"machineSpec": {"machineType": "n1-standard-4"}, "replicaCount": 1}
            config.write_text(json.dumps({"workerPoolSpecs": [{**pool, "containerSpec": container}]}))
            made = gcloud("create", "--display-name=x", f"--config={config}", "--format=value(name)")
            name = made.stdout.strip()
            while '"endTime"' not in gcloud("describe", name, "--format=json").stdout:
                pass
            streamed = gcloud("stream-logs", name, "--polling-interval=1")
            assert streamed.returncode == 0, streamed.stderr
            lines = [line.split("\t") for line in streamed.stdout.splitlines()]
            assert lines[0][2:] == ["service", "Waiting for job to be provisioned."]
            assert lines[-1][2:] == ["service", "Job failed."]
            assert ["workerpool0-0", "hello"] in [line[2:] for line in lines]
            refused = gcloud("cancel", name)
            assert refused.returncode == 1
            assert f'The CustomJob "{name}" is in state JOB_STATE_FAILED and cannot' in refused.stderr
        finally:
            stop_server(state)
