"""The choice of columns. The list behind the dialog shows each change immediately."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalGroup
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from tui.widgets.table.job_table import JobTable


class ColumnsScreen(ModalScreen[None]):
    """Space shows or hides the column under the cursor. A column shown here appears at any width."""

    CSS_PATH = "columns.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "app.pop_screen", "Back"),
        Binding("space", "switch", "Show or hide"),
        Binding("r", "reset", "As the width allows"),
        Binding("j", "move(1)", "Down"),
        Binding("k", "move(-1)", "Up"),
    ]

    def __init__(self, table: JobTable) -> None:
        super().__init__()
        self._table = table

    def compose(self) -> ComposeResult:
        with VerticalGroup(id="dialog"):
            yield Static(Content.styled("Columns", "bold"))
            yield OptionList(id="options", compact=True)
            yield Static(
                Content.styled("space shows or hides   r as the width allows   esc back", "$text-muted")
            )

    def on_mount(self) -> None:
        self._fill(0)

    def _fill(self, at: int) -> None:
        table, placed = self._table, self._table.placed_columns
        options = self.query_one(OptionList)
        options.clear_options()
        for column in table.columns:
            shown = column.key in placed
            note = "no room at this width" if not shown and column.key not in table.hidden else ""
            note = "at any width" if shown and column.key in table.pinned else note
            mark = ("✓ ", "$text-success") if shown else ("  ", "")
            title = (f"{column.title:<14}", "" if shown else "$text-muted")
            options.add_option(Option(Content.assemble(mark, title, (note, "$text-muted"))))
        options.highlighted = at

    @on(OptionList.OptionSelected)
    def action_switch(self) -> None:
        """Show or hide the column under the cursor."""
        table, at = self._table, self.query_one(OptionList).highlighted or 0
        column = table.columns[at]
        hidden, kept = set(table.hidden), set(table.pinned)
        if column.key not in table.placed_columns:
            hidden.discard(column.key)
            kept.add(column.key)
        elif at:
            # The first column, the state, is always shown.
            hidden.add(column.key)
            kept.discard(column.key)
        table.set_columns(hidden, kept)
        self._fill(at)

    def action_reset(self) -> None:
        """Choose the columns by the width again."""
        self._table.set_columns((), ())
        self._fill(self.query_one(OptionList).highlighted or 0)

    def action_move(self, way: int) -> None:
        """Move the highlight."""
        options = self.query_one(OptionList)
        (options.action_cursor_down if way > 0 else options.action_cursor_up)()
