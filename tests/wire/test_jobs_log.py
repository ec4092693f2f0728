"""What a job leaves in the log by the time its end is seen: the platform's words in order, each line once."""

from __future__ import annotations

import signal
from dataclasses import replace
from typing import Any

import pytest

from tests.waiting import until
from tests.wire.control import Clients, emulator, python, served, state_dir
from tui.emulator.paths import AttemptDir
from tui.emulator.runner.plan import AttemptStatus
from tui.emulator.runs.runner_handle import LocalRunner

PLATFORM = [
    "Waiting for job to be provisioned.",
    "Vertex AI is provisioning job running framework.",
    "Vertex AI is setting up this job.",
    "Waiting for training program to start.",
    "Job is preparing.",
    "Job is running.",
]
TEARING_DOWN = ["Tearing down training program.", "Finished tearing down training program."]


async def entries(clients: Clients, name: str, task: str) -> list[str]:
    """Texts of one task's entries, oldest first."""
    return [entry.text_payload for entry in await log_of(clients, name, task)]


async def log_of(clients: Clients, name: str, task: str) -> list[Any]:
    from google.cloud.logging_v2.services.logging_service_v2 import LoggingServiceV2AsyncClient
    from google.cloud.logging_v2.services.logging_service_v2.transports import (
        LoggingServiceV2GrpcAsyncIOTransport,
    )

    client = LoggingServiceV2AsyncClient(
        transport=LoggingServiceV2GrpcAsyncIOTransport(channel=clients.channel)
    )
    pager = await client.list_log_entries(
        request={
            "resource_names": ["projects/p"],
            "filter": f'resource.type="ml_job" AND resource.labels.job_id="{name.rsplit("/", 1)[1]}"'
            f' AND resource.labels.task_name="{task}"',
            "order_by": "timestamp asc",
            "page_size": 1000,
        }
    )
    return [entry async for entry in pager]


def in_order(texts: list[str], wanted: list[str]) -> bool:
    """Every wanted beginning is met, one after the other."""
    left = iter(texts)
    return all(any(text.startswith(start) for text in left) for start in wanted)


async def test_the_whole_log_is_there_when_the_end_is_seen() -> None:
    code = "for i in range(3000): print('line', i)"
    async with emulator() as (_, clients):
        job = await clients.create(python(code), python(code, replicas=2))
        await clients.reach(job.name, "SUCCEEDED")
        assert await entries(clients, job.name, "workerpool0-0") == [f"line {i}" for i in range(3000)]
        said = await entries(clients, job.name, "service")
        assert in_order(said, [*PLATFORM, *TEARING_DOWN, "Job completed successfully."]), said


async def test_a_json_line_with_an_old_time_leaves_other_lines_where_they_are() -> None:
    code = """
import json, time
print("before")
print(json.dumps({"message": "old", "timestampSeconds": int(time.time()) - 3600}))
print("after")
"""
    async with emulator() as (_, clients):
        job = await clients.create(python(code))
        await clients.reach(job.name, "SUCCEEDED")
        # The JSON line has no text. Its time is an hour back; the others are in the job's time.
        assert await entries(clients, job.name, "workerpool0-0") == ["", "before", "after"]


async def test_a_failure_and_its_restarts_are_told() -> None:
    async with emulator() as (_, clients):
        job = await clients.create(python("import os; print('up', flush=True); os.abort()"))
        job = await clients.reach(job.name, "FAILED")
        said = await entries(clients, job.name, "service")
        story = [
            *PLATFORM,
            "workerpool0-0: command terminated with exit code 134",
            "The replica workerpool0-0",
        ]
        for attempt in (2, 3, 4):
            story += [f"The job restarts: attempt {attempt}.", "Job is running."]
        assert in_order(said, [*story, job.error.message]), said
        assert await entries(clients, job.name, "workerpool0-0") == ["up"] * 4


async def test_a_death_on_record_after_the_first_look_comes_after_the_word_that_it_ran(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real, looks = LocalRunner.status, 0

    def late(runner: LocalRunner, attempt: AttemptDir) -> AttemptStatus:
        nonlocal looks
        status = real(runner, attempt)
        looks += status.outcome is not None
        if looks > 1:
            return status
        state = "running" if looks else "starting"
        replicas = tuple(replace(replica, state=state) for replica in status.replicas)
        return replace(status, outcome=None, events=(), replicas=replicas)

    monkeypatch.setattr(LocalRunner, "status", late)
    async with emulator() as (_, clients):
        job = await clients.create(
            python("raise SystemExit(3)"), spec={"scheduling": {"disable_retries": True}}
        )
        job = await clients.reach(job.name, "FAILED")
        said = await entries(clients, job.name, "service")
        assert in_order(
            said,
            [*PLATFORM, "workerpool0-0: command terminated", job.error.message, *TEARING_DOWN, "Job failed."],
        ), said


async def test_the_end_comes_later_than_that_of_the_replicas() -> None:
    async with emulator(end_delay_seconds=0.5) as (_, clients):
        job = await clients.create(python("pass"))
        ended = await clients.reach(job.name, "SUCCEEDED")
        log = await log_of(clients, job.name, "service")
        times = {entry.text_payload: entry.timestamp for entry in log}
        assert dict(log[-1].labels) == {
            "ml.googleapis.com/endpoint": "", "ml.googleapis.com/job_state": "SUCCEEDED",
        }  # fmt: skip
        torn, last = times[TEARING_DOWN[-1]], times["Job completed successfully."]
        assert (last - torn).total_seconds() >= 0.5 and ended.end_time >= last


async def test_waiting_for_quota_is_told() -> None:
    async with emulator(quotas={"custom_model_training_cpus": 0}, queue_beyond_quota=True) as (_, clients):
        job = await clients.create(python("pass"))

        async def told() -> bool:
            said = await entries(clients, job.name, "service")
            return any("custom_model_training_cpus (needs 4, limit 0)" in text for text in said)

        await until(told, "the reason for waiting")
        await clients.jobs.cancel_custom_job(name=job.name)
        assert (await entries(clients, job.name, "service"))[-1] == "CANCELED: The job was cancelled."


async def test_no_line_is_lost_or_doubled_by_a_killed_server() -> None:
    code = (
        "import sys, time\n"
        "for i in range(300):\n    print('line', i, flush=True)\n    time.sleep(0.01)\n"
        "sys.exit(3)"
    )
    with state_dir() as state:
        state.prepare()
        state.config.write_text("provisioning_seconds: 0")
        async with served(state, signal.SIGKILL) as clients:
            job = await clients.create(python(code))

            async def begun() -> bool:
                return len(await entries(clients, job.name, "workerpool0-0")) > 20

            await until(begun, "some lines")
        async with served(state) as clients:
            await clients.reach(job.name, "FAILED")
            assert await entries(clients, job.name, "workerpool0-0") == [f"line {i}" for i in range(300)]
            said = await entries(clients, job.name, "service")
            assert sum("command terminated with exit code 3" in text for text in said) == 1


async def test_an_account_without_the_right_to_log_leaves_the_replicas_log_empty() -> None:
    async with emulator() as (_, clients):
        await clients.admin(do="checks", denied=["logging.logEntries.create"])
        job = await clients.create(python("print('hello')"))
        await clients.reach(job.name, "SUCCEEDED")
        assert await entries(clients, job.name, "workerpool0-0") == []
        assert "Job completed successfully." in await entries(clients, job.name, "service")
