"""Training quotas of the context's regions: limit, usage, free amount, and the age of each value."""

from __future__ import annotations

from textual import on
from textual.content import Content

from tui.actions.registry import Action, bindings
from tui.domain.core.formatting import pieces
from tui.domain.core.quota import Quota
from tui.domain.core.text import plain
from tui.domain.fields.field import columns, sortable
from tui.domain.fields.quotas import QUOTA_FIELDS, QuotaRow, short_name
from tui.screens.list_screen import ListScreen
from tui.screens.quotas.reader import QuotaReader
from tui.widgets.filter_bar import FilterBar
from tui.widgets.table.cells import row_cells
from tui.widgets.table.rows import Listing, grouped
from tui.widgets.table.table import Cells, Table

COLUMNS = columns(QUOTA_FIELDS)
SORTS = sortable(QUOTA_FIELDS, first="region")
HEAD = "group "
HIDDEN = ("Nothing to show here.", "Quotas with no limit and no usage are hidden.", "a shows all")


class QuotasScreen(ListScreen):
    """Quotas with a limit or usage; `a` shows all."""

    SCOPE = "quotas"
    HEADING = "Quotas"
    PLACEHOLDER = "name or region"
    BINDINGS = bindings("quotas")

    def __init__(self, *, of_cluster: bool = False) -> None:
        """Set the list. `of_cluster` selects quotas of queues, namespaces and node pools, without a grid."""
        super().__init__()
        self._of_cluster = of_cluster
        self.PLACEHOLDER = "name or namespace" if of_cluster else "name or region"
        self.reader = QuotaReader(self)
        self.polling = self.reader.polling
        self._by_key: dict[str, Quota] = {}
        self._heads: dict[str, list[str]] = {}
        self._sort = "region"
        self._reverse = False
        self._grouped = False

    def make_table(self) -> Table:
        return Table(COLUMNS)

    def _fits(self, quota: Quota, text: str) -> bool:
        where = f"{quota.region} {short_name(quota)} {quota.display_name} {quota.metric}".casefold()
        if not all(word in where for word in text.casefold().split()):
            return False
        return self.reader.all or quota.limit not in {0, None} or bool(quota.used)

    def reload(self) -> None:
        text = self.query_one(FilterBar).text
        self._by_key = quotas = {_key(q): q for q in self.reader.quotas if self._fits(q, text)}
        listing = Listing(quotas)
        field, now = SORTS[self._sort], self.console.clock()
        listing.configure(None, lambda q: field.sort_key(QuotaRow(q, now), _rest(q)), reverse=self._reverse)
        order = listing.order
        parents: dict[str, str] = {}
        self._heads = {}
        if self._grouped:
            order, parents, self._heads = grouped(order, lambda key: HEAD + quotas[key].region)
        table = self.table
        table.set_sort(self._sort, self._reverse)
        table.show_lazily(order, self._row, parents)
        table.change(table.in_view)
        table.display = bool(quotas)
        self.reader.polling.show_notice(shown=bool(quotas), filtered=text, hidden=HIDDEN)
        self.refresh_frame()

    def _row(self, key: str) -> Cells:
        if not key.startswith(HEAD):
            return row_cells(COLUMNS, QuotaRow(self._by_key[key], self.console.clock()))
        members = self._heads.get(key, [])
        return {
            "region": Content.styled(plain(key.removeprefix(HEAD)), "bold"),
            "name": Content.styled(pieces(len(members), "quota"), "$text-muted"),
        }

    def action_all(self) -> None:
        """Show or hide quotas with no limit and no usage."""
        self.reader.switch_all()

    def action_grid(self) -> None:
        """Return to the grid."""
        self.app.pop_screen()

    def action_sort(self) -> None:
        """Sort by the chosen column. Without a chosen column, or if it is already sorted, sort by the next
        column."""
        keys = [column.key for column in COLUMNS]
        chosen = self.table.chosen_column
        if not chosen or chosen == self._sort:
            chosen = keys[(keys.index(self._sort) + 1) % len(keys)]
        self._sort = chosen
        self.reload()

    def action_reverse(self) -> None:
        """Reverse the order."""
        self._reverse = not self._reverse
        self.reload()

    @on(Table.SortRequested)
    def _sort_asked(self, event: Table.SortRequested) -> None:
        self._reverse = event.column == self._sort and not self._reverse
        self._sort = event.column
        self.reload()

    def action_group(self) -> None:
        """Group by region, or ungroup."""
        self._grouped = not self._grouped
        self.reload()

    def action_open(self) -> None:
        """Open or close a region."""
        group = self.table.group(self.table.cursor)
        if group is not None:
            self.table.open_group(group, not self.table.is_open(group))

    def unmet(self, condition: str, action: Action) -> str:
        match condition:
            case "regions":
                words = "A cluster's quotas are a list only; the grid is of regions."
                return words if self._of_cluster else ""
            case "group":
                no_group = self.table.group(self.table.cursor) is None
                return "There is no group here; b groups by region." if no_group else ""
        return super().unmet(condition, action)

    def count_text(self) -> str:
        shown, total = len(self._by_key), len(self.reader)
        if not total:
            return ""
        return pieces(total, "quota") if shown == total else f"{shown:,} of {pieces(total, 'quota')}"


def cluster_quotas() -> QuotasScreen:
    """Return the screen for a cluster's quotas, which are not counted by region and accelerator."""
    return QuotasScreen(of_cluster=True)


def _key(quota: Quota) -> str:
    return f"{quota.region}/{quota.metric}/{quota.quota_id}/{quota.preemptible}"


def _rest(quota: Quota) -> tuple[object, ...]:
    """Return the sort key of quotas with the same value."""
    return (quota.region, quota.preemptible, short_name(quota), _key(quota))
