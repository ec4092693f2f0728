"""The mouse where there is more than a key: tabs, breadcrumb, a column's title, a row, a plot."""

from __future__ import annotations

from pathlib import Path

from textual.geometry import Offset

from tests.ui.job_metrics_support import titles
from tests.ui.job_screen_support import backend_of, opened, tab
from tests.ui.jobs_screen_support import until
from tui.screens.job.metrics import MetricsPane
from tui.screens.job.replicas import ReplicasPane
from tui.screens.jobs.screen import JobsScreen
from tui.widgets.header_lines import HeaderLines
from tui.widgets.plot.chart import Chart


async def test_tabs_breadcrumb_rows_and_plots(tmp_path: Path) -> None:
    async with opened(backend_of(), tmp_path, size=(160, 50)) as (screen, pilot):
        lines = screen.query_one(HeaderLines).render().plain.splitlines()
        await pilot.click(HeaderLines, offset=(lines[1].index("Replicas") + 2, 1))
        await until(pilot, lambda: isinstance(screen.pane, ReplicasPane), "the tab")
        tree = screen.pane.tree_view  # type: ignore[attr-defined]
        await until(pilot, lambda: len(tree.keys) == 4, "the replicas")
        await pilot.click(tree, offset=(4, 2))
        assert tree.cursor == tree.keys[1]
        title = next(placed for placed in tree._placed if placed.column.key == "cpu")
        await pilot.click(tree, offset=(title.x + 1, 0))
        assert tree.sorted_by == "cpu"
        pane = await tab(screen, pilot, MetricsPane)
        await until(pilot, lambda: "CPU" in titles(pane), "the charts")
        await pilot.pause()
        loss = next(chart for chart in pane.query(Chart) if chart.format.title == "Loss")
        assert loss._plot is not None
        canvas = loss._plot.query_one("#plot").region
        await pilot.click(offset=Offset(canvas.x + canvas.width // 2, canvas.y + canvas.height // 2))
        await until(pilot, lambda: pane.view.cross is not None, "the crosshair")
        low, high = pane._full()
        assert low < (pane.view.cross or 0) < high and " at " in titles(pane)["Loss"]
        crumb = screen.query_one(HeaderLines).render().plain
        await pilot.click(HeaderLines, offset=(crumb.index("Jobs") + 1, 0))
        await until(pilot, lambda: isinstance(screen.app.screen, JobsScreen), "the list")
