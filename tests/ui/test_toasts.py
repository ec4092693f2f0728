"""Toasts: one line each, merged by topic, at most three, and never over the header or the footer."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets._toast import Toast

from tests.ui.double import NOON, MemoryBackend, job
from tests.ui.jobs_screen_support import again, opened, until
from tests.ui.many_jobs_support import toasts
from tui.app import VxtuiApp
from tui.domain.core.job import JobError
from tui.domain.core.states import JobState
from tui.screens.dialogs.confirm import ConfirmScreen
from tui.widgets.header_lines import HeaderLines
from tui.widgets.key_footer import KeyFooter

SIX = [job(number, f"sweep-{number}", age=30 + number) for number in range(6)]
SIZES = [(80, 24), (120, 40), (200, 60)]


def boxes(app: VxtuiApp) -> list[Toast]:
    """The toasts on the screen."""
    return [toast for toast in app.screen.query(Toast) if toast.region.size]


async def assert_whispers(app: VxtuiApp, pilot: Pilot[Any]) -> None:
    """One line each, right-aligned above the footer, at most three."""
    await until(pilot, lambda: boxes(app), "a toast on the screen")
    header, footer = app.screen.query_one(HeaderLines).region, app.screen.query_one(KeyFooter).region
    found = boxes(app)
    assert 1 <= len(found) <= 3
    assert {toast.region.height for toast in found} == {1}
    assert min(toast.region.y for toast in found) >= header.bottom
    assert max(toast.region.bottom for toast in found) == footer.y
    assert {toast.region.right for toast in found} == {app.size.width - 1}


@pytest.mark.parametrize("size", SIZES, ids=str)
async def test_six_cancelled_jobs_are_one_toast_of_one_line(tmp_path: Path, size: tuple[int, int]) -> None:
    backend = MemoryBackend(SIX)
    async with opened(backend, tmp_path, size=size, notifications=True) as (app, pilot):
        await pilot.press("asterisk", "c")
        await until(pilot, lambda: isinstance(app.screen, ConfirmScreen), "the question")
        await pilot.press("y")
        await until(pilot, lambda: len(backend.cancelled) == 6, "the cancels")
        await until(pilot, lambda: "6 jobs cancelled" in " ".join(toasts(app)), "the message")
        assert [text.partition(":")[0] for text in toasts(app)] == ["6 jobs cancelled"]
        await assert_whispers(app, pilot)


async def test_jobs_that_end_one_after_another_are_counted_in_one_toast(tmp_path: Path) -> None:
    backend = MemoryBackend(SIX)
    async with opened(backend, tmp_path) as (app, pilot):
        for number in range(3):
            backend.change(SIX[number].name, state=JobState.SUCCEEDED, end_time=NOON)
            await again(app, pilot)
        assert toasts(app) == ["3 jobs succeeded: sweep-0, sweep-1, sweep-2"]


async def test_at_most_three_are_shown_and_an_error_outlives_news(tmp_path: Path) -> None:
    async with opened(MemoryBackend(SIX), tmp_path, size=(80, 24), notifications=True) as (app, pilot):
        app.notify("The bucket can't be read.", severity="error")
        for number in range(6):
            app.notify(f"News {number}")
        await pilot.pause()
        assert toasts(app) == ["✗ The bucket can't be read.", "News 4", "News 5"]
        await assert_whispers(app, pilot)


async def test_the_same_words_are_shown_once(tmp_path: Path) -> None:
    async with opened(MemoryBackend(SIX), tmp_path, notifications=True) as (app, pilot):
        for _ in range(4):
            app.notify("Not connected yet.", severity="warning")
        await pilot.pause()
        assert toasts(app) == ["! Not connected yet."] and len(boxes(app)) == 1


async def test_a_long_error_is_cut_to_one_line_and_the_events_have_the_whole(tmp_path: Path) -> None:
    first = SIX[0]
    why = (
        "The replica workerpool1-0 exited with status 137.\nIts memory was full. "
        + "Use a larger machine. " * 9
    )
    backend = MemoryBackend(SIX)
    async with opened(backend, tmp_path, size=(80, 24), notifications=True) as (app, pilot):
        backend.stored[first.name] = replace(
            first, state=JobState.FAILED, end_time=NOON, error=JobError(9, why)
        )
        await again(app, pilot)
        [text] = toasts(app)
        assert text.startswith("✗ sweep-0 failed after") and text.endswith("…  6 shows all")
        assert "\n" not in text
        await assert_whispers(app, pilot)
        whole = next(event.text for event in app.journal.events if "larger machine" in event.text)
        assert " ".join(why.split())[-60:] in whole


async def test_ctrl_c_names_the_key_that_quits_without_markup(tmp_path: Path) -> None:
    async with opened(MemoryBackend(SIX), tmp_path) as (app, pilot):
        await pilot.press("ctrl+c")
        await until(pilot, lambda: toasts(app), "the message")
        (text,) = (note.message for note in app._notifications)
        assert text == "ctrl+q quits; jobs keep running."
