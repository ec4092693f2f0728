"""A job's log by keys, on a service in memory."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.events import AppBlur, AppFocus
from textual.widgets import Input

from tests.ui.job_double import at, event, line, step
from tests.ui.job_screen_support import backend_of, header, opened, tab, text_of
from tests.ui.jobs_screen_support import until
from tui.backends.interface import Unavailable
from tui.domain.core.log_entry import LogGap
from tui.screens.dialogs.message import MessageScreen
from tui.screens.dialogs.pick import PickScreen
from tui.screens.dialogs.prompt import PromptScreen
from tui.screens.job.logs import LogsPane
from tui.widgets.log.render import JsonForm, line_text


async def test_the_log_follows_new_lines_and_says_how_many_wait_below(tmp_path: Path) -> None:
    backend = backend_of()
    async with opened(backend, tmp_path) as (screen, pilot):
        pane = await tab(screen, pilot, LogsPane)
        view = pane.log_view
        assert "following" in text_of(pane, "#log-status")
        backend.say(step(500, 121))
        await until(pilot, lambda: line_text(view.cursor).startswith("step 121"), "the new line")
        await pilot.press("k")
        backend.say(*[step(501 + n, 122 + n) for n in range(30)])
        await until(pilot, lambda: view.below == 30, "lines below")
        await pilot.pause()
        assert "held, 30 below" in text_of(pane, "#log-status")
        await pilot.press("f")
        await pilot.pause()
        assert view.following and "following" in text_of(pane, "#log-status")
        await pilot.press("f")
        assert not view.following


async def test_search_counts_highlights_and_walks(tmp_path: Path) -> None:
    async with opened(backend_of(), tmp_path) as (screen, pilot):
        pane = await tab(screen, pilot, LogsPane)
        await pilot.press("slash", *"nccl", "enter")
        await pilot.pause()
        assert "/ nccl  1 of 1" in text_of(pane, "#log-status")
        assert line_text(pane.log_view.cursor).startswith("NCCL WARN")
        await pilot.press("slash", *"(", "enter")
        assert pane.log_view.views.pattern.text == "nccl", "a broken pattern changes nothing"
        await pilot.press("ampersand")
        assert len(pane.log_view.view) == 1
        await pilot.press("escape")
        assert len(pane.log_view.view) > 1
        await pilot.press("escape")
        assert pane.log_view.views.pattern is None and screen.is_current
        await pilot.press("e")
        assert "RuntimeError" in line_text(pane.log_view.cursor)


async def test_severity_replica_and_the_way_back_to_all(tmp_path: Path) -> None:
    async with opened(backend_of(), tmp_path) as (screen, pilot):
        pane = await tab(screen, pilot, LogsPane)
        await pilot.press("s", "s")
        await pilot.pause()
        assert "≥ warning" in text_of(pane, "#log-status") and len(pane.log_view.view) == 2
        await pilot.press("r")
        await until(pilot, lambda: isinstance(screen.app.screen, PickScreen), "the choice")
        await pilot.press(*"pool0", "enter")
        await until(pilot, lambda: screen.is_current, "back")
        await pilot.pause()
        assert "No line matches." in text_of(pane, "Notice")
        await pilot.press("escape")
        await pilot.pause()
        assert "all replicas" in text_of(pane, "#log-status") and len(pane.log_view.view) > 60


async def test_a_line_is_shown_whole_copied_and_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with opened(backend_of(), tmp_path) as (screen, pilot):
        pane = await tab(screen, pilot, LogsPane)
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(screen.app.screen, MessageScreen), "the whole line")
        await pilot.press("escape", "space", "k", "k", "y")
        copied = screen.app.clipboard
        assert len(copied.splitlines()) == 3 and "workerpool0-0 INFO step 119/400" in copied
        assert not pane.log_view.marked
        await pilot.press("ctrl+s")
        await until(pilot, lambda: isinstance(screen.app.screen, PromptScreen), "the question")
        await pilot.press("enter")
        target = tmp_path / "local-2node.log"
        await until(pilot, target.exists, "the file")
        await until(pilot, lambda: target.read_text().count("\n") == len(pane.log_view.view), "all lines")
        await pilot.press("ctrl+s")
        await until(pilot, lambda: isinstance(screen.app.screen, PromptScreen), "the question again")
        await pilot.press("enter")
        await pilot.pause()
        assert "already exists" in str(screen.app.screen.query_one("#problem").render())


async def test_columns_wrap_and_json(tmp_path: Path) -> None:
    async with opened(backend_of(), tmp_path) as (screen, pilot):
        pane = await tab(screen, pilot, LogsPane)
        paint = pane.log_view.paint
        await pilot.press("w", "J", "t", "z")
        await pilot.pause()
        assert paint.wrapped and paint.json is JsonForm.RAW and not paint.show_replica
        assert '"kind": "step"' in pane.log_view.render_line(pane.log_view.size.height - 3).text + "".join(
            pane.log_view.render_line(y).text for y in range(pane.log_view.size.height)
        )


async def test_a_log_that_is_polled_and_a_hole_that_was_filled_are_said(tmp_path: Path) -> None:
    backend = backend_of()
    async with opened(backend, tmp_path) as (screen, pilot):
        pane = await tab(screen, pilot, LogsPane)
        filled = LogGap(at(470), 0, "reconnected", at(480), filled=38)
        backend.say(gaps=[filled], note="read every 5 s instead of streamed: [all] taken")
        await until(pilot, lambda: "of streamed: [all] taken" in text_of(pane, "#log-status"), "the note")
        whole = "reconnected: 38 lines fetched later, at their time; nothing missing"
        height = pane.log_view.size.height
        await until(
            pilot,
            lambda: any(whole in pane.log_view.render_line(y).text for y in range(height)),
            "the hole's line",
        )
        backend.say(note="")
        await until(pilot, lambda: "of streamed" not in text_of(pane, "#log-status"), "a stream again")


async def test_gaps_late_lines_and_a_broken_log_are_said(tmp_path: Path) -> None:
    backend = backend_of()
    async with opened(backend, tmp_path) as (screen, pilot):
        pane = await tab(screen, pilot, LogsPane)
        backend.say(line(455, "late"), gaps=[LogGap(at(470), 38, "rate limit")])
        await until(pilot, lambda: len(screen.feed.buffer) == len(backend.entries) + 1, "both")
        await pilot.pause()
        shown = "\n".join(pane.log_view.render_line(y).text for y in range(pane.log_view.size.height))
        assert "38 lines not delivered: rate limit" in shown
        backend.log_error = Unavailable("the log service does not answer", fix="It is tried again.")
        backend.say()
        await until(pilot, lambda: "logs not reached" in text_of(pane, "Notice"), "the notice")
        await until(pilot, lambda: "logs not reached" in header(screen), "the header")
        await pilot.press("W")
        await until(pilot, lambda: isinstance(screen.app.screen, MessageScreen), "why")
        await pilot.press("escape")
        backend.log_error = None
        await pilot.press("ctrl+r")
        await until(pilot, lambda: "not reached" not in header(screen), "recovery")


async def test_a_search_that_is_typed_goes_on_after_the_terminal_had_no_focus(tmp_path: Path) -> None:
    async with opened(backend_of(), tmp_path) as (screen, pilot):
        pane = await tab(screen, pilot, LogsPane)
        await pilot.press("slash", *"ste")
        line = screen.focused
        assert isinstance(line, Input)
        screen.app.post_message(AppBlur())
        await until(pilot, lambda: screen.focused is None, "the blur")
        screen._tick()
        await pilot.pause()
        assert screen.focused is None, "nobody else takes the keys meanwhile"
        screen.app.post_message(AppFocus())
        await until(pilot, lambda: screen.focused is line, "the line to have the keys again")
        await pilot.press("p")
        assert line.value == "step" and not screen.paused
        await pilot.press("escape")
        assert screen.focused is pane.log_view


async def test_what_the_trainers_guard_did_is_an_event(tmp_path: Path) -> None:
    backend = backend_of()
    said = event(450, "guard", "loss 99: back to step 21, and on with the batches that follow", step=21)
    backend.say(said)
    async with opened(backend, tmp_path) as (screen, pilot):
        await until(pilot, lambda: len(screen.feed.events.ordered(None)) > 3, "the events")
        assert any(
            e.kind == "guard" and "back to step 21" in e.text for e in screen.feed.events.ordered(None)
        )


async def test_a_choice_that_nothing_matches_says_so(tmp_path: Path) -> None:
    async with opened(backend_of(), tmp_path) as (screen, pilot):
        await tab(screen, pilot, LogsPane)
        await pilot.press("r")
        pick = screen.app.screen
        assert isinstance(pick, PickScreen) and not pick.query_one("#none").display
        await pilot.press(*"zzz", "enter")
        assert screen.app.screen is pick and pick.query_one("#none").display
        assert not pick.query_one("#options").display
        await pilot.press("backspace", "backspace", "backspace", "down", "enter")
        assert screen.app.screen is screen
