"""Schedules: next run, number of runs, and the state of the last run."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import takewhile
from typing import TYPE_CHECKING

from textual import on

from tui.actions.availability import ActionSelection
from tui.actions.registry import Action, bindings
from tui.domain.core.formatting import pieces
from tui.domain.core.job import Job
from tui.domain.core.text import plain
from tui.domain.fields.field import columns
from tui.domain.fields.schedules import SCHEDULE_FIELDS, ScheduleRow
from tui.domain.schedules.schedule import ACTIVE, COMPLETED, Schedule
from tui.screens.flat_rows import FlatRows
from tui.screens.list_screen import ListScreen
from tui.screens.polling import Polled
from tui.screens.schedules.details import detail_lines
from tui.screens.workers import background
from tui.session import BackendError, Session
from tui.widgets.table.cells import row_cells
from tui.widgets.table.table import Cells, Table

if TYPE_CHECKING:
    from tui.actions.operations.schedules import ScheduleOperations

POLLED = Polled(
    "schedules",
    "schedules",
    (
        "No schedules here.",
        "A schedule runs a pipeline at the times of a cron expression.\n"
        "vxtui schedules create NAME --from PROFILE --cron '30 2 * * *' creates one",
    ),
)
COLUMNS = columns(SCHEDULE_FIELDS)
MOST_MISSED = 1000
"""Maximum number of missed runs that are counted."""


class SchedulesScreen(ListScreen):
    """Pipelines that run repeatedly."""

    SCOPE = "schedules"
    HEADING = "Schedules"
    PLACEHOLDER = "name, state, pipeline or cron"
    BINDINGS = bindings("schedules")

    def __init__(self) -> None:
        super().__init__()
        self.rows = FlatRows(
            self,
            POLLED,
            "schedule",
            read=lambda session: session.backend.schedules.list_all(),
            text=_text,
            cells=self._cells,
        )
        self.polling = self.rows.polling

    def make_table(self) -> Table:
        return Table(COLUMNS)

    # Content

    def reload(self) -> None:
        self.rows.reload()

    def tick(self) -> None:
        super().tick()
        if self.is_current:
            # The ages and the countdowns change.
            self.reload()

    def count_text(self) -> str:
        return self.rows.count_text()

    def _cells(self, schedule: Schedule) -> Cells:
        return row_cells(COLUMNS, ScheduleRow(schedule, self.console.clock()))

    # Actions

    def selection(self, scope: str) -> ActionSelection:
        schedule = self.rows.chosen
        return replace(super().selection(scope), context=schedule.context if schedule is not None else "")

    def unmet(self, condition: str, action: Action) -> str:
        schedule = self.rows.chosen
        if schedule is None:
            return "No schedule is selected."
        name = plain(schedule.display_name)
        match condition:
            case "schedule":
                return ""
            case "runs":
                return "" if schedule.started else f"{name} has started no run yet."
            case "pausable":
                completed = schedule.state == COMPLETED
                return f"{name} is completed; it has no more runs to pause." if completed else ""
        return super().unmet(condition, action)

    @on(Table.Chosen)
    async def _chosen(self) -> None:
        await self.action_do("schedules.open")

    def action_copy(self) -> None:
        """Copy the resource name."""
        self.rows.copy_name()

    def action_open(self) -> None:
        """Open the newest run. If none is known, list the runs."""
        schedule = self.rows.chosen
        if schedule is not None and schedule.last_run is not None:
            self.console.open_job(schedule.last_run.name, job=schedule.last_run)
        else:
            self.action_runs()

    def action_runs(self) -> None:
        """Read the schedule's runs, and choose one."""
        schedule, session = self.rows.chosen, self.session
        if schedule is not None and session is not None:
            background(self, partial(self._pick_run, schedule, session), "runs")

    async def _pick_run(self, schedule: Schedule, session: Session) -> None:
        from tui.screens.dialogs.pick import PickScreen  # noqa: PLC0415 - most looks are at the list
        from tui.screens.jobs.job_actions import choices  # noqa: PLC0415

        try:
            runs = await session.backend.schedules.runs(schedule.name)
        except BackendError as error:
            self.app.notify(error.message, severity="error", markup=False)
            return
        by_name: dict[str, Job] = {run.name: run for run in runs}

        def chosen(name: str | None) -> None:
            if name is not None:
                self.console.open_job(name, job=by_name[name])

        if self.is_current:
            title = f"Runs of {schedule.display_name}"
            none = "The schedule's runs were deleted."
            options = choices(runs, self.console.clock())
            self.app.push_screen(PickScreen(title, options, no_match=none), chosen)

    def action_details(self) -> None:
        """Show all details of the schedule."""
        from tui.screens.dialogs.message import MessageScreen  # noqa: PLC0415

        schedule = self.rows.chosen
        if schedule is not None:
            lines = detail_lines(schedule, self.console.clock())
            self.app.push_screen(MessageScreen(f"Schedule {schedule.display_name}", "\n".join(lines)))

    def action_pause(self) -> None:
        """Pause the schedule after confirmation, or resume it with or without its missed runs."""
        schedule, operations = self.rows.chosen, self._operations()
        if schedule is None or operations is None:
            return
        if schedule.state == ACTIVE:
            question = f"Pause {schedule.display_name} ({schedule.when})? Started runs continue."
            self.rows.confirm(question, schedule, lambda: operations.pause(schedule))
            return
        missed = self._missed(schedule)
        if not missed:
            resume = partial(operations.resume, schedule, catch_up=False)
            self.rows.confirm(f"Resume {schedule.display_name} ({schedule.when})?", schedule, resume)
            return
        from tui.screens.dialogs.pick import PickScreen, value_options  # noqa: PLC0415

        count = f"{missed} or more runs" if missed == MOST_MISSED else pieces(missed, "run")

        def chosen(key: str | None) -> None:
            if key is not None:
                self.rows.run(
                    partial(operations.resume, schedule, catch_up=key == "catch up"), f"resume {schedule.id}"
                )

        options = value_options(
            [
                ("leave out", f"continue with the next run, without the {count} that were due in the pause"),
                ("catch up", f"start the {count} that were due in the pause first"),
            ]
        )
        self.app.push_screen(PickScreen(f"Resume {schedule.display_name} ({schedule.when})", options), chosen)

    def action_delete(self) -> None:
        """Delete the schedule after confirmation."""
        schedule, operations = self.rows.chosen, self._operations()
        if schedule is not None and operations is not None:
            question = f"Delete the schedule {schedule.display_name} ({schedule.when})? Its runs stay."
            self.rows.confirm(question, schedule, lambda: operations.delete(schedule))

    def _missed(self, schedule: Schedule) -> int:
        """Return the number of runs due since the schedule was paused."""
        cron, now = schedule.read, self.console.clock()
        if cron is None or schedule.last_pause_time is None:
            return 0
        last = min(now, schedule.end_time) if schedule.end_time else now
        due = takewhile(lambda at: at <= last, cron.runs(schedule.last_pause_time))
        return sum(1 for _, _ in zip(range(MOST_MISSED), due, strict=False))

    def _operations(self) -> ScheduleOperations | None:
        return self.console.operations.schedules()


def _text(schedule: Schedule) -> str:
    words = (
        schedule.display_name,
        schedule.id,
        schedule.state,
        schedule.pipeline,
        schedule.cron,
        schedule.when,
        schedule.region,
    )
    return " ".join(words)
