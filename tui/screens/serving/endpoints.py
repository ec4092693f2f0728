"""Endpoints: their deployed versions, the split of the requests, and the cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from textual import on
from textual.content import Content

from tui.actions.availability import ActionSelection
from tui.actions.registry import Action, bindings
from tui.domain.core.formatting import pieces
from tui.domain.core.text import plain
from tui.domain.fields.endpoints import DEPLOYED_FIELDS, DeployedRow
from tui.domain.fields.field import columns
from tui.domain.resources.regional import with_changed, with_kept
from tui.domain.serving.load import Load
from tui.domain.serving.rollout import next_step
from tui.domain.serving.traffic import Deployed, ServingEndpoint
from tui.screens.context_line import SEP, WIDE
from tui.screens.dialogs.link import show_resource
from tui.screens.list_screen import ListScreen
from tui.screens.polling import Polled, Polling
from tui.screens.serving import server_log
from tui.screens.serving.base import muted
from tui.screens.serving.changes import EndpointChanges
from tui.screens.serving.models import ModelsScreen
from tui.session import BackendError, Session
from tui.widgets.filter_bar import FilterBar
from tui.widgets.table.cells import row_cells
from tui.widgets.table.table import Cells, Table

POLLED = Polled(
    "serving", "endpoints", ("No endpoints here yet.", "The SDK's Endpoint.create creates an endpoint.")
)
COLUMNS = columns(DEPLOYED_FIELDS)
BARS = ((180, 30), (0, 9))
"""Width of a traffic bar in cells, by minimum width of the screen."""


class EndpointsScreen(ListScreen):
    """A row per endpoint, and below it a row per deployed version."""

    SCOPE = "endpoints"
    HEADING = "Endpoints"
    PLACEHOLDER = "name, version, machine or region"
    BINDINGS = bindings("endpoints")

    polling: Polling

    def __init__(self) -> None:
        super().__init__()
        self.polling = Polling(
            self,
            POLLED,
            self._read,
            show=self.reload,
            forget=self._forget,
            has_rows=lambda: bool(self._endpoints),
        )
        self.changes = EndpointChanges(self, self.polling, self.reload, self._changed)
        self._endpoints: Sequence[ServingEndpoint] = ()
        self._loads: Mapping[tuple[str, str], Load] = {}
        self._unmeasured: BackendError | None = None
        """The reason why there are no metrics."""
        self._rows: dict[str, tuple[ServingEndpoint, Deployed | None]] = {}

    @property
    def _bar(self) -> int:
        return next(cells for least, cells in BARS if self.size.width >= least)

    def on_resize(self) -> None:
        """Adapt the bars to the new width."""
        if self.has_widgets:
            self.table.clear_widths()
            self.reload()

    def make_table(self) -> Table:
        return Table(COLUMNS)

    def _forget(self) -> None:
        self._endpoints, self._loads, self._unmeasured = (), {}, None

    def _changed(self, endpoint: ServingEndpoint) -> None:
        """Show the new state of an endpoint, before the list is read again."""
        self._endpoints = with_changed(self._endpoints, endpoint)
        self.reload()

    async def _read(self, session: Session) -> Mapping[str, BackendError]:
        serving = session.backend.serving
        endpoints = await serving.endpoints()
        self._endpoints = with_kept(endpoints.items, endpoints.errors, self._endpoints)
        self.console.standing.endpoints = self._endpoints
        self.reload()
        # The metrics come from another service, so the list does not wait for them.
        try:
            self._loads, self._unmeasured = await serving.loads(self._endpoints), None
        except BackendError as error:
            self._loads, self._unmeasured = {}, error
        return endpoints.errors

    def reload(self) -> None:
        words = self.query_one(FilterBar).text.casefold().split()
        now = self.console.clock()
        self._rows = {}
        cells: dict[str, Cells] = {}
        parents: dict[str, str] = {}
        for endpoint in self._endpoints:
            if not _fits(endpoint, words):
                continue
            self._rows[endpoint.name] = (endpoint, None)
            cells[endpoint.name] = self._cells(endpoint, None, now)
            for deployed in endpoint.deployed:
                key = f"{endpoint.name}/{deployed.id}"
                self._rows[key] = (endpoint, deployed)
                parents[key] = endpoint.name
                cells[key] = self._cells(endpoint, deployed, now)
            for begun in sorted(self.changes.deploying):
                if begun[0] == endpoint.name:
                    key = f"{endpoint.name}/{begun[1]}@{begun[2]}"
                    self._rows[key] = (endpoint, None)
                    parents[key] = endpoint.name
                    cells[key] = {
                        "name": muted(f"  {plain(begun[1])}"),
                        "version": muted(plain(begun[2])),
                        "traffic": Content.styled("◐ deploying", "$text-warning"),
                    }
        self.table.show(list(cells), cells, parents)
        self.table.display = bool(cells)
        self.polling.show_notice(shown=bool(cells), filtered=" ".join(words))
        self.refresh_frame()

    def _cells(self, endpoint: ServingEndpoint, deployed: Deployed | None, now: datetime) -> Cells:
        """Return the row of a version, or of the endpoint."""
        row = DeployedRow(endpoint, deployed, now)
        if deployed is not None:
            costs = self.console.costs
            cost = costs.rate_words(costs.serving_rate(deployed, endpoint.region))
            load = self._loads.get((endpoint.name, deployed.id))
            row = DeployedRow(endpoint, deployed, now, load, cost, self._bar)
        return row_cells(COLUMNS, row)

    def count_text(self) -> str:
        shown = len({endpoint.name for endpoint, _ in self._rows.values()})
        total = len(self._endpoints)
        if self.polling.is_unknown:
            return ""
        return pieces(total, "endpoint") if shown == total else f"{shown} of {pieces(total, 'endpoint')}"

    def order_text(self) -> Content:
        if self._unmeasured is not None:
            return Content.styled(plain(f"no figures: {self._unmeasured.message}"), "$text-warning")
        if not self._rows:
            return Content("")
        wide = self.size.width >= WIDE
        figures = muted("metrics of the last 5 min" if wide else "last 5 min")
        costs, free = self.console.costs, self.console.bills_nothing
        rate = costs.rates_text(
            costs.serving_rate(deployed, endpoint.region)
            for endpoint, deployed in self._rows.values()
            if deployed is not None
        )
        if not rate:
            return figures
        would = "would cost " if free else ""
        return Content.assemble((would + rate, "$text-muted" if free else ""), SEP, figures)

    # The row under the cursor

    @property
    def current(self) -> tuple[ServingEndpoint, Deployed | None] | None:
        """The endpoint under the cursor, and the version in the row, or None for a row without a version."""
        return self._rows.get(self.table.cursor or "")

    def selection(self, scope: str) -> ActionSelection:
        endpoint = self.current[0] if self.current is not None else None
        return replace(super().selection(scope), context=endpoint.context if endpoint is not None else "")

    def unmet(self, condition: str, action: Action) -> str:
        deployed = self.current[1] if self.current is not None else None
        match condition:
            case "endpoint":
                return "There is no endpoint here." if self.current is None else ""
            case "version":
                return "Move to a version below the endpoint." if deployed is None else ""
            case "next_step" if deployed is not None:
                last = next_step(deployed.percent) is None
                return f"Version {deployed.version} already receives all requests." if last else ""
        return super().unmet(condition, action)

    async def action_open(self) -> None:
        """Show this version among the models."""
        if self.current is None or self.current[1] is None:
            return
        deployed = self.current[1]
        await self.action_do("app.models")
        await self.app.switch_mode("models")
        if isinstance(self.app.screen, ModelsScreen):
            self.app.screen.point_at(f"{deployed.model.partition('@')[0]}@{deployed.version}")

    @on(Table.Chosen)
    async def _chosen(self) -> None:
        await self.action_do("endpoints.open")

    def action_link(self) -> None:
        """Open the endpoint's page."""
        if self.current is not None:
            endpoint = self.current[0]
            path = f"locations/{endpoint.region}/endpoints/{endpoint.id}"
            show_resource(self.console, endpoint.name, endpoint.display_name, path)

    def action_copy(self) -> None:
        """Copy the endpoint's resource name."""
        if self.current is not None:
            self.console.send_copy(self.current[0].name, "the resource name")

    def action_log(self) -> None:
        """Show the last lines of the version's server, or of all servers of the endpoint."""
        if self.current is not None:
            server_log.show(self, *self.current)

    # Changes

    def action_step(self) -> None:
        """Increase this version's percentage of the requests to the next step, after confirmation."""
        endpoint, deployed = self.current or (None, None)
        step = next_step(deployed.percent) if deployed is not None else None
        if endpoint is not None and deployed is not None and step is not None:
            self.changes.move(endpoint, deployed, step)

    def action_percent(self) -> None:
        """Ask for a percentage, and send this version that percentage of the requests."""
        if self.current is not None and self.current[1] is not None:
            self.changes.ask_percent(*self.current)

    def action_roll_back(self) -> None:
        """Restore the split before the last change, after confirmation."""
        if self.current is not None:
            self.changes.roll_back(self.current[0])

    def action_deploy(self) -> None:
        """Ask for a version, a machine and a percentage, and deploy the version."""
        if self.current is not None:
            self.changes.deploy(self.current[0])

    def action_undeploy(self) -> None:
        """Remove this version from the endpoint, after confirmation."""
        if self.current is not None and self.current[1] is not None:
            self.changes.undeploy(*self.current)


def _fits(endpoint: ServingEndpoint, words: Sequence[str]) -> bool:
    deployed = " ".join(
        f"{version.display_name} version {version.version} {version.id} {version.machine}"
        for version in endpoint.deployed
    )
    text = (
        f"{endpoint.display_name} {endpoint.id} {endpoint.region} {endpoint.context} {deployed}"
    ).casefold()
    return all(word in text for word in words)
