"""What several tests share with test_job_metrics."""

from __future__ import annotations

from textual.widgets import Static

from tui.screens.job.metrics import MetricsPane
from tui.widgets.plot.chart import Chart


def titles(pane: MetricsPane) -> dict[str, str]:
    """The line above each chart, by what the chart is about."""
    return {
        chart.format.title: str(chart.query_one(".chart-title", Static).content)
        for chart in pane.query(Chart)
    }
