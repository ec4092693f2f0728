"""Quotas by region and accelerator, their usage, and the regions where a chosen profile would fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from textual.content import Content

from tui.actions.registry import Action, bindings
from tui.domain.core.formatting import NOT_MEASURED, accelerators, age, short_region
from tui.domain.core.job import Job
from tui.domain.core.quota import UNLIMITED, Quota
from tui.domain.core.text import plain
from tui.domain.vertex import catalog
from tui.domain.vertex.quota_fit import ESTIMATED, Fit, fits_in, request_link, short_name
from tui.domain.vertex.quota_grid import Grid, GridCell, as_strategy, metric, users, words
from tui.screens.context_line import WIDE
from tui.screens.dialogs.message import MessageScreen
from tui.screens.dialogs.pick import PickScreen
from tui.screens.list_screen import ListScreen
from tui.screens.quotas.list import QuotasScreen
from tui.screens.quotas.reader import QuotaReader
from tui.store.profiles.entries import ProfileEntry, ProfileError
from tui.widgets.filter_bar import FilterBar
from tui.widgets.table.table import Cells, Column, Table

NARROW, MEDIUM, WHOLE = 15, 20, 24
"""Widths of a region's name: below `WIDE` columns, below `WIDEST`, and of the longest name."""
WIDEST = 160
FITS = Column("fits", "FITS", 34, max_width=60, flex=True, fold=False)
HOME_RANK = 1
HIDDEN = ("No region to show here.", "Regions with no limit and no usage are hidden.", "a shows all")


