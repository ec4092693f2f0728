"""Schedules as the unmodified client sees them: when runs start, and what becomes of missed ones."""

from __future__ import annotations

import contextlib
import json
import signal
import sqlite3
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from google.api_core import exceptions
from google.cloud.aiplatform_v1 import Schedule

from tests.waiting import until
from tests.wire.control import NEVER, NUMBERED, PARENT, served, state_dir
from tests.wire.pipelines import spec, task
from tests.wire.pipelines_support import SAY, SAYS
from tests.wire.schedules import IMPORT, Schedules, schedules

START = datetime(2027, 5, 3, 9, 30, tzinfo=UTC)
HOURLY = "0 * * * *"
WAITING = spec({"a": task("say", inputs={"text": "x"})}, {"say": SAYS}, {"say": SAY})
"""A pipeline that does not end where jobs stay QUEUED."""


def at(hour: float) -> datetime:
    return START.replace(hour=0, minute=0) + timedelta(hours=hour)


def ids(*hours: float) -> list[str]:
    return [f"nightly-{at(hour):%Y%m%d%H%M%S}" for hour in hours]


async def test_runs_start_when_they_are_due_and_carry_their_time() -> None:
    async with schedules(START) as found:
        made = await found.create("TZ=Asia/Kolkata 30 * * * *")
        assert made.state is Schedule.State.ACTIVE and made.next_run_time == at(10)
        assert abs(made.start_time - START) < timedelta(minutes=5) and not made.last_pause_time
        assert await found.runs(made.name) == []
        await found.set_clock(at(10) + timedelta(seconds=2))
        now = await found.started(made.name, 1)
        assert now.next_run_time == at(11)
        assert now.last_scheduled_run_response.run_response == "OK"
        assert now.last_scheduled_run_response.scheduled_run_time == at(10)
        (run,) = ids(10)
        job = await found.pipelines.reach(f"{PARENT}/pipelineJobs/{run}", "SUCCEEDED")
        assert (job.schedule_name, job.display_name) == (made.name, run)
        await found.set_clock(at(11) + timedelta(seconds=2))
        await found.started(made.name, 2)
        assert await found.runs(made.name) == ids(10, 11)
        deleted = await found.client.delete_schedule(name=made.name)
        await deleted.result()
        with pytest.raises(exceptions.NotFound):
            await found.get(made.name)
        assert await found.runs(made.name) == ids(10, 11)


async def test_it_is_completed_by_its_count_or_by_its_end() -> None:
    async with schedules(START) as found:
        counted = await found.create(HOURLY, id="counted", max_run_count=1)
        ends = await found.create(HOURLY, id="ends", end_time=at(10.5), start_time=at(9.8))
        await found.set_clock(at(10) + timedelta(seconds=2))
        done = await found.started(counted.name, 1)
        assert done.state is Schedule.State.COMPLETED and not done.next_run_time
        last = await found.started(ends.name, 1)
        assert last.state is Schedule.State.ACTIVE and not last.next_run_time
        await found.set_clock(at(11) + timedelta(seconds=2))

        async def completed() -> bool:
            return (await found.get(ends.name)).state is Schedule.State.COMPLETED

        await until(completed, "its end")
        assert await found.runs(ends.name) == [f"ends-{at(10):%Y%m%d%H%M%S}"]
        for refused in (found.client.pause_schedule, found.client.resume_schedule):
            with pytest.raises(exceptions.FailedPrecondition, match="is COMPLETED"):
                await refused(name=counted.name)
        with pytest.raises(exceptions.FailedPrecondition, match="ACTIVE or PAUSED"):
            await found.client.update_schedule(
                schedule={"name": counted.name, "max_run_count": 5}, update_mask={"paths": ["max_run_count"]}
            )


async def test_runs_missed_in_a_pause_are_left_out_or_caught_up() -> None:
    async with schedules(START) as found:
        one, two = await found.create(HOURLY, id="one"), await found.create(HOURLY, id="two")
        with pytest.raises(exceptions.FailedPrecondition, match="PAUSED to be resumed"):
            await found.client.resume_schedule(name=one.name)
        for each in (one, two):
            await found.client.pause_schedule(name=each.name)
        await found.set_clock(at(12.5))
        paused = await found.get(one.name)
        assert paused.state is Schedule.State.PAUSED and paused.last_pause_time < at(10)
        await found.client.resume_schedule(name=one.name)
        await found.client.resume_schedule(request={"name": two.name, "catch_up": True})
        caught = await found.started(two.name, 3)
        assert caught.catch_up and caught.next_run_time == at(13) and caught.last_resume_time >= at(12.5)
        assert await found.runs(two.name) == [f"two-{at(hour):%Y%m%d%H%M%S}" for hour in (10, 11, 12)]
        left = await found.get(one.name)
        assert (left.next_run_time, left.started_run_count, left.catch_up) == (at(13), 0, False)


