"""What happened: in this run, and what earlier ones and other programs did, from the audit file."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from tests.ui.double import NOON, Clock, MemoryBackend, fleet, job
from tests.ui.jobs_screen_support import lines, opened, painted, said, table, until
from tui.domain.core.states import JobState
from tui.store.journal import TAIL, Journal


def line(minutes: float, result: str, **more: str) -> str:
    """An operation on the first job, so many minutes before noon."""
    at = (NOON - timedelta(minutes=minutes)).isoformat()
    target = fleet()[0].name
    said = {"time": at, "context": "test", "action": "job.cancel", "target": target, "result": result}
    return json.dumps(said | more)


def audited(path: Path) -> str:
    """A file of two actions, a question, a line of another program and half a line."""
    said = [
        line(1500, "asked"),
        line(1499, "failed", code="UNAVAILABLE", message="[red]no answer\u2028"),
        '{"time": 7}',
    ]
    path.write_text("\n".join([*said, "not json", line(90, "done"), '{"time": "20']))
    return fleet()[0].name


async def test_what_was_done_before_this_run_is_there(tmp_path: Path) -> None:
    target = audited(tmp_path / "audit.jsonl")
    async with opened(MemoryBackend(fleet()), tmp_path) as (app, pilot):
        went: list[str] = []
        app.open_job = went.append  # type: ignore[method-assign, assignment]
        await pilot.press("6")
        await until(pilot, lambda: "2 events" in lines(app), "the earlier events")
        rows = painted(app)
        assert "cancel arr-coc-4x8-a100 done, in test" in rows[1] and "20 Nov" not in rows[1]
        assert "failed, in test: UNAVAILABLE: [red]no answer" in rows[2] and "20 Nov" in rows[2]
        app.journal.add("console", "something new")
        await until(pilot, lambda: len(table(app).keys) == 3, "what is new, on top")
        assert "something new" in painted(app)[1]
        await pilot.press("G", "enter")
        assert went == [target]


async def test_what_other_programs_do_meanwhile_comes_in(tmp_path: Path) -> None:
    path, backend = tmp_path / "audit.jsonl", MemoryBackend(fleet())
    async with opened(backend, tmp_path) as (app, pilot):
        await pilot.press("6")
        await until(pilot, lambda: "0 events" in lines(app), "the empty list")
        path.write_text(line(10, "asked") + "\n" + line(9, "done") + "\n" + line(8, "failed")[:40])
        await until(pilot, lambda: "1 event" in lines(app), "the operation of a verb")
        with path.open("a") as file:
            file.write(line(8, "failed")[40:] + "\n")
        await until(pilot, lambda: "2 events" in lines(app), "the line that was half written")
        ops = app.operations.jobs()
        assert ops is not None
        await ops.cancel(backend.stored[fleet()[2].name])
        await until(pilot, lambda: "3 events" in lines(app), "what this console does")
        with path.open("a") as file:
            file.write(line(-1, "done") + "\n")
        await until(pilot, lambda: "4 events" in lines(app), "the next one: its own is there once")
        assert "done, in test" in painted(app)[1]


async def test_jobs_that_end_are_said_to_have_done_so(tmp_path: Path) -> None:
    backend, clock = MemoryBackend(fleet()), Clock()
    async with opened(backend, tmp_path, clock=clock) as (app, pilot):
        await until(pilot, lambda: app.store.read_at is not None, "the first reading")
        clock.on(seconds=5)
        quick = replace(job(300, "tp-quick", JobState.FAILED), end_time=clock())
        backend.stored[quick.name] = quick
        backend.change(fleet()[0].name, state=JobState.SUCCEEDED, end_time=clock())
        backend.change(fleet()[1].name, state=JobState.CANCELLED, end_time=clock())
        app.connection.again()
        await until(pilot, lambda: len(app.journal.events) >= 3, "the events")
        found = {event.text for event in app.journal.events if event.kind == "state"}
        assert found == {
            "tp-quick failed", "arr-coc-4x8-a100 succeeded", "llm-7b-fsdp was cancelled",
        }  # fmt: skip
        assert "tp-quick failed after" in said(app)


def test_the_end_of_a_long_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    audited(path)
    end = path.read_text()
    path.write_text(
        "x" * 50 + "\n" + "\n".join(['{"time": "2026-01-01T00:00:00+00:00"}'] * 4000) + "\n" + end
    )
    assert path.stat().st_size > TAIL
    journal = Journal(path, Clock())
    assert [event.kind for event in journal.read_audit()] == ["error", "action"]
    assert journal.read_audit() == [] == Journal(tmp_path / "none", Clock()).read_audit()
    path.write_text(line(3, "done") + "\n")
    assert len(journal.read_audit()) == 1, "another file of that name"


async def test_events_are_filtered_and_name_no_raw_resource(tmp_path: Path) -> None:
    gone = "projects/p/locations/us-central1/customJobs/4711"
    (tmp_path / "audit.jsonl").write_text(line(10, "done") + "\n" + line(9, "done", target=gone) + "\n")
    async with opened(MemoryBackend(fleet()), tmp_path) as (app, pilot):
        await pilot.press("6")
        await until(pilot, lambda: len(table(app).keys) == 2, "the events")
        assert not any("projects/" in row for row in painted(app)) and "cancel 4711 done" in painted(app)[1]
        await pilot.press("slash", *"arr-coc", "enter")
        assert len(table(app).keys) == 1 and "1 of 2" in lines(app) and "arr-coc-4x8-a100" in painted(app)[1]
        await pilot.press("escape")
        assert len(table(app).keys) == 2
