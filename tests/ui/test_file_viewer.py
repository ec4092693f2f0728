"""`vxtui logs --file`: the log view on a file that grows."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner
from textual.widgets import Static

from tests.ui.jobs_screen_support import until
from tests.unit.stream_logs_support import STREAMED
from tui.config.settings import Settings
from tui.domain.core.log_entry import Severity
from tui.domain.log.pattern import compile_pattern
from tui.file_viewer import FileScreen, FileViewer
from tui.screens.dialogs.message import MessageScreen
from tui.screens.dialogs.pick import PickScreen
from tui.store.job.file_feed import FileFeed
from tui.store.log.filters import LineFilter
from tui.verbs.command_group import cli


async def test_a_file_is_shown_searched_and_read_on(tmp_path: Path) -> None:
    path = tmp_path / "train[1].log"
    path.write_text("".join(f"step {n}\n" for n in range(5000)) + "ERROR: rank 3 is gone\n")
    app = FileViewer(FileFeed(path), Settings())
    async with app.run_test(size=(80, 24)) as pilot:
        screen = app.screen
        assert isinstance(screen, FileScreen)
        view = screen.pane.log_view
        await until(pilot, lambda: len(view.view) == 5001, "the file is counted")
        shown = [view.render_line(y).text for y in range(view.size.height)]
        assert shown[-1].strip() == "✗ERROR: rank 3 is gone"
        await pilot.press("e", "slash", *"step 4999", "enter")
        await until(pilot, lambda: view.views.found(view.cursor) == (1, 1), "the match is found")
        with path.open("a") as added:
            added.write("late step 4999\n")
        await until(pilot, lambda: (view.views.found(None) or (0, 0))[1] == 2, "and what is added")
        await pilot.press("escape", "escape")
    assert app.return_code == 0


async def test_saved_stream_logs_have_the_column_and_the_choice_of_replicas(tmp_path: Path) -> None:
    path = tmp_path / "stream-logs.txt"
    path.write_text(STREAMED)
    app = FileViewer(FileFeed(path), Settings())
    async with app.run_test(size=(80, 24)) as pilot:
        screen = app.screen
        assert isinstance(screen, FileScreen)
        view = screen.pane.log_view
        await until(pilot, lambda: view.paint.show_replica and len(view.view) == 6, "the replicas")
        assert view.render_line(0).text.startswith("0-0 ")
        await pilot.press("r")
        await until(pilot, lambda: isinstance(app.screen, PickScreen), "the choice")
        await pilot.press(*"1-12", "enter")
        await until(pilot, lambda: len(view.view) == 2, "the lines of one replica")
        assert view.text_of(list(view.view)).splitlines()[1] == "workerpool1-12 a further line"
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, MessageScreen), "the whole line")
        assert "1970" not in app.screen.query_one(Static).render().plain  # type: ignore[attr-defined]


async def test_the_viewer_applies_the_filters_of_the_command_line(tmp_path: Path) -> None:
    path = tmp_path / "stream-logs.txt"
    path.write_text(STREAMED)
    chosen = LineFilter(
        replicas=frozenset({"service"}), severity=Severity.ERROR, pattern=compile_pattern("exited")
    )
    app = FileViewer(FileFeed(path), Settings(), chosen)
    async with app.run_test(size=(80, 24)) as pilot:
        screen = app.screen
        assert isinstance(screen, FileScreen)
        view = screen.pane.log_view
        await until(pilot, lambda: view.paint.show_replica and len(view.view) == 1, "the line that passes")
        assert "The replica exited." in view.text_of(list(view.view))
        await pilot.press("escape", "escape", "escape")
        await until(pilot, lambda: len(view.view) == 6, "every line again")


def test_without_a_terminal_its_lines_are_printed(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text('one\n\x1b[31mtwo\n{"severity": "ERROR", "message": "three"}\n')
    told = CliRunner().invoke(cli, ["logs", "--file", str(path)])
    assert told.exit_code == 0 and told.output.splitlines()[:2] == ["one", "two"]
    told = CliRunner().invoke(cli, ["logs", "--file", str(path), "--severity", "error", "--json"])
    assert '"line": 3, "severity": "ERROR"' in told.output and told.output.count("\n") == 1
    told = CliRunner().invoke(cli, ["logs", "--file", str(tmp_path)])
    assert told.exit_code == 2 and "Is a directory" in told.output
    for option in ("--since=10m", "--task=train"):
        told = CliRunner().invoke(cli, ["logs", "--file", str(path), option])
        assert told.exit_code == 2 and "need a JOB" in told.output
    told = CliRunner().invoke(cli, ["logs", "--file", str(path), "job"])
    assert told.exit_code == 2 or "Name a JOB" in str(told.exception or told.output)
