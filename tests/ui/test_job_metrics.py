"""The plots by keys: closer and back, earlier and later, and every line's value under the crosshair."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from textual.widgets import Static

from tests.ui.double import console
from tests.ui.job_double import JobBackend, line, step
from tests.ui.job_metrics_support import titles
from tests.ui.job_screen_support import backend_of, opened, tab
from tests.ui.job_snapshots_support import TABS, USUAL, ready_screen
from tests.ui.jobs_screen_support import until
from tui.config.settings import Settings
from tui.screens.job.metrics import MetricsPane
from tui.screens.job.overview import OverviewPane
from tui.store.job.feed import JobFeed
from tui.widgets.plot.chart import Chart


async def test_zoom_pan_and_back(tmp_path: Path) -> None:
    async with opened(backend_of(), tmp_path, size=(160, 50)) as (screen, pilot):
        pane = await tab(screen, pilot, MetricsPane)
        await until(pilot, lambda: "CPU" in titles(pane), "the charts")
        assert "all of it" in pane.status().plain
        full = pane._full()
        await pilot.press("plus")
        low, high = pane.view.window(full)
        assert high == full[1] and high - low == pytest.approx((full[1] - full[0]) / 2)
        assert "last " in pane.status().plain
        await pilot.press("plus", "less_than_sign")
        earlier = pane.view.window(full)
        assert earlier[1] < full[1] and " to " in pane.status().plain
        chart = next(c for c in pane.query(Chart) if c.format.title == "CPU")
        assert chart.format.x_view.window == earlier
        await pilot.press("greater_than_sign", "greater_than_sign")
        assert pane.view.end is None
        await pilot.press("minus", "minus")
        assert pane.view.span is None
        await pilot.press("plus", "0")
        assert pane.view.span is None
        # A key that has nothing to move says so.
        await pilot.press("minus")
        (said,) = screen.app._notifications
        assert said.message.endswith("The complete time span is already shown.")


async def test_the_crosshair_reads_every_line_over_time_and_by_step(tmp_path: Path) -> None:
    async with opened(backend_of(), tmp_path, size=(160, 50)) as (screen, pilot):
        pane = await tab(screen, pilot, MetricsPane)
        await until(pilot, lambda: "CPU" in titles(pane), "the charts")
        newest = titles(pane)
        assert " at " not in newest["CPU"]
        await pilot.press("h", "h", "h")
        cross = pane.view.cross
        assert cross is not None
        feed = pane.feed
        assert isinstance(feed, JobFeed)
        start = pane._start()
        for series in feed.series.of("cpu/utilization"):
            near = min(series.points, key=lambda p: abs((p[0] - start).total_seconds() - cross))
            assert f"{near[1] * 100:.0f}%" in titles(pane)["CPU"]
        said = [s for s in feed.samples() if (s.timestamp - start).total_seconds() <= cross]
        assert f"at {said[-1].step:,}" in titles(pane)["Loss"], "by step it stands at that moment's step"
        await pilot.press("escape")
        assert pane.view.cross is None and titles(pane) == newest
        await pilot.press("plus", "escape")
        assert pane.view.span is None
        assert pane.is_attached, "only then does escape leave"


def went_back() -> JobBackend:
    """A job that came to step 40, and went back to step 21."""
    backend = backend_of(log=False)
    backend.say(*(step(10 + n * 2, n) for n in range(1, 41)), *(step(120 + n * 2, n) for n in range(21, 31)))
    return backend


async def test_a_run_that_went_back_draws_no_zigzag(tmp_path: Path) -> None:
    async with opened(went_back(), tmp_path, size=(120, 50)) as (screen, pilot):
        pane = await tab(screen, pilot, MetricsPane)
        await until(pilot, lambda: "Loss" in titles(pane), "the charts")
        loss = next(chart for chart in pane.query(Chart) if chart.format.title == "Loss")
        await until(pilot, lambda: len(loss._lines) == 2, "what was undone")
        kept, undone = loss._lines
        assert kept.x == tuple(map(float, range(1, 31))) and not kept.faint
        assert undone.x == tuple(map(float, range(21, 41))) and undone.faint
        assert re.fullmatch(r"Loss [\d.]+   ━ undone", titles(pane)["Loss"])
        await pilot.press("h")
        assert "at 30" in titles(pane)["Loss"], "the crosshair stands where the run is, not where it was"
        await pilot.press("escape", "t")
        (over_time,) = loss._lines
        assert list(over_time.x) == sorted(over_time.x) and len(over_time.x) == 50
        overview = await tab(screen, pilot, OverviewPane)
        words = str(overview.query_one("#facts", Static).content)
        assert "went back" in words and "from step 40 to 21" in words


async def test_every_number_of_another_trainer_has_a_chart(tmp_path: Path) -> None:
    backend = backend_of(log=False)
    backend.say(*(
        line(10 + n, f"step: {n}/400, loss: {3 - n / 100:.2f}, grad_norm: 0.8{n}, lr: 1e-4, 3.5 samples/s")
        for n in range(1, 10)
    ))  # fmt: skip
    async with opened(backend, tmp_path, size=(120, 50)) as (screen, pilot):
        pane = await tab(screen, pilot, MetricsPane)
        await until(pilot, lambda: "Grad norm" in titles(pane), "the charts")
        found = titles(pane)
        assert found["Loss"] == "Loss 2.91" and found["Grad norm"] == "Grad norm 0.89"
        assert found["Throughput"] == "Throughput samples/s 3.5" and found["Learning rate"].endswith("0.0001")
        assert screen.feed.progress.step == 9 and screen.feed.progress.total_steps == 400
        overview = await tab(screen, pilot, OverviewPane)
        words = str(overview.query_one("#facts", Static).content)
        assert "9/400" in words and "3.5 samples/s" in words


async def test_what_was_undone_in_ascii(tmp_path: Path) -> None:
    async with opened(went_back(), tmp_path, size=(120, 50), settings=Settings(ascii=True)) as (
        screen,
        pilot,
    ):
        pane = await tab(screen, pilot, MetricsPane)
        await until(pilot, lambda: ". undone" in titles(pane).get("Loss", ""), "the charts")
        loss = next(chart for chart in pane.query(Chart) if chart.format.title == "Loss")
        rows = str(loss.query_one(".chart-text", Static).content).splitlines()[:-1]
        marks = "".join(row.partition("|")[2] for row in rows)
        assert "*" in marks and "." in marks and marks.isascii()


def test_zoomed_with_a_crosshair(tmp_path: Path, snap_compare: Any) -> None:
    backend = backend_of()
    keys = (*TABS["metrics"], "plus", "h", "h", "h", "h", "h", "h")
    app = console(backend, tmp_path, settings=Settings(theme="vxtui-dark"))
    ready: Callable[..., Any] = partial(ready_screen, app=app, backend=backend, keys=keys, fail=None)
    assert snap_compare(app, terminal_size=USUAL, run_before=ready)