async def test_a_run_that_is_late_is_missed_unless_the_schedule_catches_up() -> None:
    async with schedules(START) as found:
        made = await found.create(HOURLY)
        # The machine slept from half past nine on: of three runs the one of just now is started.
        await found.set_clock(at(12) + timedelta(seconds=2))
        await found.started(made.name, 1)
        assert await found.runs(made.name) == ids(12)


async def test_active_runs_are_limited_by_queueing_or_skipping() -> None:
    async with schedules(START, **NEVER) as found:
        skips = await found.create(HOURLY, WAITING, id="skips", max_concurrent_active_run_count=1)
        queues = await found.create(
            HOURLY, WAITING, id="queues", max_concurrent_active_run_count=1, allow_queueing=True
        )
        for hour in (10, 11):
            await found.set_clock(at(hour) + timedelta(seconds=2))
            await found.started(queues.name, 1)
            await found.started(skips.name, 1)

        async def skipped() -> Schedule | None:
            now = await found.get(skips.name)
            return now if now.next_run_time == at(12) else None

        now: Schedule = await until(skipped, "the skipped run")
        assert "1 runs are active" in now.last_scheduled_run_response.run_response
        assert now.last_scheduled_run_response.scheduled_run_time == at(11)
        assert (await found.get(queues.name)).next_run_time == at(11)
        (first,) = await found.runs(queues.name)
        await found.pipelines.client.cancel_pipeline_job(name=f"{PARENT}/pipelineJobs/{first}")
        later = await found.started(queues.name, 2)
        assert later.next_run_time == at(12)
        assert await found.runs(queues.name) == [f"queues-{at(hour):%Y%m%d%H%M%S}" for hour in (10, 11)]


async def test_an_update_plans_anew_and_skips_what_had_not_started() -> None:
    async with schedules(START) as found:
        made = await found.create(HOURLY)
        await found.client.pause_schedule(name=made.name)
        await found.set_clock(at(12.2))
        changed = {"name": made.name, "cron": "TZ=Europe/Berlin 30 14 * * *", "display_name": "ignored"}
        now = await found.client.update_schedule(
            schedule=changed, update_mask={"paths": ["cron", "started_run_count"]}
        )
        assert (now.cron, now.display_name, now.next_run_time) == (changed["cron"], "s", at(12.5))
        assert now.state is Schedule.State.PAUSED
        await found.client.resume_schedule(request={"name": made.name, "catch_up": True})
        await found.set_clock(at(12.5) + timedelta(seconds=2))
        await found.started(made.name, 1)
        assert await found.runs(made.name) == ids(12.5)

        async def update(paths: list[str], **fields: Any) -> None:
            await found.client.update_schedule(
                schedule={"name": made.name, **fields}, update_mask={"paths": paths}
            )

        for paths, says in (
            ([], "required"),
            (["name"], "name can't be changed"),
            (["cron"], "must not be unset"),
        ):
            with pytest.raises(exceptions.InvalidArgument, match=says):
                await update(paths)
        await update(["max_run_count"], max_run_count=1)
        # It has had its run.
        assert (await found.get(made.name)).state is Schedule.State.COMPLETED


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"cron": "0 25 * * *"}, "schedule.cron: '25' must be a valid hour"),
    ({"cron": "0 0 31 4 *"}, "schedule.cron"),
    ({"display_name": ""}, "display_name"),
    ({"max_concurrent_run_count": 0}, "max_concurrent_run_count"),
    ({"max_run_count": -1}, "max_run_count"),
    ({"end_time": at(1)}, "end_time: must be after start_time"),
    ({"end_time": at(9.9)}, "must be due between now and the schedule's end"),
    ({"id": "Upper_case"}, "pipeline_job_id"),
    ({"spec": {"schemaVersion": "1.0"}}, "schedule.create_pipeline_job_request.pipeline_job.pipeline_spec"),
    ({"create_pipeline_job_request": {"parent": "projects/q/locations/l"}}, "request.parent"),
    ({"create_pipeline_job_request": None}, "create_pipeline_job_request: is required"),
]


async def test_a_schedule_that_can_not_be_is_refused() -> None:
    async with schedules(START) as found:
        for fields, says in REFUSED:
            with pytest.raises(exceptions.InvalidArgument) as error:
                await found.create(**{"cron": HOURLY, **fields})
            assert says in str(error.value)


