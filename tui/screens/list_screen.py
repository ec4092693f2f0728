"""Base class of the list screens: the context line, the filter, the table, and the notice."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from textual import on
from textual.content import Content
from textual.widget import Widget

from tui.domain.core.formatting import pieces
from tui.domain.core.text import plain
from tui.screens.context_line import SEP, connection_text, show_not_reached, summary
from tui.screens.frame import FrameScreen
from tui.screens.polling import Polling
from tui.widgets.filter_bar import FilterBar
from tui.widgets.header_lines import Line
from tui.widgets.notice import Notice
from tui.widgets.table.table import Table


class ListScreen(FrameScreen):
    """A table with a filter. A subclass implements `make_table`, `reload` and `count_text`.

    `polling`, which a subclass creates in its constructor, reads data that no store holds.
    """

    PLACEHOLDER = ""
    HEADING = ""
    polling: Polling | None = None

    @property
    def table(self) -> Table:
        """The screen's table."""
        return self.query_one(Table)

    def make_table(self) -> Table:
        """Return the empty table."""
        raise TypeError(f"{type(self).__name__} must make its table")

    def completions(self, text: str) -> tuple[str, Sequence[str]]:
        """Return the text before the word that `tab` completes in the filter, and the matching words."""
        return text, ()

    def compose_body(self) -> Iterable[Widget]:
        yield FilterBar(self.PLACEHOLDER, self.completions)
        yield self.make_table()
        yield Notice()

    def on_mount(self) -> None:
        polling = self.polling
        if polling is not None:
            self.console.connection_changed.subscribe(self, lambda _: polling.connection_changed())
        self.table.focus()
        self.set_interval(1.0, self.tick)
        self.reload()

    def on_screen_resume(self) -> None:
        self.refresh_here()
        self.reload()

    def refresh_here(self) -> None:
        if self.polling is not None:
            self.polling.read()

    def tick(self) -> None:
        """Update the ages and read the polled data, once a second."""
        if self.is_current:
            self.refresh_frame()
        if self.polling is not None:
            self.polling.tick()

    def refresh_frame(self) -> None:
        super().refresh_frame()
        if self.focused is None and self.has_widgets:
            self.keep_focus(self.table)

    def reload(self) -> None:
        """Show the current data of the store."""
        self.refresh_frame()

    # Lines

    def top_line(self) -> Line:
        console = self.console
        regions = console.connection.regions
        where = plain(regions[0]) + (f" +{len(regions) - 1}" if len(regions) > 1 else "") if regions else ""
        left = Content.assemble(
            ("vxtui", "bold $accent"),
            SEP,
            (plain(console.context_name), "bold"),
            "  ",
            (where, "$text-muted"),
            SEP,
            summary(console),
        )
        right = connection_text(console.connection)
        if self.read_only:
            right = Content.assemble(("read-only", "bold $text-warning"), SEP, right)
        return left, right

    def count_text(self) -> str:
        """Return the count text, e.g. `42 of 318`."""
        return ""

    def order_text(self) -> Content:
        """Return the order of the list."""
        return Content("")

    def marked_text(self) -> str:
        """Return the number of marked rows, and the number of their parts on which a key acts too."""
        marks, store = self.table.marks, self.console.store
        jobs = [store.jobs[name] for name in marks if name in store.jobs]
        parts = {part.name for job in jobs for part in store.parts_of(job)} - marks
        return f"{len(marks)} marked" + (f" with {pieces(len(parts), 'part')}" if parts else "")

    def second_line(self) -> Line:
        bar = self.query_one(FilterBar)
        # The bar shows the text while the user types it.
        text = "" if bar.display else bar.text
        parts: list[Content | str | tuple[str, str]] = [(self.HEADING, "bold"), SEP, self.count_text()]
        if text:
            parts += [SEP, ("/ ", "bold $accent"), (plain(text), "$accent")]
        if self.table.marks:
            parts += [SEP, (self.marked_text(), "bold $accent")]
        return Content.assemble(*parts), self.order_text()

    # Filter

    def action_filter(self) -> None:
        """Open the filter line."""
        self.query_one(FilterBar).open()

    @on(FilterBar.Changed)
    def _filter_changed(self) -> None:
        self.reload()

    @on(FilterBar.Closed)
    def _filter_closed(self) -> None:
        self.table.clear_widths()
        self.reload()

    def clear_filter(self) -> bool:
        """Clear the filter. Return False if no filter was set."""
        bar = self.query_one(FilterBar)
        had = bool(bar.text)
        bar.clear()
        if had:
            self.reload()
        return had

    async def action_back(self) -> None:
        """Clear the filter, or return to the jobs."""
        if not self.clear_filter():
            await self.action_do("app.jobs")

    @on(Table.Moved)
    def _moved(self) -> None:
        self.refresh_frame()

    def show_stale(self, shown: Sequence[str]) -> bool:
        """Show why this list may be stale. Return whether there was a reason."""
        return show_not_reached(self.console, self.query_one(Notice), alone=not shown)
