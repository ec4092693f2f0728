"""Jobs that really run: success, failure, cancel, quota, Spot, timeouts, and the deaths of their keepers."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from google.api_core import exceptions

from tests.processes import asked
from tests.waiting import until
from tests.wire.control import Clients, emulator, pool, processes_of, python, served, state_dir
from tui.emulator.interfaces import project_number
from tui.emulator.server import Emulator

FOREVER = "import time\nprint('up', flush=True)\ntime.sleep(600)"


@pytest.fixture
async def place() -> AsyncIterator[tuple[Emulator, Clients]]:
    async with emulator() as (running, clients):
        yield running, clients


@pytest.fixture
def clients(place: tuple[Emulator, Clients]) -> Clients:
    return place[1]


def number(name: str) -> str:
    return name.rsplit("/", 1)[1]


def attempts(running: Emulator, name: str) -> list[int]:
    return [a.number for a in running.state.attempts(number(name))]


async def test_a_job_runs_to_its_end_and_keeps_its_times(place: tuple[Emulator, Clients]) -> None:
    running, clients = place
    job = await clients.create(python("import time; print('hello', flush=True); time.sleep(0.5)"))
    await clients.reach(job.name, "RUNNING", "SUCCEEDED")
    job = await clients.reach(job.name, "SUCCEEDED")
    assert job.create_time <= job.start_time < job.end_time <= job.update_time
    assert not job.error.code and not job.web_access_uris
    output = running.state.attempt(number(job.name), 1).output("workerpool0-0", "stdout")
    assert output.read_text() == "hello\n"
    assert await until(lambda: not processes_of(running.state.root), "no process to be left")


async def test_the_primary_decides_and_the_others_are_ended(place: tuple[Emulator, Clients]) -> None:
    running, clients = place
    job = await clients.create(python("import time; time.sleep(1)"), python(FOREVER, replicas=2))
    await clients.reach(job.name, "SUCCEEDED")
    assert await until(lambda: not processes_of(running.state.root), "no process to be left")


async def test_a_failure_has_the_recorded_text(clients: Clients) -> None:
    """As in public dumps of failed jobs: the user's last traceback, then a link to the log."""
    job = await clients.create(python("print({}['x'])"))
    job = await clients.reach(job.name, "FAILED")
    id = number(job.name)
    assert job.error.code == 3 and job.error.message == (
        "The replica workerpool0-0 exited with a non-zero status of 1. Termination reason: Error. \n"
        "Traceback (most recent call last):\n  File \"<string>\", line 1, in <module>\nKeyError: 'x'\n\n"
        "To find out more about why your job exited please check the logs: "
        f"https://console.cloud.google.com/logs/viewer?project={project_number('p')}&resource=ml_job%2Fjob_id%2F{id}"
        f"&advancedFilter=resource.type%3D%22ml_job%22%0Aresource.labels.job_id%3D%22{id}%22"
    )
    assert job.start_time and job.end_time


async def test_a_command_that_is_not_there(clients: Clients) -> None:
    job = await clients.create(pool("no-such-program"))
    job = await clients.reach(job.name, "FAILED")
    assert "status of 128. Termination reason: StartError. \nTermination log message:" in job.error.message
    assert 'exec: "no-such-program": executable file not found in $PATH: unknown' in job.error.message


async def test_an_image_that_cannot_run_here_says_so(clients: Clients) -> None:
    job = await clients.create(pool(image_uri="europe-docker.pkg.dev/p/r/unknown:1"))
    job = await clients.reach(job.name, "FAILED")
    assert "europe-docker.pkg.dev/p/r/unknown:1" in job.error.message and not job.start_time


async def test_cancel_ends_every_descendant(place: tuple[Emulator, Clients], tmp_path: Path) -> None:
    running, clients = place
    # A launcher's workers live in sessions of their own.
    code = (
        "import subprocess, sys, time\n"
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'], start_new_session=True)\n"
        f"open({str(tmp_path)!r} + '/' + str(id(sys)), 'w').close()\n"
        "time.sleep(600)"
    )
    job = await clients.create(python(code), python(code))
    await clients.reach(job.name, "RUNNING")
    await until(lambda: len(processes_of(running.state.root)) >= 5, "two replicas, their children, a runner")
    everyone = processes_of(running.state.root)
    await clients.jobs.cancel_custom_job(name=job.name)
    assert await clients.state(job.name) in {"JOB_STATE_CANCELLING", "JOB_STATE_CANCELLED"}
    job = await clients.reach(job.name, "CANCELLED")
    assert job.error.code == 1 and job.end_time
    # The runner itself may need a moment to leave; its replicas are gone by now.
    await until(lambda: not any(p.is_running() for p in everyone), "every descendant to be gone")
    with pytest.raises(exceptions.FailedPrecondition):
        await clients.jobs.cancel_custom_job(name=job.name)


