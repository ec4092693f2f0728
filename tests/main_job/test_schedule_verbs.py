"""`vxtui schedules`: a profile's pipeline on a schedule, from its creation to its deletion."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import grpc
import pytest
from google.cloud.aiplatform_v1.services.schedule_service import ScheduleServiceClient
from google.cloud.aiplatform_v1.services.schedule_service.transports import ScheduleServiceGrpcTransport

from tests.shell import Home, home
from tests.waiting import wait_for
from tests.wire.schedules import IMPORT

pytestmark = pytest.mark.xdist_group("schedules")


@pytest.fixture
def shell() -> Iterator[Home]:
    with home() as found:
        folder = found.root / "c" / "vxtui" / "profiles"
        folder.mkdir(parents=True)
        body = {"pipelineSpec": IMPORT, "runtimeConfig": {"gcsOutputDirectory": "gs://nightly/root"}}
        (folder / "own.yaml").write_text(json.dumps({"displayName": "{profile}-{n}", "pipelineJob": body}))
        assert found.run("emulator", "start", "--json").returncode == 0
        yield found


# Seconds: each verb is a process of its own.
def test_a_schedule_is_made_run_paused_and_deleted(shell: Home) -> None:
    def change(*words: str, code: int = 0) -> dict[str, Any]:
        return dict(shell.json("schedules", *words, "--yes", code=code))

    due = (datetime.now(UTC) + timedelta(days=2)).replace(minute=30, second=0, microsecond=0)
    cron = f"30 {due.hour} {due.day} {due.month} *"
    make = ("create", "nightly", "--from", "own", "--cron")
    wrong = change(*make, "0 0 30 2 *", code=2)["error"]
    assert "--cron: the cron is never due" in wrong["message"]
    made = change(*make, cron, "--max-runs", "3")["schedule"]
    assert (made["state"], made["pipeline"], made["max_runs"]) == ("ACTIVE", "nightly", 3)
    assert datetime.fromisoformat(made["next_run_time"]) == due and made["last_run"] is None

    again = change(*make, cron, code=2)["error"]
    assert "The schedule nightly already exists" in again["message"]

    offset = (due - datetime.now(UTC)).total_seconds() + 5
    assert shell.run("emulator", "fault", "clock", "--offset", str(offset)).returncode == 0

    # Asked directly: each verb is a process.
    channel = grpc.insecure_channel(f"unix:{shell.state / 'emulator.sock'}")
    client = ScheduleServiceClient(transport=ScheduleServiceGrpcTransport(channel=channel))
    wait_for(lambda: client.get_schedule(name=made["name"]).started_run_count, "the run")
    found = shell.json("schedules", "nightly", "--runs")
    (ran,), (run,) = found["schedules"], found["runs"]
    assert ran["started_runs"] == 1 and ran["last_response"]["text"] == "OK"
    assert run["name"] == ran["last_run"]["name"] and run["id"] == f"nightly-{due:%Y%m%d%H%M%S}"
    table = shell.run("schedules").stdout.splitlines()
    assert table[0].split()[:3] == ["STATE", "NAME", "WHEN"] and "1/3" in table[1]

    assert change("pause", made["id"])["schedule"]["state"] == "PAUSED"
    resumed = change("resume", "nightly", "--catch-up")["schedule"]
    assert resumed["state"] == "ACTIVE" and resumed["catch_up"] is True
    assert change("delete", "nightly")["deleted"] == made["name"]
    assert change("delete", "nightly", code=3)["error"]["code"] == "NOT_FOUND"
    audit = [json.loads(line) for line in (shell.root / "s" / "audit.jsonl").read_text().splitlines()]
    done = [each["action"] for each in audit if each["result"] == "done"]
    assert [each for each in done if each.startswith("schedule.")] == [
        "schedule.create", "schedule.pause", "schedule.resume", "schedule.delete",
    ]  # fmt: skip