async def test_a_run_that_is_refused_is_told_of_and_the_next_one_starts() -> None:
    async with schedules(START) as found:
        template = found.running.state.buckets / "b" / "p.json"
        template.parent.mkdir(parents=True)
        template.write_text(json.dumps(IMPORT))
        made = await found.create(HOURLY, {}, template_uri="gs://b/p.json")
        template.unlink()
        await found.set_clock(at(10) + timedelta(seconds=2))

        async def refused() -> Schedule | None:
            now = await found.get(made.name)
            return now if now.next_run_time == at(11) else None

        now: Schedule = await until(refused, "the refused run")
        assert now.last_scheduled_run_response.run_response.startswith(
            "INVALID_ARGUMENT: pipeline_job.template"
        )
        assert now.started_run_count == 0
        template.write_text(json.dumps(IMPORT))
        await found.set_clock(at(11) + timedelta(seconds=2))
        await found.started(made.name, 1)
        assert await found.runs(made.name) == ids(11)


async def test_a_schedule_that_fails_stands_in_no_others_way(caplog: pytest.LogCaptureFixture) -> None:
    """Such as one whose time zone this machine does not know any more."""
    with state_dir() as state:
        async with schedules(START, state) as found:
            bad, good = await found.create(HOURLY, id="bad"), await found.create(HOURLY, id="good")
        with contextlib.closing(sqlite3.connect(state.database)) as db, db:
            row = (bad.name.replace(NUMBERED, PARENT),)
            (body,) = db.execute("SELECT body FROM resources WHERE name = ?", row).fetchone()
            stored = Schedule.pb().FromString(body)
            stored.cron = "TZ=Atlantis/Capital 0 * * * *"
            db.execute("UPDATE resources SET body = ? WHERE name = ?", (stored.SerializeToString(), *row))
        async with schedules(at(10) + timedelta(seconds=2), state) as found:
            await found.started(good.name, 1)
            await found.set_clock(at(11) + timedelta(seconds=2))
            await found.started(good.name, 2)
            told = [record for record in caplog.records if "Atlantis" in str(record.exc_info)]
            assert len(told) == 1 and await found.runs(bad.name) == []


async def test_lists_are_filtered_ordered_and_paged() -> None:
    async with schedules(START) as found:
        made = [
            await found.create(cron, display_name=name, **more)
            for name, cron, more in (
                ("a-1", "0 12 * * *", {}),
                ("a-2", "0 11 * * *", {"end_time": at(20)}),
                ("b-1", "0 10 * * *", {}),
            )
        ]
        await found.client.pause_schedule(name=made[2].name)

        async def names(filter: str = "", **more: Any) -> list[str]:
            request = {"parent": PARENT, "filter": filter, "page_size": 2, **more}
            return [each.display_name async for each in await found.client.list_schedules(request=request)]

        assert await names() == ["b-1", "a-2", "a-1"]
        assert await names(order_by="next_run_time") == ["b-1", "a-2", "a-1"]
        assert await names(order_by="end_time desc, create_time") == ["a-2", "a-1", "b-1"]
        assert await names('state="ACTIVE" AND display_name:"a-*"') == ["a-2", "a-1"]
        assert await names('end_time>"2021-05-18T00:00:00Z"') == ["a-2"]
        assert await names("NOT end_time:*") == ["b-1", "a-1"]
        assert await names("create_pipeline_job_request:*") == ["b-1", "a-2", "a-1"]
        assert await names(f'next_run_time<"{at(11.5).isoformat()}"') == ["b-1", "a-2"]
        for wrong in ({"order_by": "state"}, {"filter": "cron=x"}, {"filter": "labels.a=b"}):
            with pytest.raises(exceptions.InvalidArgument):
                await names(**wrong)


# Starts three emulators.
async def test_kills_of_the_emulator_neither_lose_nor_double_a_run() -> None:
    """It is killed while it catches up; each of the missed minutes has one run in the end."""
    with state_dir() as state:
        async with served(state, signal.SIGKILL) as clients:
            found = Schedules(clients)
            await found.set_clock(START)
            name = (await found.create("* * * * *")).name
            await found.client.pause_schedule(name=name)
            await found.set_clock(at(10.2) + timedelta(seconds=2))
            await found.client.resume_schedule(request={"name": name, "catch_up": True})
        async with served(state, signal.SIGKILL) as clients:
            found = Schedules(clients)
            await found.set_clock(at(10.2) + timedelta(seconds=2))

            async def some() -> bool:
                return (await found.get(name)).started_run_count >= 3

            # Long before the last: a test that waits for its CPU reads the count late.
            await until(some, "some runs", every=0.01)
        async with served(state) as clients:
            found = Schedules(clients)
            before = (await found.get(name)).started_run_count
            assert 3 <= before < 42 and len(await found.runs(name)) == before
            await found.set_clock(at(10.2) + timedelta(seconds=2))
            await found.started(name, 42)
            runs = await found.runs(name)
    minutes = [START + timedelta(minutes=each) for each in range(1, 43)]
    assert runs == [f"nightly-{each:%Y%m%d%H%M%S}" for each in minutes]