async def test_cancel_while_pending_is_at_once() -> None:
    async with emulator(provisioning_seconds=600) as (running, clients):
        job = await clients.create(python("pass"))
        await clients.reach(job.name, "PENDING")
        await clients.jobs.cancel_custom_job(name=job.name)
        job = await clients.get(job.name)
        assert job.state.name == "JOB_STATE_CANCELLED" and not job.start_time
        assert attempts(running, job.name) == []


async def test_over_quota_waits_in_line() -> None:
    limits = {"custom_model_training_cpus@us-central1": 4}
    async with emulator(quotas=limits) as (_, clients):
        first = await clients.create(python(FOREVER), name="first")
        await clients.reach(first.name, "RUNNING")
        second = await clients.create(python("pass"), name="second")
        third = await clients.create(python("pass"), name="third")
        spot = await clients.create(python("pass"), name="spot", spec={"scheduling": {"strategy": "SPOT"}})
        await clients.reach(spot.name, "SUCCEEDED")
        assert await clients.listed("state=JOB_STATE_QUEUED") == ["third", "second"]
        await clients.jobs.cancel_custom_job(name=second.name)
        assert await clients.state(second.name) == "JOB_STATE_CANCELLED"
        await clients.jobs.cancel_custom_job(name=first.name)
        await clients.reach(third.name, "SUCCEEDED")


async def test_a_spot_preemption_restarts_the_job(place: tuple[Emulator, Clients], tmp_path: Path) -> None:
    running, clients = place
    mark = tmp_path / "mark"
    code = (
        f"import pathlib, sys, time\nmark = pathlib.Path({str(mark)!r})\n"
        "if mark.exists(): sys.exit(0)\nmark.touch()\ntime.sleep(600)"
    )
    job = await clients.create(
        python(code), python(FOREVER), name="spotty", spec={"scheduling": {"strategy": "SPOT"}}
    )
    job = await clients.reach(job.name, "RUNNING")
    await until(mark.exists, "the first attempt to be under way")
    answer = await clients.admin(do="preempt", job="spotty", replica="workerpool1-0")
    assert answer == {"job": job.name, "replicas": ["workerpool1-0"]}
    done = await clients.reach(job.name, "SUCCEEDED")
    assert attempts(running, job.name) == [1, 2] and done.start_time == job.start_time


async def test_a_replica_that_the_job_does_not_have(clients: Clients) -> None:
    job = await clients.create(python(FOREVER))
    await clients.reach(job.name, "RUNNING")
    with pytest.raises(Exception, match="must be a replica of the job: workerpool0-0"):
        await clients.admin(do="preempt", job=number(job.name), replica="workerpool7-0")


async def test_spot_gives_up_after_six_restarts(place: tuple[Emulator, Clients]) -> None:
    running, clients = place
    job = await clients.create(python(FOREVER), spec={"scheduling": {"strategy": "SPOT"}})
    for attempt in range(1, 8):
        out = running.state.attempt(number(job.name), attempt).output("workerpool0-0", "stdout")
        await until(lambda out=out: out.exists() and out.read_text(), f"attempt {attempt}")  # type: ignore[misc]
        await clients.reach(job.name, "RUNNING")
        await clients.admin(do="preempt", job=job.name)
    job = await clients.reach(job.name, "FAILED")
    assert job.error.code == 8 and "STOCKOUT" in job.error.message and "6 times" in job.error.message
    assert attempts(running, job.name) == list(range(1, 8))


async def test_an_abort_restarts_the_job_three_times(place: tuple[Emulator, Clients]) -> None:
    running, clients = place
    job = await clients.create(python("import os; os.abort()"))
    job = await clients.reach(job.name, "FAILED")
    assert "non-zero status of 134 (SIGABRT)" in job.error.message and "3 times" in job.error.message
    assert attempts(running, job.name) == [1, 2, 3, 4]


