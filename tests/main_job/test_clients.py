"""Anyone's client works against the emulator: the high-level SDK, curl, unmodified GAPIC clients."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.main_job.test_survival import profile
from tests.shell import Home, home
from tests.waiting import until, wait_for

# One home for the whole module, so one worker for it.
pytestmark = pytest.mark.xdist_group("clients")


@pytest.fixture(scope="module")
def place() -> Iterator[Home]:
    with home() as found:
        started = found.run("emulator", "start", "--rest", "127.0.0.1:0", "--json")
        assert started.returncode == 0, started.stderr
        yield found


def status(place: Home) -> dict[str, str]:
    return dict(place.json("emulator", "status"))


SDK = """
import sys
import google.auth.credentials
from google.cloud import aiplatform

class Token(google.auth.credentials.Credentials):
    def refresh(self, request): self.token = sys.argv[2]
    @property
    def expired(self): return False

aiplatform.init(project="sdk-project", location="us-central1", api_transport="rest",
                api_endpoint=sys.argv[1], credentials=Token(), staging_bucket="gs://staging")
pool = {"machine_spec": {"machine_type": "n1-standard-4"}, "replica_count": 1,
        "container_spec": {"image_uri": "python", "command": ["python3", "-c", "print('hello')"], "args": []}}
job = aiplatform.CustomJob(display_name="from-sdk", worker_pool_specs=[pool])
job.run(sync=True)
print(job.resource_name, job.state.name)
"""


def test_the_high_level_sdk_runs_a_job_over_rest(place: Home) -> None:
    token = (place.state / "token").read_text().strip()
    done = subprocess.run(
        [sys.executable, "-c", SDK, status(place)["rest"], token],
        env=place.env, text=True, capture_output=True, timeout=240, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert "JOB_STATE_SUCCEEDED" in done.stdout


BODY = {
    "displayName": "from-curl",
    "jobSpec": {
        "workerPoolSpecs": [
            {
                "machineSpec": {"machineType": "n1-standard-4", "acceleratorType": "NVIDIA_TESLA_T4",
                                "acceleratorCount": 1},
                "replicaCount": 1,
                "diskSpec": {"bootDiskType": "pd-ssd", "bootDiskSizeGb": 100},
                "containerSpec": {"imageUri": "us-docker.pkg.dev/p/r/x", "command": ["echo"], "args": ["hi"]},
            }
        ],
        "scheduling": {"timeout": "3600s"},
    },
    "labels": {"team": "nlp", "stage": "test"},
}  # fmt: skip


def curl(place: Home, *args: str) -> dict[str, object]:
    done = subprocess.run(["curl", "-sS", *args], text=True, capture_output=True, timeout=60, check=True)
    return dict(json.loads(done.stdout))


def test_curl_creates_a_job_and_needs_the_token(place: Home) -> None:
    url = f"{status(place)['rest']}/v1/projects/my-project/locations/us-central1/customJobs"
    body = place.root / "request.json"
    body.write_text(json.dumps(BODY))
    post = ["-X", "POST", "-H", "Content-Type: application/json; charset=utf-8", "-d", f"@{body}", url]
    refused = curl(place, *post)
    assert refused["error"]["code"] == 401  # type: ignore[index]
    token = (place.state / "token").read_text().strip()
    made = curl(place, "-H", f"Authorization: Bearer {token}", *post)
    assert made["displayName"] == "from-curl" and made["state"] in {"JOB_STATE_QUEUED", "JOB_STATE_PENDING"}

    def ended() -> bool:
        return (
            curl(place, "-H", f"Authorization: Bearer {token}", f"{status(place)['rest']}/v1/{made['name']}")[
                "state"
            ]
            == "JOB_STATE_SUCCEEDED"
        )

    wait_for(ended, "the job from curl to end")


async def test_unmodified_gapic_clients_list_tail_and_read_series(place: Home) -> None:
    import asyncio

    import grpc
    from google.cloud.aiplatform_v1.services.job_service import JobServiceAsyncClient
    from google.cloud.aiplatform_v1.services.job_service.transports import JobServiceGrpcAsyncIOTransport
    from google.cloud.logging_v2.services.logging_service_v2 import LoggingServiceV2AsyncClient
    from google.cloud.logging_v2.services.logging_service_v2.transports import (
        LoggingServiceV2GrpcAsyncIOTransport,
    )
    from google.cloud.logging_v2.types import TailLogEntriesRequest
    from google.cloud.monitoring_v3 import MetricServiceAsyncClient
    from google.cloud.monitoring_v3.services.metric_service.transports import (
        MetricServiceGrpcAsyncIOTransport,
    )

    code = "import itertools, time\nfor i in itertools.count(): print('tick', i, flush=True); time.sleep(0.1)"
    path = str(profile(place, code, replicas=1))
    made = await asyncio.to_thread(place.json, "launch", path, "--yes")
    channel = grpc.aio.insecure_channel(f"unix:{place.state / 'emulator.sock'}")
    jobs = JobServiceAsyncClient(transport=JobServiceGrpcAsyncIOTransport(channel=channel))
    logs = LoggingServiceV2AsyncClient(transport=LoggingServiceV2GrpcAsyncIOTransport(channel=channel))
    metrics = MetricServiceAsyncClient(transport=MetricServiceGrpcAsyncIOTransport(channel=channel))
    project, location = made["name"].split("/")[1], made["name"].split("/")[3]

    listed = await jobs.list_custom_jobs(
        request={"parent": f"projects/{project}/locations/{location}", "filter": 'display_name="count"'}
    )
    assert made["name"] in [job.name async for job in listed]

    async def requests():  # type: ignore[no-untyped-def]
        yield TailLogEntriesRequest(
            resource_names=[f"projects/{project}"],
            filter=f'resource.type="ml_job" AND resource.labels.job_id="{made["id"]}" AND textPayload:"tick"',
            buffer_window={"seconds": 0, "nanos": 200_000_000},
        )
        await asyncio.sleep(600)

    seen: list[str] = []
    async for response in await logs.tail_log_entries(requests=requests()):
        seen += [entry.text_payload for entry in response.entries]
        if len(seen) >= 5:
            break
    numbers = [int(text.split()[1]) for text in seen]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))

    import time

    async def cpu() -> int:
        """Points of the job's CPU utilization."""
        now = int(time.time())
        pager = await metrics.list_time_series(
            request={
                "name": f"projects/{project}",
                "filter": 'metric.type="ml.googleapis.com/training/cpu/utilization" AND '
                f'resource.type="cloudml_job" AND resource.labels.job_id="{made["id"]}"',
                "interval": {"start_time": {"seconds": now - 600}, "end_time": {"seconds": now + 1}},
                "view": "FULL",
            }
        )
        return sum([len(series.points) async for series in pager])

    await until(cpu, "a point of its CPU utilization", every=0.5)
    await channel.close()
