"""What happened: in this run, and what was done in earlier ones, from the audit file."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

from tests.ui.double import NOON, Clock, MemoryBackend, fleet
from tests.ui.test_jobs_screen import lines, opened, painted, table, until
from tui.store.journal import TAIL, Journal


def audited(path: Path) -> str:
    """A file of two actions, a question, a line of another program and half a line."""
    target = fleet()[0].name

    def line(minutes: float, result: str, **more: str) -> str:
        at = (NOON - timedelta(minutes=minutes)).isoformat()
        said = {"time": at, "context": "test", "action": "job.cancel", "target": target, "result": result}
        return json.dumps(said | more)

    said = [
        line(1500, "asked"),
        line(1499, "failed", code="UNAVAILABLE", message="[red]no answer"),
        '{"time": 7}',
    ]
    path.write_text("\n".join([*said, "not json", line(90, "done"), line(-5, "done"), '{"time": "20']))
    return target


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


def test_the_end_of_a_long_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    audited(path)
    end = path.read_text()
    path.write_text(
        "x" * 50 + "\n" + "\n".join(['{"time": "2026-01-01T00:00:00+00:00"}'] * 4000) + "\n" + end
    )
    assert path.stat().st_size > TAIL
    assert [event.kind for event in Journal(path, Clock()).earlier()] == ["error", "action"]
    assert not Journal(tmp_path / "none", Clock()).earlier()
