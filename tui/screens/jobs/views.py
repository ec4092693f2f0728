"""The view of the jobs list in each context, saved for the next start, and the saved filters."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

from textual.content import Content

from tui.domain.core.job import Job
from tui.domain.core.text import plain
from tui.domain.fields.jobs import SORTS
from tui.kinds.registry import kind_of
from tui.screens.context_line import SEP
from tui.screens.jobs.rows import GROUPS, HEAD, JobRows
from tui.screens.list_screen import ListScreen
from tui.screens.workers import background
from tui.widgets.filter_bar import FilterBar
from tui.widgets.header_lines import clickable
from tui.widgets.table.job_table import JobTable

VIEW = "jobs"
"""Name of the list in the saved state."""
MOST_OPENED = 200
"""Number of jobs with shown parts that are saved."""
COMPARED = 2
"""Number of runs that are compared."""
ALL = "all"
"""Name of the tab without a filter."""


@dataclass
class JobsView:
    """Sort, groups, columns, filter, closed groups and opened jobs of a context, and its saved filters."""

    sort: str = "age"
    reverse: bool = False
    group: str = ""
    filter: str = ""
    hidden: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    closed: list[str] = field(default_factory=list)
    opened: list[str] = field(default_factory=list)
    filters: dict[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, values: dict[str, Any]) -> JobsView:
        """Parse the saved view, and drop values that are invalid."""
        view = cls()
        for name, default in asdict(view).items():
            value = values.get(name)
            if isinstance(value, type(default)):
                setattr(view, name, value)
        view.sort = view.sort if view.sort in SORTS else "age"
        view.group = view.group if view.group in GROUPS else ""
        for name in ("hidden", "kept", "closed", "opened"):
            setattr(view, name, [key for key in getattr(view, name) if isinstance(key, str)])
        view.filters = {name: text for name, text in view.filters.items() if isinstance(text, str)}
        return view


class JobsViews:
    """Saves the view of each context, and the saved filters."""

    def __init__(self, screen: ListScreen, rows: Callable[[], JobRows]) -> None:
        """Set the screen. `rows` returns the rows of the open context."""
        self._screen = screen
        self._rows = rows
        self.filters: dict[str, str] = {}
        """Saved filters by name, in the order in which they were saved."""
        self.restored = ""
        """The filter that the list began with."""
        self._kept: tuple[str, JobsView] | None = None
        """The context and its last saved view."""
        self._now: JobsView | None = None
        """The last shown view."""

    def _view(self) -> JobsView:
        order, tree, table = self._rows().order, self._rows().tree, self._screen.query_one(JobTable)
        return JobsView(
            order.sort,
            order.reverse,
            order.group,
            self._screen.query_one(FilterBar).text,
            sorted(table.hidden),
            sorted(table.pinned),
            sorted(key for key in table.closed_groups if key.startswith(HEAD)),
            list(tree.opened)[-MOST_OPENED:],
            dict(self.filters),
        )

    def restore(self, rows: JobRows) -> None:
        """Restore the last shown view of the open context."""
        self.keep()
        context = self._screen.console.context_name
        view = JobsView.read(self._screen.console.ui_state.view(context, VIEW))
        order = rows.order
        order.sort, order.reverse, order.group = view.sort, view.reverse, view.group
        self.filters = dict(view.filters)
        table = self._screen.query_one(JobTable)
        table.closed_groups = {key for key in view.closed if key.startswith(HEAD)}
        rows.tree.opened = dict.fromkeys(view.opened)
        rows.groups_known = bool(view.group)
        table.set_columns(view.hidden, view.kept)
        self._screen.query_one(FilterBar).set_text(view.filter)
        self.restored = view.filter
        self._kept, self._now = (context, view), view

    def note(self) -> None:
        """Record the current view."""
        screen = self._screen
        if screen.has_widgets and self._kept is not None and self._kept[0] == screen.console.context_name:
            self._now = self._view()

    def keep(self) -> None:
        """Save the view in a thread if it has changed since the last save."""
        if self._kept is not None and self._now is not None and self._now != self._kept[1]:
            self._kept = self._kept[0], self._now
            save = partial(asyncio.to_thread, self._save, *self._kept)
            background(self._screen, save, "view", exclusive=False)

    def _save(self, context: str, view: JobsView) -> None:
        self._screen.console.ui_state.keep_view(context, VIEW, asdict(view))

    def close(self) -> None:
        """Save the changes of the last second. The widgets no longer exist."""
        if self._kept is not None and self._now is not None and self._now != self._kept[1]:
            self._save(self._kept[0], self._now)

    # Saved filters

    def with_tabs(self, left: Content) -> Content:
        """Return the left part of the second line with the saved filters as tabs before it."""
        if not self.filters:
            return left
        text = self._screen.query_one(FilterBar).text
        tabs = []
        for name, filter_text in {ALL: "", **self.filters}.items():
            style = "bold $accent underline" if filter_text == text else "$text-muted"
            tabs.append(clickable(Content.styled(plain(name), style), "jobs.show_filter", name))
        return Content.assemble(Content("  ").join(tabs), SEP, left)

    def action_next_filter(self) -> None:
        """Show the next saved filter."""
        self._step_filter(1)

    def action_previous_filter(self) -> None:
        """Show the previous saved filter."""
        self._step_filter(-1)

    def _step_filter(self, step: int) -> None:
        texts = ["", *self.filters.values()]
        text = self._screen.query_one(FilterBar).text
        at = texts.index(text) if text in texts else 0
        self._show_filter(texts[(at + step) % len(texts)])

    def _show_filter(self, text: str) -> None:
        self._screen.query_one(FilterBar).set_text(text)
        self._screen.table.clear_widths()
        self._screen.reload()

    def action_show_filter(self, name: str) -> None:
        """Show a saved filter by its name."""
        text = {ALL: "", **self.filters}.get(name)
        if text is None:
            words = f"The filter {plain(name)} does not exist. F saves the filter that is shown."
            self._screen.notify(words, severity="warning", markup=False)
        else:
            self._show_filter(text)

    def unmet(self, condition: str) -> str:
        """Return why a condition on filters is not met, as a sentence; "" if it is met."""
        text = self._screen.query_one(FilterBar).text
        match condition:
            case "filter":
                return "" if text else "There is no filter to save: / filters the list."
            case "saved_filter":
                saved = text and text in self.filters.values()
                return "" if saved else "The current filter is not saved."
        return "" if self.filters else "No filter is saved. / filters, and F saves that filter as a tab."

    def action_save_filter(self) -> None:
        """Ask for a name, and save the filter under it."""
        from tui.screens.dialogs.prompt import PromptScreen  # noqa: PLC0415 - not before the first paint

        text = self._screen.query_one(FilterBar).text
        known = next((name for name, kept in self.filters.items() if kept == text), "")

        def save(name: str | None) -> None:
            if name:
                self.filters[name] = text
                self._screen.refresh_frame()

        def check(name: str) -> str:
            if not name or len(name) > 24 or not name.isprintable():
                return "A name must have 1 to 24 characters."
            return f"{ALL} is reserved for the list without a filter." if name == ALL else ""

        self._screen.app.push_screen(PromptScreen(f"Name of the filter {text}", known, check=check), save)

    def action_forget_filter(self) -> None:
        """Remove the saved filter that is shown."""
        text = self._screen.query_one(FilterBar).text
        self.filters = {name: kept for name, kept in self.filters.items() if kept != text}
        self._show_filter("")


def not_comparable(jobs: Sequence[Job]) -> str:
    """Return why these jobs can't be compared, as a sentence; "" if they can."""
    if len(jobs) != COMPARED:
        marked = f"; {len(jobs)} are marked" if len(jobs) > COMPARED else ""
        return f"Mark two runs with space to compare them{marked}."
    first, second = (kind_of(job).words.noun for job in jobs)
    return "" if first == second else f"A {first} can't be compared with a {second}."