class QuotaGridScreen(ListScreen):
    """One row per region, one column per accelerator."""

    SCOPE = "quota_grid"
    HEADING = "Quotas"
    PLACEHOLDER = "region"
    BINDINGS = bindings("quota_grid")

    def __init__(self) -> None:
        super().__init__()
        self.reader = QuotaReader(self, regions=self._regions, before_show=self._load_profiles)
        self.polling = self.reader.polling
        self._spot = False
        self._first = 0
        self._by_name = False
        self._profile: ProfileEntry | None = None
        self._profile_problem = ""
        self._fits: dict[str, tuple[Fit, Fit]] = {}
        self._grid = Grid((), preemptible=False)

    def make_table(self) -> Table:
        return Table((self._region_column(), FITS))

    def _regions(self) -> Sequence[str]:
        """Return the context's regions, then all other regions. A group has the regions of its members."""
        connection = self.console.connection
        if connection.context.kind == "group":
            return ()
        return list(dict.fromkeys((*connection.regions, *catalog.regions())))

    async def _load_profiles(self) -> None:
        if not self.console.profiles.entries:
            await self.console.load_profiles()

    # Content

    def reload(self) -> None:
        quotas = self.reader.quotas
        self._grid = grid = Grid(quotas, preemptible=self._spot)
        self._compute_fits(quotas)
        text = self.query_one(FilterBar).text.casefold().split()
        shown = [r for r in grid.regions if all(word in r.casefold() for word in text) and self._has(r)]
        table = self.table
        columns = self._columns()
        if columns != table.columns:
            table.columns = columns
            table.clear_widths()
        table.show_lazily(self._ordered(shown), self._row)
        table.change(table.keys)
        table.display = bool(shown)
        self.reader.polling.show_notice(shown=bool(shown), filtered=" ".join(text), hidden=HIDDEN)
        self.refresh_frame()

    def _has(self, region: str) -> bool:
        if self.reader.all or region in self.console.connection.regions:
            return True
        cells = [self._grid.cell(region, word) for word in self._grid.words]
        return any(cell.quota and (cell.quota.limit or cell.quota.used) for cell in cells)

    def _ordered(self, regions: Sequence[str]) -> list[str]:
        """Return the regions where the profile fits, then the context's other regions, then other regions by
        name."""
        if self._by_name:
            return sorted(regions)
        own = {region: at for at, region in enumerate(self.console.connection.regions)}

        def place(region: str) -> tuple[bool, int, str]:
            fits = any(fit.status == "fits" for fit in self._fits.get(region, ()))
            return (not fits, own.get(region, len(own)), region)

        return sorted(regions, key=place)

    def _columns(self) -> tuple[Column, ...]:
        """Return the columns from the first shown column on; columns before it come last."""
        names = words()
        shown = [word for word in self._grid.words if self.reader.all or self._used(word)]
        # Columns that the profile needs come first.
        needed = self._needed()
        shown.sort(key=lambda word: word not in needed)
        first = self._first % len(shown) if shown else 0
        turned = [*shown[first:], *shown[:first]]
        middle = [
            Column(word, names[word], 6, max_width=18, rank=HOME_RANK + at, right=True, whole=True)
            for at, word in enumerate(turned)
        ]
        return (self._region_column(), *middle, *([FITS] if self._profile else []))

    def _region_column(self) -> Column:
        room = self._region_room()
        longest = max(map(len, self._grid.regions), default=NARROW)
        return Column("region", "REGION", max(NARROW, min(room, longest)), max_width=room, fold=False)

    def _region_room(self) -> int:
        width = self.size.width
        return NARROW if width < WIDE else MEDIUM if width < WIDEST else WHOLE

    def _needed(self) -> set[str]:
        """Return the columns that the chosen profile uses, with Spot or standard machines."""
        lines = {line.metric for pair in self._fits.values() for fit in pair for line in fit.lines}
        kinds = (True, False)
        return {word for word in words() if any(metric(word, preemptible=kind) in lines for kind in kinds)}

    def _used(self, word: str) -> bool:
        """Return whether any region has a limit or usage of the accelerator."""
        cells = (self._grid.cell(region, word) for region in self._grid.regions)
        return any(cell.quota and (cell.quota.limit or cell.quota.used) for cell in cells)

    def _row(self, region: str) -> Cells:
        own = region in self.console.connection.regions
        row = {word: self._cell(self._grid.cell(region, word)) for word in self._grid.words}
        row["region"] = Content.styled(plain(self._region_words(region)), "bold" if own else "")
        if region in self._fits:
            row["fits"] = _fit_text(*self._fits[region])
        return row

    def _region_words(self, region: str) -> str:
        return short_region(region, self._region_room())

    def on_resize(self) -> None:
        """Shorten the names for the new width."""
        self.reload()

    def _cell(self, cell: GridCell) -> Content:
        old = cell.stale(self.console.clock())
        if old is not None:
            return Content.styled(f"{cell.text} {age(old)}", "$text-muted")
        if cell.text in {"–", NOT_MEASURED, "0/0"}:
            return Content.styled(cell.text, "$text-muted")
        share = cell.share
        tone = "$text-error" if (share or 0) >= 1 else "$text-warning" if (share or 0) >= 0.8 else ""
        return Content.styled(cell.text, tone)

    def _compute_fits(self, quotas: Sequence[Quota]) -> None:
        """Compute where the chosen profile would fit, with Spot and with standard machines."""
        self._fits = {}
        if self._profile is None:
            return
        # A profile of Vertex AI does not run in a cluster.
        regions = [region for region in self._grid.regions if region not in self._grid.clusters]
        try:
            prepared = self._profile.prepare(
                {}, context=self.console.connection.context, region=self._profile.region
            )
        except ProfileError as error:
            self._profile_problem = str(error).splitlines()[0]
            return
        self._profile_problem = ""
        job = prepared.request.custom_job
        spot, standard = (
            fits_in(as_strategy(job, strategy), regions, quotas) for strategy in ("SPOT", "STANDARD")
        )
        self._fits = {fit.region: (fit, other) for fit, other in zip(spot, standard, strict=True)}

    def count_text(self) -> str:
        kind = "preemptible" if self._spot else "standard"
        shown, total = len(self.table.keys), len(self._grid.regions)
        if not total:
            return kind
        many = f"{shown}" if shown == total else f"{shown} of {total}"
        # A narrow line fits either the profile's name or the legend.
        legend = "" if self._profile is not None and self.size.width < WIDE else "   used/limit"
        return f"{kind}   {many} regions{legend}   < > columns"

    def order_text(self) -> Content:
        if self._profile is None:
            return Content.styled("p what fits", "$text-muted")
        if self._profile_problem:
            return Content.styled(
                f"{plain(self._profile.name)}: {plain(self._profile_problem)}", "$text-error"
            )
        return Content.styled(f"what fits: {plain(self._profile.name)}", "$text-muted")

    def unmet(self, condition: str, action: Action) -> str:
        match condition:
            case "region":
                return "No region is selected." if self.table.cursor is None else ""
            case "own_limits":
                of_cluster = self.table.cursor in self._grid.clusters
                words = "A cluster's limits are its nodes and queues: its administrator changes them."
                return words if of_cluster else ""
            case "profiles":
                return "" if self.console.profiles.entries else "There is no valid profile."
        return super().unmet(condition, action)

    # Actions

    def action_all(self) -> None:
        """Show or hide quotas with no limit and no usage."""
        self.reader.switch_all()

    def action_kind(self) -> None:
        """Switch between standard and preemptible quotas."""
        self._spot = not self._spot
        self.reload()

    def action_next(self) -> None:
        """Scroll the columns right."""
        self._first += 1
        self.reload()

    def action_previous(self) -> None:
        """Scroll the columns left."""
        self._first -= 1
        self.reload()

    def action_sort(self) -> None:
        """Sort by name, or with fitting and own regions first."""
        self._by_name = not self._by_name
        self.reload()

    def action_list(self) -> None:
        """Open the flat list of every metric."""
        self.app.push_screen(QuotasScreen())

    def action_profile(self) -> None:
        """Choose the profile to fit."""
        options = [(e.name, Content(plain(e.name))) for e in self.console.profiles.entries if not e.problem]
        current = self._profile.name if self._profile else ""
        self.app.push_screen(PickScreen("Where would it fit?", options, current), self._chosen_profile)

    def _chosen_profile(self, name: str | None) -> None:
        if name is not None:
            self._profile = next((e for e in self.console.profiles.entries if e.name == name), None)
            self.reload()

    def action_open(self) -> None:
        """Show the jobs that use the quotas of this region, and the age of each value."""
        region = self.table.cursor or ""
        self.app.push_screen(MessageScreen(f"Quotas of {region}", self._details(region)))

    def _details(self, region: str) -> str:
        chosen = self._chosen_words()
        cells = [cell for cell in (self._grid.cell(region, word) for word in chosen) if cell.offered]
        reported = [cell for cell in cells if cell.quota is not None]
        lines = [f"{'':<19}{'limit':>7}{'used':>7}{'free':>7}  age of the data"] if reported else []
        lines += [self._line(cell.quota) for cell in reported if cell.quota is not None]
        if len(cells) > len(reported):
            lines.append(f"{len(cells) - len(reported)} more of this kind without a reported quota")
        jobs = self._users(region, chosen)
        lines += [
            "",
            "Jobs of this console that use the quota or wait for it:" if jobs else "No job uses the quota.",
            *(f"  {job.state.value.lower():<10} {job.display_name}   {parts}" for job, parts in jobs),
        ]
        for kind, fit in zip(("spot", "standard"), self._fits.get(region, ()), strict=False):
            lines += ["", f"{kind}: {fit.brief}", f"  {fit.sentence}"]
        return "\n".join(lines)

    def _users(self, region: str, chosen: Sequence[str]) -> list[tuple[Job, str]]:
        """Return the active jobs that use the chosen quotas in a region, and the amounts."""
        active = self.console.store.active.values()
        if region in self._grid.clusters:
            # Pods of any namespace are on the cluster's nodes.
            context = region.rpartition("/")[0]
            return [(job, accelerators(job)) for job in active if not context or job.context == context]
        metrics = [metric(word, preemptible=self._spot) for word in chosen]
        return [
            (job, ", ".join(f"{n:,} {short_name(name)}" for name, n in usage.items()))
            for job, usage in users(active, region, metrics)
        ]

    def _line(self, quota: Quota) -> str:
        def word(value: int | None) -> str:
            return NOT_MEASURED if value is None else "∞" if value == UNLIMITED else f"{value:,}"

        ages = {
            name: age(self.console.clock() - at)
            for name, at in (("use", quota.used_at), ("limit", quota.limit_read_at))
            if at is not None
        }
        old = ", ".join(f"{name} {old} ago" for name, old in ages.items())
        if len(ages) == 2 and len(set(ages.values())) == 1:
            old = f"{ages['use']} ago"
        figures = "".join(f"{word(value):>7}" for value in (quota.limit, quota.used, quota.free))
        old += f", {ESTIMATED}" if quota.estimated else ""
        return f"{short_name(quota.hardware or quota.metric):<19}{figures}  {old}"

    def _chosen_words(self) -> list[str]:
        chosen = self.table.chosen_column
        return [chosen] if chosen in self._grid.words else self._grid.words

    def action_request(self) -> None:
        """Show and copy the link to the page for requesting more quota."""
        region, session = self.table.cursor or "", self.session
        if session is None or session.backend.info.local:
            self.console.notify("The emulator's quotas are set in its config.yaml.", markup=False)
            return
        name = self._metric_to_request(region)
        link = request_link(session.backend.info.project, name, region.rpartition("/")[2])
        self.console.send_copy(link, "the link")
        self.app.push_screen(MessageScreen(f"Request more: {short_name(name)} in {region}", link))

    def _metric_to_request(self, region: str) -> str:
        """Return the metric to request: the chosen column's metric, else a metric that the profile lacks,
        else the fullest metric."""
        if self.table.chosen_column in self._grid.words:
            return metric(self.table.chosen_column, preemptible=self._spot)
        pair: Mapping[bool, Fit] = dict(zip((True, False), self._fits.get(region, ()), strict=False))
        if self._spot in pair and pair[self._spot].short:
            return pair[self._spot].short[0].metric
        fullest = max(self._grid.words, key=lambda word: self._grid.cell(region, word).share or 0)
        return metric(fullest, preemptible=self._spot)

    async def action_back(self) -> None:
        """Clear the chosen column, the filter or the profile; then open the jobs."""
        if self.table.chosen_column:
            self.table.choose_column("")
        elif self._profile is not None and not self.query_one(FilterBar).text:
            self._profile = None
            self.reload()
        else:
            await super().action_back()


def _fit_text(spot: Fit, standard: Fit) -> Content:
    if spot.hardware:
        return Content.styled(plain(f"✗ no {spot.hardware} here"), "$text-muted")
    parts: list[Content] = []
    for kind, fit in (("spot", spot), ("standard", standard)):
        mark, _, rest = fit.brief.partition(" ")
        tone = {"fits": "$text-success", "short": "$text-error"}.get(fit.status, "$text-warning")
        tail = f" ({rest})" if rest and fit.status == "short" else ""
        parts.append(Content.assemble((f"{mark} {kind}", tone), (plain(tail), "$text-muted")))
    return Content("  ").join(parts)
