"""Every replica and GPU of all running jobs, or of one job, as a heat map of one measure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from textual import on
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from tui.actions.availability import ActionSelection
from tui.actions.registry import Action, bindings
from tui.domain.core.formatting import age, pieces
from tui.domain.core.job import Job
from tui.domain.core.text import clip, plain
from tui.screens.context_line import SEP, connection_text, show_not_reached, summary
from tui.screens.dialogs.message import show_unread
from tui.screens.frame import FrameScreen
from tui.screens.workers import background
from tui.store.job.figures import Measure
from tui.store.jobs.fleet import FleetFeed, at_work
from tui.widgets.header_lines import Line
from tui.widgets.heat_map.fleet_rows import FleetRows, HeatCell, cell_text, fleet_rows, row_key
from tui.widgets.heat_map.heat_map import HeatMap
from tui.widgets.heat_map.layout import HeatRow
from tui.widgets.heat_map.scale import LEVELS, legend, palette
from tui.widgets.notice import Notice

LEGEND_FROM = 118
"""Minimum width at which the legend fits in the second line."""
MEASURES = tuple(Measure)


class FleetScreen(FrameScreen):
    """A heat map that reads only while it is shown. With `job_name`, it shows only that job."""

    SCOPE = "fleet"
    CSS_PATH = "screen.tcss"
    BINDINGS = bindings("fleet")

    def __init__(
        self,
        job_name: str = "",
        measure: Measure = Measure.UTILIZATION,
        *,
        open_replica: Callable[[str], None] | None = None,
    ) -> None:
        """Set the map. `open_replica` shows a replica on the job's screen below this screen."""
        super().__init__()
        self.job_name = job_name
        self._open_replica = open_replica
        self.measure = measure
        self.feed: FleetFeed | None = None
        self.paused = False
        self._rows = FleetRows((), {}, 0, 0, False)

    @property
    def heat_map(self) -> HeatMap:
        """The screen's map."""
        return self.query_one(HeatMap)

    def compose_body(self) -> Iterable[Widget]:
        yield HeatMap()
        yield Notice()
        yield Static("", id="legend", markup=False)
        yield Static("", id="spot", markup=False)

    def on_mount(self) -> None:
        self.heat_map.focus()
        self.set_interval(1.0, self._tick)
        self.console.jobs_changed.subscribe(self, lambda _: self.reload())
        self.console.connection_changed.subscribe(self, lambda _: self._read())

    def on_screen_resume(self) -> None:
        self._read()
        self.reload()

    def on_screen_suspend(self) -> None:
        self.workers.cancel_group(self, "fleet")
        self._reading = False

    _reading = False

    def _read(self) -> None:
        """Start reading once there is a connection, and again after another context was opened."""
        session = self.session
        if session is None or not self.is_current:
            return
        if self.feed is None or self.feed.session is not session:
            self.feed, self._reading = FleetFeed(session, self.jobs, self.reload), False
        if not self._reading:
            self._reading = True
            self.feed.show(self.measure)
            background(self, self.feed.run, "fleet")

    def jobs(self) -> list[Job]:
        """Return the jobs to show: all active jobs, or only `job_name`."""
        known = self.console.store.jobs
        if self.job_name:
            return [known[self.job_name]] if self.job_name in known else []
        return at_work(list(known.values()))

    # Content

    def _tick(self) -> None:
        if self.is_current:
            self.reload()

    def on_resize(self) -> None:
        self.refresh_frame()

    def reload(self) -> None:
        """Show the current values."""
        if self.paused or not self.is_mounted or not self.is_current:
            return
        jobs, feed = self.jobs(), self.feed
        if feed is not None:
            self._rows = fleet_rows(jobs, feed.of, self.measure, self.console.clock())
            self.heat_map.show(self._rows.groups)
        self.heat_map.display = bool(jobs)
        self._show_notice(jobs)
        self._show_cell_text()
        self.refresh_frame()

    def _show_notice(self, jobs: list[Job]) -> None:
        notice, feed = self.query_one(Notice), self.feed
        if show_not_reached(self.console, notice, alone=not jobs):
            return
        if not jobs and self.console.store.read_at is None:
            notice.show("Reading jobs…")
        elif not jobs:
            headline = "This job no longer exists." if self.job_name else "No job is running."
            notice.show(headline, "", "The machines of running jobs appear here.   1 jobs   2 profiles")
        elif feed is not None and feed.errors:
            names = [plain(name) for name in feed.errors]
            more = f" and {len(names) - 1} more" if len(names) > 1 else ""
            error = next(iter(feed.errors.values()))
            notice.show(
                f"Metrics of {names[0]}{more} can't be read", error.message, "W why", bad=True, alone=False
            )
        else:
            notice.hide()

    def current_cell(self) -> HeatCell | None:
        """Return the cell under the cursor."""
        cursor = self.heat_map.cursor
        spots = self._rows.spots.get(cursor[0], ()) if cursor else ()
        return spots[cursor[1]] if cursor and cursor[1] < len(spots) else None

    def _show_cell_text(self) -> None:
        spot, feed = self.current_cell(), self.feed
        text = Content("")
        if spot is not None and feed is not None:
            known = feed.of(spot.job)
            figure = known.figure(self.measure, spot.replica, spot.accelerator)
            step = known.step(spot.replica)
            text = cell_text(spot, figure, self.measure, self.console.clock(), step)
        self._put("#spot", text)
        narrow = self.size.width < LEGEND_FROM
        self.query_one("#legend").display = narrow
        if narrow:
            self._put("#legend", self._legend())

    def _put(self, selector: str, text: Content) -> None:
        """Show a line if its text has changed."""
        line = self.query_one(selector, Static)
        shown = text.truncate(max(8, self.size.width - 2), ellipsis=True)
        if line.content != shown:
            line.update(shown, layout=False)

    def _legend(self) -> Content:
        low, high = ("1", "256+ steps") if self.measure is Measure.LAG else ("10%", "100%")
        return legend(palette(self), low, high, ascii_only=self.ascii_only)

    # Lines

    def top_line(self) -> Line:
        console = self.console
        if self.job_name:
            job = console.store.jobs.get(self.job_name)
            name = plain(job.display_name) if job else self.job_name.rpartition("/")[2]
            crumb = Content.assemble(
                (f"{plain(console.context_name)} ▸ Jobs ▸ {clip(name, 40)} ▸ ", "$text-muted"),
                ("Fleet", "bold"),
            )
            return crumb, connection_text(console.connection)
        left = Content.assemble(
            ("vxtui", "bold $accent"), SEP, (plain(console.context_name), "bold"), SEP, summary(console)
        )
        return left, connection_text(console.connection)

    def second_line(self) -> Line:
        rows = self._rows
        parts: list[Content | str | tuple[str, str]] = [("Fleet", "bold"), SEP]
        if not self.job_name:
            parts += [pieces(len(self.jobs()), "job"), SEP]
        parts.append(pieces(rows.replicas, "replica"))
        if rows.gpus:
            parts += [SEP, pieces(rows.gpus, "GPU")]
        parts += [SEP, (self.measure.value, "bold $accent")]
        if rows.simulated:
            parts += [SEP, ("simulated", "bold $text-warning")]
        if self.paused:
            parts += [SEP, ("paused", "bold $text-warning")]
        right = self._legend() if self.size.width >= LEGEND_FROM else self._read_text()
        return Content.assemble(*parts), right

    def _read_text(self) -> Content:
        feed = self.feed
        if feed is not None and feed.read_at is None and feed.errors:
            return Content("")
        if feed is None or feed.read_at is None:
            return Content.styled("reading…", "$text-muted")
        return Content.styled(f"read {age(self.console.clock() - feed.read_at)} ago", "$text-muted")

    # Actions

    def selection(self, scope: str) -> ActionSelection:
        cell = self.current_cell()
        return replace(super().selection(scope), current=cell.job if cell is not None else None)

    def unmet(self, condition: str, action: Action) -> str:
        match condition:
            case "cell":
                return "No replica is selected." if self.current_cell() is None else ""
            case "failure":
                return "" if self.feed and self.feed.errors else "Everything could be read."
        return super().unmet(condition, action)

    @on(HeatMap.Moved)
    def _moved(self) -> None:
        self._show_cell_text()
        self.refresh_frame()

    @on(HeatMap.Chosen)
    def _chosen(self) -> None:
        self.action_open()

    def action_open(self) -> None:
        """Open the job, at the replica under the cursor."""
        spot = self.current_cell()
        if spot is None:
            return
        if self._open_replica is not None:
            self.dismiss()
            self._open_replica(spot.replica)
        else:
            self.console.open_job(spot.job.name, spot.replica)

    def action_measure(self) -> None:
        """Show the next measure."""
        self.measure = MEASURES[(MEASURES.index(self.measure) + 1) % len(MEASURES)]
        if self.feed is not None:
            self.feed.show(self.measure)
        self.reload()

    def action_worst(self) -> None:
        """Go to the worst cell: the least busy, or the furthest behind."""
        sign = 1 if self.measure is Measure.LAG else -1

        def score(row: HeatRow, cell: int) -> float:
            code = row.cells[cell]
            return sign * code if 0 <= code <= LEVELS else float("-inf")

        self.heat_map.seek(score)

    def action_pause(self) -> None:
        """Pause or resume the screen."""
        self.paused = not self.paused
        self.reload()

    def action_shell(self) -> None:
        """Open a shell in the replica under the cursor."""
        from tui.screens.shell import open_shell  # noqa: PLC0415 - rarely used

        spot = self.current_cell()
        if spot is not None:
            open_shell(self.console, spot.job, spot.replica)

    def action_copy(self) -> None:
        """Copy the replica's name."""
        spot = self.current_cell()
        if spot is not None:
            self.console.send_copy(spot.replica, "the replica's name")

    def action_why(self) -> None:
        """Show every read error in full."""
        show_unread(self.app, self.feed.errors.items() if self.feed else ())

    async def action_back(self) -> None:
        """Return to the job, or to the jobs."""
        if self.job_name:
            self.dismiss()
        else:
            await self.action_do("app.jobs")

    def refresh_here(self) -> None:
        if self.feed is not None:
            self.feed.kick()

    def go_to(self, job: Job, replica: str) -> None:
        """Put the cursor on a replica."""
        self.heat_map.move_to(row_key(job, replica))
