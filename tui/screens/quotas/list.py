"""Training quotas of the context's regions: limit, used, free, and the age of each figure."""

from __future__ import annotations

from textual import on
from textual.content import Content

from tui.actions.registry import Action, bindings
from tui.domain.core.formatting import NOT_MEASURED, age, bar, pieces
from tui.domain.core.quota import UNLIMITED, Quota
from tui.domain.core.text import plain
from tui.screens.list_screen import ListScreen
from tui.screens.quotas.reader import QuotaReader
from tui.widgets.filter_bar import FilterBar
from tui.widgets.table.rows import Listing, SortKey, grouped
from tui.widgets.table.table import Cells, Column, Table

COLUMNS = (
    Column("region", "REGION", 12, max_width=20),
    Column("name", "QUOTA", 18, max_width=70, flex=True),
    Column("kind", "KIND", 8, max_width=8),
    Column("limit", "LIMIT", 6, max_width=10, right=True),
    Column("used", "USED", 6, max_width=10, right=True),
    Column("free", "FREE", 6, max_width=10, right=True),
    Column("share", "", 10, max_width=10, rank=3),
    Column("age", "AGE", 5, max_width=6, rank=2, right=True),
)
HEAD = "group "
HIDDEN = ("Nothing to show here.", "Quotas with no limit and no use are hidden.", "a shows all")
STEMS = ("custom_model_training_preemptible_", "custom_model_training_")


class QuotasScreen(ListScreen):
    """Quotas with a limit or a use; `a` shows all."""

    SCOPE = "quotas"
    HEADING = "Quotas"
    PLACEHOLDER = "name or region"
    BINDINGS = bindings("quotas")

    def __init__(self, *, of_cluster: bool = False) -> None:
        """`of_cluster`: queues, quotas of namespaces and node pools, which have no grid."""
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
        where = f"{quota.region} {_short(quota)} {quota.display_name} {quota.metric}".casefold()
        if not all(word in where for word in text.casefold().split()):
            return False
        return self.reader.all or quota.limit not in {0, None} or bool(quota.used)

    def reload(self) -> None:
        text = self.query_one(FilterBar).text
        self._by_key = quotas = {_key(q): q for q in self.reader.quotas if self._fits(q, text)}
        listing = Listing(quotas)
        listing.configure(None, lambda q: _sort_key(q, self._sort), reverse=self._reverse)
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
            return self._cells(self._by_key[key])
        members = self._heads.get(key, [])
        return {
            "region": Content.styled(plain(key.removeprefix(HEAD)), "bold"),
            "name": Content.styled(pieces(len(members), "quota"), "$text-muted"),
        }

    def action_all(self) -> None:
        """Show or hide quotas with no limit and no use."""
        self.reader.switch_all()

    def action_grid(self) -> None:
        """Back to the grid."""
        self.app.pop_screen()

    def action_sort(self) -> None:
        """Sort by the chosen column; by the next one if none is chosen or it is already sorted."""
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

    def _cells(self, quota: Quota) -> Cells:
        none = Content.styled(NOT_MEASURED, "$text-muted")
        limit = (
            "unlimited" if quota.limit == UNLIMITED else f"{quota.limit:,}" if quota.limit is not None else ""
        )
        share = (
            quota.used / quota.limit if quota.used is not None and quota.limit and quota.limit > 0 else None
        )
        colour = (
            "$text-error"
            if (share or 0) >= 1
            else "$text-warning"
            if (share or 0) >= 0.8
            else "$text-success"
        )
        read_at = quota.used_at or quota.limit_read_at
        return {
            "region": Content.styled(plain(quota.region), "$text-muted"),
            "name": Content(plain(_short(quota))),
            "kind": Content.styled("spot" if quota.preemptible else "standard", "$text-muted"),
            "limit": Content(limit) if limit else none,
            "used": Content(f"{'~' * quota.estimated}{quota.used:,}") if quota.used is not None else none,
            "free": Content(f"{quota.free:,}") if quota.free is not None else none,
            "share": none if share is None else Content.styled(bar(share, 10), colour),
            "age": Content.styled(age(self.console.clock() - read_at), "$text-muted") if read_at else none,
        }

    def count_text(self) -> str:
        shown, total = len(self._by_key), len(self.reader)
        if not total:
            return ""
        return pieces(total, "quota") if shown == total else f"{shown:,} of {pieces(total, 'quota')}"


def cluster_quotas() -> QuotasScreen:
    """The screen for a cluster's quotas: they are not counted by region and accelerator."""
    return QuotasScreen(of_cluster=True)


def _key(quota: Quota) -> str:
    return f"{quota.region}/{quota.metric}/{quota.quota_id}/{quota.preemptible}"


def _sort_key(quota: Quota, column: str) -> SortKey:
    """Unknown values last, the largest first, then by region, kind and name."""
    rest = (quota.region, quota.preemptible, _short(quota), _key(quota))
    value: object
    match column:
        case "name":
            value = _short(quota)
        case "kind":
            value = quota.preemptible
        case "limit":
            most = float("inf") if quota.limit == UNLIMITED else quota.limit
            value = None if most is None else -most
        case "used":
            value = None if quota.used is None else -quota.used
        case "free":
            value = None if quota.free is None else -quota.free
        case "share":
            value = None if quota.used is None or not quota.limit else -quota.used / quota.limit
        case "age":
            read_at = quota.used_at or quota.limit_read_at
            value = None if read_at is None else -read_at.timestamp()
        case _:
            value = quota.region
    return (value is None, 0 if value is None else value, *rest)


def _short(quota: Quota) -> str:
    """The metric's own part: `nvidia_a100_gpus`."""
    if quota.named:
        return quota.display_name
    name = quota.metric.rpartition("/")[2]
    for stem in STEMS:
        name = name.removeprefix(stem)
    return name.replace("_", " ")
