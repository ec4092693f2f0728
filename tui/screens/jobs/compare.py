"""Two runs of one kind side by side: the differing lines, or all lines."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from textual.content import Content

from tui.actions.registry import Action, bindings
from tui.domain.comparison.runs import Row, change_text, percent_text, rows_of, text_of
from tui.domain.core.formatting import age, pieces
from tui.domain.core.job import Job
from tui.domain.core.text import clip, plain
from tui.kinds.registry import kind_of
from tui.screens.context_line import SEP
from tui.screens.list_screen import ListScreen
from tui.screens.not_connected import not_connected
from tui.screens.workers import background
from tui.session import BackendError
from tui.store.job.run_facts import SECONDS, read_facts
from tui.widgets.filter_bar import FilterBar
from tui.widgets.header_lines import Line
from tui.widgets.notice import Notice
from tui.widgets.state import state_content
from tui.widgets.table.table import Cells, Column, Table

if TYPE_CHECKING:
    from tui.screens.console_app import ConsoleApp

COLUMNS = (
    Column("part", "", 9, max_width=9, whole=True, rank=3),
    Column("name", "NAME", 16, max_width=48),
    Column("first", "A", 12, max_width=40, rank=1),
    Column("second", "B", 12, max_width=40, rank=1),
    Column("change", "B-A", 7, max_width=12, rank=2, right=True, whole=True),
    Column("percent", "", 7, max_width=12, rank=2, right=True, whole=True),
)
LONGEST = 200


def open_comparison(console: ConsoleApp, jobs: Sequence[Job]) -> None:
    """Compare two jobs, the older one first."""
    ordered = sorted(jobs, key=lambda job: job.created or 0.0)
    console.push_screen(CompareScreen(ordered[0], ordered[1]))


class CompareScreen(ListScreen):
    """Two runs in columns. Both are read when the screen is opened and on `ctrl+r`."""

    SCOPE = "compare"
    HEADING = "Compare"
    PLACEHOLDER = "text in a name or a value"
    BINDINGS = bindings("compare")

    def __init__(self, first: Job, second: Job) -> None:
        super().__init__()
        self.jobs = (first, second)
        self._rows: list[Row] | None = None
        self._shown: dict[str, Row] = {}
        self._all = False
        self._problem: tuple[str, str] = ("", "")

    def make_table(self) -> Table:
        return Table(COLUMNS)

    def on_mount(self) -> None:
        self.refresh_here()

    def refresh_here(self) -> None:
        background(self, self._read, "compare")

    async def _read(self) -> None:
        session = self.session
        if session is None:
            self._problem = (not_connected(self.console), "")
            self.reload()
            return
        try:
            facts = await asyncio.gather(*(read_facts(session.backend, job.name) for job in self.jobs))
        except BackendError as error:
            self._problem = (error.message, error.fix)
        except TimeoutError:
            self._problem = (f"The runs could not be read within {SECONDS:.0f} s.", "ctrl+r tries again")
        else:
            (first, first_facts), (second, second_facts) = facts
            self.jobs, self._problem = (first, second), ("", "")
            self._rows = rows_of(first_facts, second_facts)
        self.reload()

    # Content

    def reload(self) -> None:
        notice, rows = self.query_one(Notice), self._rows or []
        search = self.query_one(FilterBar).text.casefold()
        self._shown = {
            row.key: row
            for row in rows
            if (self._all or row.differs) and (not search or search in _words(row).casefold())
        }
        self.table.show(list(self._shown), {key: _cells(row) for key, row in self._shown.items()})
        self.table.display = bool(self._shown)
        if self._problem[0]:
            notice.show("The runs can't be compared", *self._problem, bad=True, alone=not self._shown)
        elif self._rows is None:
            notice.show("Reading both runs…")
        elif not self._shown and search:
            notice.show("No line contains this text.", plain(search), "esc clears it")
        elif not self._shown:
            notice.show("The runs do not differ.", "", "a shows equal lines")
        else:
            notice.hide()
        self.refresh_frame()

    def top_line(self) -> Line:
        room = max(12, (self.size.width - 30) // 2)
        parts: list[Content | str | tuple[str, str]] = []
        for letter, job in zip("AB", self.jobs, strict=True):
            name = plain(job.display_name or job.id)
            name = name if self.jobs[0].display_name != self.jobs[1].display_name else plain(job.id)
            since = f" {age(job.age(self.console.clock()))} ago" if job.create_time else ""
            parts += [
                (f"{letter} ", "bold $accent"),
                (clip(name, room), "bold"),
                " ",
                state_content(job.state, word=False),
                (since, "$text-muted"),
                SEP,
            ]
        return Content.assemble(*parts), Content("")

    def count_text(self) -> str:
        rows = self._rows or []
        differing = sum(row.differs for row in rows)
        words = f"{pieces(differing, 'difference')} in {len(rows)}"
        return words + ("   all shown" if self._all else "")

    def order_text(self) -> Content:
        noun = kind_of(self.jobs[0]).words.noun
        return Content.styled(f"{noun}s; A is the older run", "$text-muted")

    # Actions

    def unmet(self, condition: str, action: Action) -> str:
        if condition == "line":
            return "" if self.table.cursor in self._shown else "No line is selected."
        return super().unmet(condition, action)

    def action_all(self) -> None:
        """Show all lines, or only differing lines."""
        self._all = not self._all
        self.table.clear_widths()
        self.reload()

    def action_copy(self) -> None:
        """Copy the line."""
        row = self._shown.get(self.table.cursor or "")
        if row is not None:
            self.console.send_copy(_words(row), "the line")

    def action_first(self) -> None:
        """Open run A."""
        self.console.open_job(self.jobs[0].name)

    def action_second(self) -> None:
        """Open run B."""
        self.console.open_job(self.jobs[1].name)

    async def action_back(self) -> None:
        """Clear the search, or close the screen."""
        if not self.clear_filter():
            self.dismiss()


def _words(row: Row) -> str:
    values = (
        row.part,
        row.name,
        text_of(row.first),
        text_of(row.second),
        change_text(row),
        percent_text(row),
    )
    return "\t".join(value for value in values if value)


def _cells(row: Row) -> Cells:
    style = "" if row.differs else "$text-muted"
    return {
        "part": Content.styled(row.part, "$text-muted"),
        "name": Content.styled(plain(row.name), "bold" if row.differs else "$text-muted"),
        "first": Content.styled(_value(row.first), style),
        "second": Content.styled(_value(row.second), style),
        "change": Content.styled(change_text(row) if row.differs else "", style),
        "percent": Content.styled(percent_text(row) if row.differs else "", "$text-muted"),
    }


def _value(value: object) -> str:
    return plain(clip(" ".join(text_of(value).split()), LONGEST))
