"""A chart is painted whenever its size becomes known, by whatever way."""

from __future__ import annotations

from textual.app import App
from textual.widgets import Static

from tests.ui.jobs_screen_support import until
from tui.widgets.plot.chart import Chart, ChartFormat, ChartLine


async def test_a_chart_whose_size_was_asked_for_before_its_layout_is_painted() -> None:
    """Textual then has the chart on its map already, and sends it no Resize."""
    app: App[None] = App()
    async with app.run_test(size=(80, 24)) as pilot:
        chart = Chart(ChartFormat("Loss"))
        with app.batch_update():
            app.screen.mount(chart)
            await chart._mounted_event.wait()
            chart.draw([ChartLine("", (1.0, 2.0), (3.0, 2.0), "red")])
            app.screen._compositor._full_map_invalidated = True
            assert chart.size
        title = chart.query_one(".chart-title", Static)
        await until(pilot, lambda: "Loss" in str(title.content), "the title", seconds=5)
