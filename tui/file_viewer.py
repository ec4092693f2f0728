"""`vxtui logs --file`: the console's log view on any file, without a context."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar

from textual import on
from textual.content import Content
from textual.screen import Screen
from textual.widget import Widget

from tui.actions.registry import Action, bindings
from tui.config.paths import config_dir, shipped
from tui.config.settings import Settings
from tui.config.themes import load_themes
from tui.display.app import DisplayApp
from tui.display.stylesheet import CachedStylesheet
from tui.domain.core.text import plain
from tui.garbage import TURN, IdleCollector
from tui.screens.console import preload
from tui.screens.containment import ContainingApp
from tui.screens.dialogs.help import HelpScreen
from tui.screens.frame import FrameScreen
from tui.screens.job.logs import LogsPane
from tui.screens.workers import background
from tui.store.job.feed import Changed
from tui.store.job.file_feed import FileFeed
from tui.store.log.filters import LineFilter
from tui.terminal_output import NoTerminal, screen_only
from tui.widgets.header_lines import Line
from tui.widgets.log.render import TimeColumn
from tui.widgets.log.view import LogView
from tui.widgets.toasts import ToastApp

EVERY_LINE = LineFilter()


class FileScreen(FrameScreen):
    """One file; new lines are shown as it grows."""

    SCOPE = "file"
    BINDINGS = bindings("logs", "file")

    def __init__(self, feed: FileFeed, line_filter: LineFilter) -> None:
        super().__init__()
        self.feed = feed
        self._filter = line_filter
        self._names_replicas = False
        """Whether lines of replicas have been seen, whose column is then shown."""
        feed.on_change = self._changed
        self.pane = LogsPane(self.feed)
        paint = self.pane.log_view.paint
        # The lines of a file contain their timestamps in the text.
        paint.times, paint.show_replica = TimeColumn.NONE, False

    def compose_body(self) -> Iterable[Widget]:
        yield self.pane

    def on_mount(self) -> None:
        self.pane.log_view.focus()
        self.pane.narrow(self._filter)
        background(self, self.feed.run, "file")

    def _changed(self) -> None:
        if self.is_attached:
            if self.feed.replicas and not self._names_replicas:
                self._names_replicas = True
                self.pane.log_view.toggle_replica()
            self.pane.show(Changed.LOGS)

    def top_line(self) -> Line:
        return Content.assemble(("vxtui", "bold"), "  ", plain(str(self.feed.buffer.path))), Content("")

    @on(LogView.Moved)
    def _moved(self) -> None:
        self.refresh_frame()

    def scopes(self) -> tuple[str, ...]:
        return (*self.pane.scopes(), "file", "app")

    def target(self, action: Action) -> object:
        return self.pane if action.scope in self.pane.scopes() else super().target(action)

    def unmet(self, condition: str, action: Action) -> str:
        return self.pane.unmet(condition, action)

    def action_back(self) -> None:
        """Cancel an unfinished operation, or close the viewer."""
        if not self.pane.back():
            self.app.exit()


class FileViewer(ContainingApp, ToastApp[int], DisplayApp[int]):
    """An app of one screen."""

    TITLE = "vxtui"
    CSS_PATH = "app.tcss"
    ENABLE_COMMAND_PALETTE = False
    NOTIFICATION_TIMEOUT: ClassVar[float] = 6

    def __init__(self, feed: FileFeed, settings: Settings, line_filter: LineFilter = EVERY_LINE) -> None:
        super().__init__()
        self.settings = settings
        self.feed = feed
        self._filter = line_filter
        self._garbage = IdleCollector(self.quiet_for)
        themes, _ = load_themes([shipped("themes"), config_dir() / "themes"])
        for theme in themes:
            self.register_theme(theme)
        self.stylesheet = self._styles = CachedStylesheet(variables=self.get_css_variables())

    def get_default_screen(self) -> Screen[None]:
        """Return the screen of the file."""
        return FileScreen(self.feed, self._filter)

    def on_mount(self) -> None:
        """Apply the user's colours and keys."""
        if self.settings.theme in self.available_themes:
            self.theme = self.settings.theme
        elif "vxtui-dark" in self.available_themes:
            self.theme = "vxtui-dark"
        self.set_keymap(self.settings.keys)
        self._garbage.start()
        self.set_interval(TURN, self._garbage.turn)
        background(self, self._read_styles, "styles")

    async def _read_styles(self) -> None:
        await preload.read_styles(self, self._styles, "dialogs")

    def on_unmount(self) -> None:
        """Restore normal garbage collection."""
        self._garbage.stop()

    def action_help(self) -> None:
        """Show the keys that work here."""
        screen = self.screen
        if isinstance(screen, FrameScreen):
            self.push_screen(HelpScreen(screen))


async def view_file(path: Path, settings: Settings, line_filter: LineFilter = EVERY_LINE) -> int:
    """Show the lines of a file that pass the filter, until the viewer is closed. Return the exit code.

    Raises:
        OSError: the file can't be read.
        NoTerminal: there is no terminal.
    """
    feed = FileFeed(path)
    try:
        with screen_only(None):
            app = FileViewer(feed, settings, line_filter)
            await app.run_async()
        return app.return_code or 0
    finally:
        feed.close()


__all__ = ["NoTerminal", "view_file"]
