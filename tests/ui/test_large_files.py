"""Large and odd files in the viewer: the work of a key does not grow with the file or the line.

Work is counted in calls of Python functions, which do not depend on what else the machine does.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from textual.pilot import Pilot
from textual.widgets import Static

from tests.ui.jobs_screen_support import until
from tests.ui.log_view_support import rows
from tui.config.settings import Settings
from tui.domain.core.text import plain
from tui.file_viewer import FileScreen, FileViewer
from tui.screens.dialogs.message import LONGEST, MessageScreen
from tui.store.job.file_feed import FileFeed
from tui.store.job.log_views import SCAN_FOR_KEY
from tui.store.log.text_file import LINE, TextFile
from tui.widgets.log.paint import SHOWN
from tui.widgets.log.render import line_text
from tui.widgets.log.view import LogView
from tui.widgets.long_lines import LongLines

MANY = 4 * SCAN_FOR_KEY


def calls(work: Callable[[], object]) -> int:
    """Python functions and steps of generators that it runs."""
    count = 0

    def note(_: FrameType, event: str, __: object) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


@asynccontextmanager
async def viewer(path: Path, data: bytes) -> AsyncIterator[tuple[LogView, Pilot[Any]]]:
    path.write_bytes(data)  # noqa: ASYNC240 - nothing else runs yet
    app = FileViewer(FileFeed(path), Settings())
    async with app.run_test(size=(80, 24)) as pilot:
        screen = app.screen
        assert isinstance(screen, FileScreen)
        view = screen.pane.log_view
        lines = data.count(b"\n") + (not data.endswith(b"\n"))
        await until(pilot, lambda: len(view.view) == lines, "the file is counted")
        yield view, pilot


def test_a_run_of_control_characters_is_replaced_at_once() -> None:
    assert plain("a\x00\x00\x7fb\x85\u202e\n") == "a␀␀␡b\ufffd\ufffd␊"
    assert calls(lambda: plain("\x00" * 100_000)) < 100


async def test_a_page_of_a_line_of_nul_is_drawn_once(tmp_path: Path) -> None:
    async with viewer(tmp_path / "nul", b"\x00" * LINE) as (view, pilot):
        await pilot.press("w")
        assert view.paint.wrapped and rows(view)[0].strip().startswith("␀" * 70)

        def draw() -> None:
            view._repaint()
            view.render_lines(view.size.region)

        # A row's width is computed once, not that of all rows before it for each row.
        assert calls(draw) < 2 * SHOWN


async def test_the_whole_line_is_laid_out_up_to_a_bound(tmp_path: Path) -> None:
    async with viewer(tmp_path / "nul", b"\x00" * LINE) as (_, pilot):
        await pilot.press("enter")
        assert isinstance(pilot.app.screen, MessageScreen)
        shown = pilot.app.screen.query_one(LongLines)
        assert isinstance(shown, Static) and 0 < shown.size.height <= LONGEST // 50
        assert f"({LINE:,} characters)" in " ".join(row.plain for row in shown.rows)


def test_an_error_is_searched_for_in_parts(tmp_path: Path) -> None:
    path = tmp_path / "empty"
    path.write_bytes(b"\n" * MANY + b"ERROR last\n")
    log = TextFile(path)
    while not log.count_new_lines(1):
        pass
    views = LogView(log).views
    found, times = views.error(0, 1), 1
    while found is None and views.errors_unknown:
        found, times = views.error(0, 1), times + 1
    assert found == MANY and line_text(log[found]) == "ERROR last"
    assert times > MANY / SCAN_FOR_KEY
    log.close()


async def test_one_key_reads_a_part_of_many_empty_lines(tmp_path: Path) -> None:
    async with viewer(tmp_path / "empty", b"ERROR first\n" + b"\n" * MANY) as (view, pilot):
        assert view.next_error(-1) is None
        await pilot.press("e")
        await until(pilot, lambda: not view.following, "the error is found later")
        assert view.cursor is not None and line_text(view.cursor) == "ERROR first"
        # A marked range is counted, not read.
        await pilot.press("space", "G", "k")
        assert len(view.picked_places()) == MANY
        assert calls(view.query_ancestor(FileScreen).pane._shown) < 2_000
