"""Persistent resources: state, replicas in use, cost while idle, and the jobs on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from textual import on
from textual.content import Content

from tui.actions.availability import ActionSelection
from tui.actions.registry import Action, bindings
from tui.domain.core.formatting import pieces
from tui.domain.core.job import Job
from tui.domain.core.text import plain
from tui.domain.fields.field import columns
from tui.domain.fields.resources import RESOURCE_FIELDS, ResourceRow
from tui.domain.resources.persistent import ERROR, RUNNING, PersistentResource, jobs_on
from tui.domain.resources.regional import with_kept
from tui.screens.flat_rows import FlatRows, RegionalItems
from tui.screens.list_screen import ListScreen
from tui.screens.polling import Polled
from tui.screens.resources.details import detail_lines
from tui.session import Session
from tui.widgets.table.cells import row_cells
from tui.widgets.table.table import Cells, Table

if TYPE_CHECKING:
    from tui.actions.operations.resources import ResourceOperations

POLLED = Polled(
    "resources",
    "persistent resources",
    (
        "No persistent resources here.",
        "Jobs on a persistent resource start without waiting for machines; the resource costs money "
        "until it is deleted.\nvxtui resources create NAME --from PROFILE creates one",
    ),
)
COLUMNS = columns(RESOURCE_FIELDS)
WHILE_CHANGING = 2.0
"""Seconds between reads while a resource is provisioned, updated, rebooted or deleted."""


class ResourcesScreen(ListScreen):
    """Persistent resources, with their cost while idle."""

    SCOPE = "resources"
    HEADING = "Persistent resources"
    PLACEHOLDER = "name, state, region or machine"
    BINDINGS = bindings("resources")

    def __init__(self) -> None:
        super().__init__()
        self.rows = FlatRows(self, POLLED, "resource", read=self._read, text=_text, cells=self._cells)
        self.polling = self.rows.polling
        self.rows.polling.every = self._every

    def make_table(self) -> Table:
        return Table(COLUMNS)

    def on_mount(self) -> None:
        self.console.jobs_changed.subscribe(self, lambda _: self.reload())
        self.console.prices_changed.subscribe(self, lambda _: self.reload())

    def _every(self, session: Session) -> float | None:
        changing = any(resource.changing for resource in self.rows.items)
        return WHILE_CHANGING if changing else self.rows.polling.usual(session)

    async def _read(self, session: Session) -> RegionalItems[PersistentResource]:
        answer = await session.backend.resources.list_all()
        self.console.standing.resources = with_kept(answer.items, answer.errors, self.rows.items)
        return answer

    # Content

    def reload(self) -> None:
        self.rows.reload()

    def tick(self) -> None:
        super().tick()
        if self.is_current:
            # The ages change.
            self.reload()

    def count_text(self) -> str:
        return self.rows.count_text()

    def _cells(self, resource: PersistentResource) -> Cells:
        costs, region = self.console.costs, resource.region
        rate, idle = (costs.parts_rate(parts, region) for parts in (resource.parts(), resource.idle_parts()))
        return row_cells(COLUMNS, ResourceRow(resource, self._jobs, self.console.clock(), rate, idle))

    @property
    def _jobs(self) -> Sequence[Job]:
        return list(self.console.store.jobs.values())

    def order_text(self) -> Content:
        parts = [part for resource in self.rows.shown for part in resource.idle_parts()]
        if not parts or self.console.costs.prices is None:
            return Content("")
        rates = [
            self.console.costs.parts_rate(resource.idle_parts(), resource.region)
            for resource in self.rows.shown
        ]
        text = self.console.costs.sum_text(rates)
        would = "would cost " if self.console.bills_nothing else ""
        return Content.styled(f"idle machines {would}{text}", "$text-muted" if would else "$text-warning")

    # Actions

    def selection(self, scope: str) -> ActionSelection:
        resource = self.rows.chosen
        return replace(super().selection(scope), context=resource.context if resource is not None else "")

    def unmet(self, condition: str, action: Action) -> str:
        resource = self.rows.chosen
        if resource is None:
            return "No resource is selected."
        name, jobs = plain(resource.id), jobs_on(resource, self._jobs)
        match condition:
            case "resource":
                return ""
            case "jobs":
                return "" if jobs else f"No job runs on {name} or waits for it."
            case "rebootable" if resource.state not in {RUNNING, ERROR}:
                return f"{name} is {resource.state.lower()}; reboot it afterwards."
            case "rebootable" if jobs:
                return f"{pieces(len(jobs), 'job')} on {name}: a resource with jobs can't be rebooted."
            case "rebootable":
                return ""
            case "deletable":
                return f"{name} is already being deleted." if resource.state == "STOPPING" else ""
        return super().unmet(condition, action)

    @on(Table.Chosen)
    async def _chosen(self) -> None:
        await self.action_do("resources.open")

    def action_copy(self) -> None:
        """Copy the resource name."""
        self.rows.copy_name()

    def action_open(self) -> None:
        """Show all details of the resource."""
        from tui.screens.dialogs.message import MessageScreen  # noqa: PLC0415 - most looks are at the list

        resource = self.rows.chosen
        if resource is not None:
            lines = detail_lines(resource, self._jobs, self.console.costs, self.console.clock())
            self.app.push_screen(MessageScreen(f"Persistent resource {resource.id}", "\n".join(lines)))

    def action_jobs(self) -> None:
        """Choose one of the resource's jobs and open it."""
        from tui.screens.dialogs.pick import PickScreen  # noqa: PLC0415
        from tui.screens.jobs.job_actions import choices  # noqa: PLC0415

        resource = self.rows.chosen
        if resource is None:
            return
        on_it = jobs_on(resource, self._jobs)
        options = [
            (key, Content.assemble(plain(job.display_name), "  ", words))
            for job, (key, words) in zip(on_it, choices(on_it, self.console.clock()), strict=True)
        ]

        def chosen(name: str | None) -> None:
            if name is not None:
                self.console.open_job(name)

        self.app.push_screen(PickScreen(f"Jobs on {resource.id}", options), chosen)

    def action_reboot(self) -> None:
        """Reboot the resource's machines after confirmation."""
        resource, operations = self.rows.chosen, self._operations()
        if resource is not None and operations is not None:
            question = f"Reboot {resource.id} ({_size(resource)})?"
            self.rows.confirm(question, resource, lambda: operations.reboot(resource))

    def action_delete(self) -> None:
        """Delete the resource after a confirmation that names the jobs it cancels."""
        resource, operations = self.rows.chosen, self._operations()
        if resource is None or operations is None:
            return
        jobs = jobs_on(resource, self._jobs)
        ends = f", which cancels {pieces(len(jobs), 'job')}" if jobs else ""
        question = f"Delete {resource.id} ({_size(resource)}){ends}?"
        more = [f"{job.display_name}  {job.state.value.lower()}" for job in jobs]
        self.rows.confirm(question, resource, lambda: operations.delete(resource), more)

    def _operations(self) -> ResourceOperations | None:
        return self.console.operations.resources()


def _text(resource: PersistentResource) -> str:
    machines = " ".join(pool.machine for pool in resource.pools)
    state = "idle" if resource.idle else "in use"
    return f"{resource.id} {resource.display_name} {resource.state} {state} {resource.region} {machines}"


def _size(resource: PersistentResource) -> str:
    machines = dict.fromkeys(pool.machine_type for pool in resource.pools)
    return f"{pieces(resource.replicas, 'replica')}, {', '.join(machines)}"
