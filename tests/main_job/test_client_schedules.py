"""Pipeline schedules of the high-level SDK, unmodified, over REST; and of the REST API itself."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from tests.main_job.clients_support import by_the_sdk
from tests.shell import Home, home
from tests.wire.schedules import IMPORT

pytestmark = pytest.mark.xdist_group("clients")


@pytest.fixture(scope="module")
def place() -> Iterator[Home]:
    with home() as found:
        started = found.run("emulator", "start", "--rest", "127.0.0.1:0", "--json")
        assert started.returncode == 0, started.stderr
        yield found


SCHEDULE = """
import json, subprocess, sys, time
import google.oauth2.credentials
from google.cloud import aiplatform, storage
from google.cloud.aiplatform.utils import gcs_utils

endpoint, token, script = sys.argv[1:]
credentials = google.oauth2.credentials.Credentials(token)
# Whose the bucket is the SDK asks Google's Resource Manager, which a test does not reach.
gcs_utils._verify_bucket_ownership = lambda *_: True
storage.Client(project="sdk-project", credentials=credentials).create_bucket("sdk-schedules")
aiplatform.init(project="sdk-project", location="us-central1", api_transport="rest", api_endpoint=endpoint,
                credentials=credentials, staging_bucket="gs://sdk-schedules")
given = json.loads(sys.stdin.readline())
template = script.replace("train.py", "pipeline.json")
with open(template, "w") as file:
    json.dump(given["spec"], file)
job = aiplatform.PipelineJob("nightly", template_path=template, pipeline_root="gs://sdk-schedules/root")
schedule = aiplatform.PipelineJobSchedule(pipeline_job=job, display_name="every-year")
schedule.create(cron="TZ=Europe/Berlin " + given["cron"], max_run_count=3, max_concurrent_run_count=1,
                end_time=given["end"])
assert (schedule.state.name, schedule.max_run_count) == ("ACTIVE", 3)
schedule.pause()
assert schedule.state.name == "PAUSED" and schedule.done()
schedule.resume()
schedule.update(display_name="each-year", cron=given["cron"], max_run_count=2)
assert schedule.cron == given["cron"], schedule.gca_resource
assert schedule.gca_resource.next_run_time.isoformat() == given["due"], schedule.gca_resource
listed = aiplatform.PipelineJobSchedule.list(filter='display_name:"each*"', order_by="create_time desc")
assert [each.resource_name for each in listed] == [schedule.resource_name]
print("ready", flush=True)
sys.stdin.readline()
while not schedule.list_jobs():
    time.sleep(0.2)
(run,) = schedule.list_jobs(filter='state="PIPELINE_STATE_SUCCEEDED" OR state="PIPELINE_STATE_RUNNING" OR '
                            'state="PIPELINE_STATE_PENDING"', enable_simple_view=True)
assert run.name == given["run"] and run.gca_resource.pipeline_spec["pipelineInfo"]["name"] == "nightly"
whole = aiplatform.PipelineJob.get(run.name)
assert whole.gca_resource.schedule_name == schedule.resource_name
assert aiplatform.PipelineJobSchedule.get(schedule.name).gca_resource.started_run_count == 1
schedule.delete()
assert aiplatform.PipelineJobSchedule.list() == []
print(run.resource_name)
"""


def test_a_schedule_of_the_high_level_sdk_starts_runs_over_rest(place: Home) -> None:
    due = (datetime.now(UTC) + timedelta(days=2)).replace(minute=30, second=0, microsecond=0)
    given = {
        "spec": IMPORT, "cron": f"30 {due.hour} {due.day} {due.month} *", "due": due.isoformat(),
        "end": (due + timedelta(days=900)).isoformat(), "run": f"nightly-{due:%Y%m%d%H%M%S}",
    }  # fmt: skip

    def ready() -> str:
        """The time comes when the program has made its schedule; a minute later its run would be missed."""
        offset = (due - datetime.now(UTC)).total_seconds() + 5
        assert place.run("emulator", "fault", "clock", "--offset", str(offset)).returncode == 0
        return "\n"

    try:
        printed = by_the_sdk(place, SCHEDULE, json.dumps(given) + "\n", ready)
    finally:
        place.run("emulator", "fault", "clear")
    name = printed.split()[-1]
    assert place.json("describe", name.rsplit("/", 1)[1])["name"] == name


def test_v1beta1_of_rest_has_schedules_and_batches(place: Home) -> None:
    token, rest = (place.state / "token").read_text().strip(), place.json("emulator", "status")["rest"]

    def call(path: str, *more: str) -> dict[str, object]:
        url = f"{rest}/v1beta1/projects/curl/locations/us-central1/{path}"
        sent = ("-H", f"Authorization: Bearer {token}", "-H", "Content-Type: application/json")
        done = subprocess.run(["curl", "-s", *sent, url, *more], capture_output=True, text=True, check=True)
        return dict(json.loads(done.stdout))

    job = {"pipelineSpec": IMPORT, "runtimeConfig": {"gcsOutputDirectory": "gs://nightly/root"}}
    request = {"parent": "projects/curl/locations/us-central1", "pipelineJob": job}
    body = {
        "displayName": "c", "cron": "0 0 1 1 *", "maxConcurrentRunCount": "1",
        "createPipelineJobRequest": request,
    }  # fmt: skip
    made = call("schedules", "-d", json.dumps(body))
    assert "name" in made, made
    number = str(made["name"]).rsplit("/", 1)[1]
    assert call(f"schedules/{number}:pause", "-d", "{}") == {}
    assert call(f"schedules/{number}")["state"] == "PAUSED"
    assert call(f"schedules/{number}:resume", "-d", '{"catchUp": true}') == {}
    changed = call(f"schedules/{number}?updateMask=maxRunCount", "-X", "PATCH", "-d", '{"maxRunCount": 7}')
    assert (changed["state"], changed["catchUp"], changed["maxRunCount"]) == ("ACTIVE", True, "7")
    listed = call("schedules?filter=state%3DACTIVE&orderBy=next_run_time")
    assert [each["name"] for each in listed["schedules"]] == [made["name"]]  # type: ignore[attr-defined]
    run = call("pipelineJobs?pipelineJobId=batched", "-d", json.dumps(job))
    cancelled = call("pipelineJobs:batchCancel", "-d", json.dumps({"names": [run["name"]]}))
    assert "v1beta1.BatchCancelPipelineJobsOperationMetadata" in json.dumps(cancelled)
    deleted = call(f"schedules/{number}", "-X", "DELETE")
    assert deleted["done"] is True and call("schedules") == {}
