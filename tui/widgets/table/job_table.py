"""The table of jobs, whose columns depend on the listed jobs and the context."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tui.domain.fields.field import columns
from tui.domain.fields.jobs import job_fields
from tui.kinds.registry import own_fields, region_word
from tui.widgets.table.table import Column, Table


class ChangingTable(Table):
    """A table whose columns depend on its rows."""

    def use(self, columns: Sequence[Column]) -> None:
        """Show these columns from now on."""
        if tuple(columns) != self.columns:
            self.columns = tuple(columns)
            self._choose_columns()


class JobTable(ChangingTable):
    """A table of jobs."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(columns(job_fields((), contexts=False, ids=False)), id=id)
        self.hidden: set[str] = set()
        """Keys of the hidden columns, which the screen saves per context."""

    @property
    def _hidden_columns(self) -> set[str]:
        return self.hidden

    @property
    def closed_groups(self) -> set[str]:
        """The groups whose rows are hidden."""
        return self._shown.closed

    @closed_groups.setter
    def closed_groups(self, groups: set[str]) -> None:
        self._shown.closed = groups

    @property
    def placed_columns(self) -> frozenset[str]:
        """The keys of the currently shown columns."""
        return frozenset(placed.column.key for placed in self._placed)

    def set_columns(self, hidden: Collection[str], kept: Collection[str]) -> None:
        """Hide these columns, and show the columns in `kept` at any width."""
        self.hidden, self.pinned = set(hidden), frozenset(kept)
        self._choose_columns()

    def show_kinds(self, listed: Collection[str], *, billed: bool, contexts: bool, ids: bool) -> None:
        """Show the columns of jobs of these kinds; see `job_fields`."""
        place, own = region_word(listed), own_fields(listed)
        fields = job_fields(listed, billed=billed, contexts=contexts, ids=ids, place=place, own=own)
        self.use(columns(fields))
