"""The charts of training steps: smoothed, by logarithm, with marks, beside another run, and their titles."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.widgets import Static

from tests.ui.double import job, pool
from tests.ui.job_double import line
from tests.ui.job_metrics_support import titles
from tests.ui.job_screen_support import backend_of, opened, tab
from tests.ui.jobs_screen_support import on_screen, until
from tui.screens.job.metrics import MetricsPane
from tui.screens.job.run_compare import smoothed
from tui.widgets.plot.chart import Chart, ChartLine


def chart_of(pane: MetricsPane, title: str) -> Chart:
    return next(chart for chart in pane.query(Chart) if chart.format.title == title)


def test_smoothing_keeps_a_flat_line_and_averages_a_wavering_one() -> None:
    flat = ChartLine("", (0.0, 1.0, 2.0), (5.0, 5.0, 5.0), "red")
    assert smoothed(flat, 0.9).y == pytest.approx((5.0, 5.0, 5.0))
    assert smoothed(flat, 0.0) is flat
    wavering = ChartLine("", tuple(map(float, range(40))), (0.0, 2.0) * 20, "red")
    assert all(0.8 < y < 1.2 for y in smoothed(wavering, 0.9).y[20:])


async def test_smoothing_log_axis_marks_and_a_visible_crosshair(tmp_path: Path) -> None:
    async with opened(backend_of(), tmp_path, size=(160, 50)) as (screen, pilot):
        pane = await tab(screen, pilot, MetricsPane)
        await until(pilot, lambda: "Loss" in titles(pane), "the charts")
        loss = chart_of(pane, "Loss")
        raw = loss._lines[0].y
        await until(pilot, lambda: loss.format.marks, "the checkpoint's mark")
        assert "▴ checkpoint" in pane.status().plain
        await pilot.press("a")
        assert "smoothed 0.6" in pane.status().plain and loss._lines[0].y != raw
        await pilot.press("a", "a", "a")
        assert loss._lines[0].y == raw
        await pilot.press("v")
        assert "log axis" in pane.status().plain and max(loss._drawn[-1].y) < 1 < max(raw)
        assert titles(pane)["Loss"] == f"Loss {raw[-1]:.4g}", "the figure itself is not a logarithm"
        await pilot.press("v", "h")
        assert pane.view.cross == pane._full()[1], "it starts at the newest"
        for chart in pane.query(Chart):
            cross, plot = chart.format.x_view.cross, chart._plot
            assert cross is not None and plot is not None and plot._x_max > cross, "and not on the frame"


async def test_the_mean_is_drawn_over_the_extremes(tmp_path: Path) -> None:
    backend = backend_of(job(9, "big", groups=(pool(0, 1), pool(1, 63))))
    async with opened(backend, tmp_path, size=(120, 40)) as (screen, pilot):
        pane = await tab(screen, pilot, MetricsPane)
        await until(pilot, lambda: "CPU" in titles(pane), "the charts")
        assert chart_of(pane, "CPU")._drawn[-1].name == "mean of 64"


async def test_a_long_title_keeps_its_figure(tmp_path: Path) -> None:
    backend = backend_of(log=False)
    name = "greatest_gradient_norm_of_any_rank_in_group"
    backend.say(*(line(10 + n, f"step: {n}/400, loss: 2.5, {name}: 0.8{n}") for n in range(1, 10)))
    async with opened(backend, tmp_path, size=(100, 40)) as (screen, pilot):
        pane = await tab(screen, pilot, MetricsPane)
        await until(pilot, lambda: any(title.startswith("Greatest") for title in titles(pane)), "the chart")
        chart = next(c for c in pane.query(Chart) if c.format.title.startswith("Greatest"))
        chart.styles.width = 24
        await pilot.pause()
        shown = str(chart.query_one(".chart-title", Static).content)
        assert shown.endswith(" 0.89") and "…" in shown and len(shown) <= 22


async def test_a_run_is_drawn_beside_another(tmp_path: Path) -> None:
    one, other = job(7, "this-one", age=12), job(8, "the-other", age=12)
    async with opened(backend_of(one, other), tmp_path, size=(160, 50)) as (screen, pilot):
        pane = await tab(screen, pilot, MetricsPane)
        await until(pilot, lambda: "Loss" in titles(pane), "the charts")
        await pilot.press("P")
        await until(pilot, lambda: "the-other" in on_screen(pane.console), "the choice")  # type: ignore[arg-type]
        await pilot.press("enter")
        await until(pilot, lambda: len(chart_of(pane, "Loss")._lines) == 2, "the other run")
        assert "this run" in titles(pane)["Loss"] and "the-other" in titles(pane)["Loss"]
        assert "beside the-other" in pane.status().plain
        await pilot.press("P")
        assert len(chart_of(pane, "Loss")._lines) == 1