async def test_retries_can_be_disabled(place: tuple[Emulator, Clients]) -> None:
    running, clients = place
    job = await clients.create(
        python("import os; os.abort()"), spec={"scheduling": {"disable_retries": True}}
    )
    await clients.reach(job.name, "FAILED")
    assert attempts(running, job.name) == [1]


async def test_a_timeout_fails_the_job(clients: Clients) -> None:
    job = await clients.create(python(FOREVER), spec={"scheduling": {"timeout": {"seconds": 1}}})
    job = await clients.reach(job.name, "FAILED")
    assert job.error.code == 4 and "timeout of 1 s" in job.error.message


async def test_a_runner_killed_with_its_parent_never_leaves_its_job_running(
    place: tuple[Emulator, Clients],
) -> None:
    running, clients = place
    job = await clients.create(python(FOREVER))
    await clients.reach(job.name, "RUNNING")
    found = processes_of(running.state.root)
    for module in ("reaper", "attempt"):
        next(p for p in found if f"tui.emulator.runner.{module}" in asked(p.cmdline, [])).kill()
    job = await clients.reach(job.name, "FAILED")
    assert job.error.code == 13 and "died" in job.error.message
    assert await until(lambda: not processes_of(running.state.root), "its replicas to be gone")


# Seconds: two servers start one after the other.
async def test_a_job_outlives_its_server_and_keeps_its_exit_code(tmp_path: Path) -> None:
    release = tmp_path / "release"
    code = f"import pathlib, sys, time\nwhile not pathlib.Path({str(release)!r}).exists(): time.sleep(0.05)\n"
    with state_dir() as state:
        state.prepare()
        state.config.write_text("provisioning_seconds: 0")
        async with served(state, signal.SIGKILL) as clients:
            early = await clients.create(python(code + "sys.exit(3)"), name="ends while nobody looks")
            late = await clients.create(python(FOREVER), python(FOREVER), name="goes on")
            for job in (early, late):
                await clients.reach(job.name, "RUNNING")
        before = {p.pid for p in processes_of(state.root)}
        keepers = [
            p for p in processes_of(state.root) if "tui.emulator.runner.attempt" in asked(p.cmdline, [])
        ]
        release.touch()
        await until(lambda: sum(p.is_running() for p in keepers) == 1, "the first job's runner to leave")
        async with served(state) as clients:
            ended = await clients.reach(early.name, "FAILED")
            assert "non-zero status of 3." in ended.error.message
            assert await clients.state(late.name) == "JOB_STATE_RUNNING"
            assert {p.pid for p in processes_of(state.root)} <= before, "nothing was started again"
            await clients.jobs.cancel_custom_job(name=late.name)
            await clients.reach(late.name, "CANCELLED")
        await until(lambda: not processes_of(state.root), "no process to be left")


async def test_a_pending_job_starts_after_a_restart_of_the_server(tmp_path: Path) -> None:
    with state_dir() as state:
        state.prepare()
        state.config.write_text("provisioning_seconds: 600")
        async with served(state, signal.SIGKILL) as clients:
            job = await clients.create(python("pass"))
            await clients.reach(job.name, "PENDING")
        state.config.write_text("provisioning_seconds: 0")
        async with served(state) as clients:
            await clients.reach(job.name, "SUCCEEDED")


async def test_many_jobs_at_once_all_end(clients: Clients) -> None:
    made = await asyncio.gather(*(clients.create(python("pass"), name=f"j{i}") for i in range(8)))
    for job in made:
        await clients.reach(job.name, "SUCCEEDED")
    assert (await clients.admin(do="status"))["jobs"] == {"SUCCEEDED": 8}


async def test_maintenance_starts_an_ordinary_job_again(place: tuple[Emulator, Clients]) -> None:
    running, clients = place
    job = await clients.create(python(FOREVER))
    for attempt in (1, 2):
        out = running.state.attempt(number(job.name), attempt).output("workerpool0-0", "stdout")
        await until(lambda out=out: out.exists() and out.read_text(), f"attempt {attempt}")  # type: ignore[misc]
        await clients.reach(job.name, "RUNNING")
        if attempt == 1:
            await clients.admin(do="preempt", job=job.name)
    await clients.jobs.cancel_custom_job(name=job.name)
    await clients.reach(job.name, "CANCELLED")
