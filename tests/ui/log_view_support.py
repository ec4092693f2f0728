"""What several tests share with test_log_view."""

from __future__ import annotations

from tui.widgets.log.view import LogView


def rows(view: LogView) -> list[str]:
    return [view.render_line(y).text for y in range(view.size.height)]
