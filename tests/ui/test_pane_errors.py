"""An exception in a handler, a timer, a worker or the render of a pane is its error; the console goes on."""

from __future__ import annotations

import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from textual import events
from textual.widget import Widget

from tests.ui.job_screen_support import backend_of, header, opened, tab, text_of
from tests.ui.jobs_screen_support import until
from tests.waiting import until as until_beside
from tui.screens.containment import ERROR_ID
from tui.screens.job.events import EventsPane
from tui.screens.job.logs import LogsPane
from tui.screens.job.metrics import MetricsPane
from tui.screens.job.overview import OverviewPane
from tui.screens.job.pane import JobPane
from tui.screens.job.replicas import ReplicasPane
from tui.screens.job.spec import SpecPane
from tui.screens.workers import background

PANES = [OverviewPane, LogsPane, ReplicasPane, MetricsPane, EventsPane, SpecPane]
CRASH_NAME = "crash.log"


class Defect(Exception):
    """A defect of a pane."""


@pytest.fixture(autouse=True)
def _no_pane_fails() -> None:
    """In place of the check of every other test: here panes fail on purpose."""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("VXTUI_STATE_DIR", str(tmp_path / "state"))
    return tmp_path / "state" / CRASH_NAME


def mode_of(path: Path) -> int:
    """The permissions of the file with the details, which it takes with it."""
    assert "Defect" in path.read_text()
    mode = stat.S_IMODE(path.stat().st_mode)
    path.unlink()
    return mode


def fails(self: Any, *_: Any, **__: Any) -> Any:
    raise Defect("a figure of [bold] \x1b[31mtext")


def in_handler(pane: JobPane, patch: pytest.MonkeyPatch) -> None:
    """A message of a widget of the pane, which Textual's loop handles."""
    widget = next(child for child in pane.query("*") if child.display)
    patch.setattr(type(widget), "_on_message_defect", fails, raising=False)
    patch.setattr(type(widget), "_on_focus", fails, raising=False)
    widget.post_message(events.Focus())


def in_show(pane: JobPane, patch: pytest.MonkeyPatch) -> None:
    """What the screen calls when the feed has changed."""
    patch.setattr(type(pane), "show", fails)
    pane.console.call_later(pane.screen._changed, type(pane).NEEDS)  # type: ignore[attr-defined]


def in_tick(pane: JobPane, patch: pytest.MonkeyPatch) -> None:
    """What a timer calls."""
    patch.setattr(type(pane), "tick", fails)


def in_render(pane: JobPane, patch: pytest.MonkeyPatch) -> None:
    """What the compositor calls."""
    shown = [child for child in pane.query("*") if child.display and child.region.area and not child.children]
    broken = type("Broken", (type(shown[0]),), {"render_lines": fails, "render_line": fails, "render": fails})
    shown[0].__class__ = broken
    shown[0].refresh()


@pytest.mark.parametrize("pane_type", PANES, ids=lambda pane: pane.TITLE.lower())
async def test_an_exception_in_a_pane_is_its_error_and_ctrl_r_tries_again(
    tmp_path: Path, place: Path, pane_type: type[JobPane]
) -> None:
    ways: list[Callable[[JobPane, pytest.MonkeyPatch], None]] = [in_handler, in_show, in_tick, in_render]
    async with opened(backend_of(), tmp_path) as (screen, pilot):
        await tab(screen, pilot, pane_type)
        pane = screen.pane
        for way in ways:
            with pytest.MonkeyPatch.context() as patch:
                before = {widget: widget.__class__ for widget in pane.query("*")}
                way(pane, patch)
                # Textual's pilot refreshes a screen in the task of the test, where nothing contains failures.
                await until_beside(lambda: pane.boundary.failed, way.__name__)
                await pilot.pause()
                text = text_of(screen, f"#{ERROR_ID}")
                assert "Defect: a figure of [bold] " in text and "ctrl+r tries again" in text, text
                assert "\x1b" not in text and str(place) in text.replace("\n", "")
                assert mode_of(place) == 0o600
                for widget, kind in before.items():
                    widget.__class__ = kind
            assert screen.is_current and "local-2node" in header(screen)
            await pilot.press("ctrl+r")
            await until(pilot, lambda: not pane.boundary.failed, f"{way.__name__}, again")
        other = OverviewPane if pane_type is not OverviewPane else LogsPane
        await tab(screen, pilot, other)
        assert isinstance(screen.pane, other) and not screen.pane.boundary.failed


@pytest.mark.parametrize("pane_type", PANES, ids=lambda pane: pane.TITLE.lower())
async def test_an_exception_in_a_worker_of_a_pane_is_its_error(
    tmp_path: Path, pane_type: type[JobPane]
) -> None:
    async def work() -> None:
        raise Defect("in the background")

    async with opened(backend_of(), tmp_path) as (screen, pilot):
        await tab(screen, pilot, pane_type)
        background(screen.pane, work, "work")
        await until(pilot, lambda: screen.pane.boundary.failed, "the error")
        await pilot.pause()
        assert "Defect: in the background" in text_of(screen, f"#{ERROR_ID}") and screen.is_current


async def test_an_exception_in_a_list_leaves_the_console_and_its_other_lists(tmp_path: Path) -> None:
    async with opened(backend_of(), tmp_path) as (screen, pilot):
        app = screen.console
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is not screen, "the list")
        jobs: Any = app.screen
        widget: Widget = jobs.table
        original = widget.__class__
        widget.__class__ = type("Broken", (original,), {"render_lines": fails})
        widget.refresh()
        await until_beside(lambda: jobs.boundary.failed, "the error")
        widget.__class__ = original
        await pilot.press("ctrl+r")
        await until(pilot, lambda: not jobs.boundary.failed, "the list again")
