"""One job, in the tabs that its kind has: facts, replicas, log, figures, specification and events."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from functools import cache, partial
from pathlib import Path

from textual import on
from textual.content import Content
from textual.widget import Widget
from textual.widgets import ContentSwitcher, Static

from tui.actions.availability import ActionSelection
from tui.actions.registry import Action, actions, bindings
from tui.domain.core.formatting import NOT_MEASURED, lasted, silence_text, speed_text
from tui.domain.core.job import Job
from tui.domain.core.states import JobState
from tui.domain.core.text import clip, plain
from tui.domain.fields.cell import SILENT
from tui.kinds.kind import Kind, resolve
from tui.kinds.registry import kind_of, lost_runner
from tui.screens.console import preload
from tui.screens.dialogs.link import show_link
from tui.screens.dialogs.message import show_unread
from tui.screens.frame import FrameScreen
from tui.screens.job.events import EventsPane
from tui.screens.job.logs import LogsPane
from tui.screens.job.pane import JobPane
from tui.screens.job.replicas import ReplicasPane
from tui.screens.job.tasks import TasksPane
from tui.screens.jobs.copy_command import copy_command
from tui.screens.jobs.job_actions import confirm_cancel, confirm_delete
from tui.screens.workers import background
from tui.session import Session
from tui.store.job.data_source import DataSource
from tui.store.job.feed import Changed, JobFeed
from tui.store.jobs.connection_state import ConnectionStatus, not_reached
from tui.store.jobs.table import JobChange
from tui.widgets.header_lines import Line, clickable
from tui.widgets.log.view import LogView
from tui.widgets.notice import Notice
from tui.widgets.state import state_content
from tui.widgets.table.table import Table

MIN_NAME = 16
WIDE = 100
"""Minimum width at which the job's cost fits in the first line."""


class JobScreen(FrameScreen):
    """The screen of one job. The screen reads the job until it is closed."""

    SCOPE = "job"
    CSS_PATH = "screen.tcss"
    BINDINGS = bindings(
        "logs", "replicas", "tasks", "pipeline", "trials", "metrics", "attempts", "spec", "job_events", "job"
    )

    def __init__(
        self,
        session: Session,
        job_name: str,
        log_folder: Path | None = None,
        replica: str = "",
        kind: Kind | None = None,
        *,
        tab: str = "",
    ) -> None:
        """Set the job and the first `replica` or `tab`. Without a `kind`, use the first kind's screen."""
        super().__init__(session)
        self.kind, self.job_name = kind or kind_of(None), job_name
        self._first_replica = replica
        self.feed = JobFeed(session, job_name, self._changed, log_folder)
        self.panes: dict[str, JobPane] = {tab.key: resolve(tab.pane)(self.feed) for tab in self.kind.tabs}
        """Panes by the key of the tab."""
        self._pane = self.panes.get(tab) or next(iter(self.panes.values()))
        self._switcher = ContentSwitcher(initial=self._pane.id)
        self._status_line = Static("", id="status-line", markup=False)
        self._gone_notice = Notice(id="gone")
        self._kind_target = resolve(self.kind.target)(self) if self.kind.target else None
        self.paused = False
        self._context_live = True
        """Whether the context was reached when its connection last changed."""
        self._stale = dict.fromkeys((pane.id for pane in self.panes.values()), ~Changed(0))

    @property
    def job(self) -> Job | None:
        """The job as last read."""
        return self.feed.job

    @property
    def pane(self) -> JobPane:
        """The visible tab."""
        return self._pane

    def compose_body(self) -> Iterable[Widget]:
        yield self._status_line
        with self._switcher:
            yield from self.panes.values()
        yield self._gone_notice

    def on_mount(self) -> None:
        listed = self.console.store.jobs.get(self.job_name)
        if listed is not None:
            self.feed.know(listed, self.console.connection.as_of(listed))
        self.console.jobs_changed.subscribe(self, self._jobs_changed)
        self.console.connection_changed.subscribe(self, self._connection_changed)
        background(self, self.feed.run, "job feed")
        background(self, partial(preload.import_in_pause, self.console, preload.CHARTS), "charts")
        self.set_interval(1.0, self._tick)
        if self._first_replica:
            self.show_replica(self._first_replica)
        else:
            self._open(self.pane)

    def show_replica(self, name: str) -> None:
        """Open the Replicas tab with the cursor on a replica."""
        replicas = self._tab("replicas")
        if isinstance(replicas, ReplicasPane):
            replicas.select(name)

    def on_unmount(self) -> None:
        self.feed.close()

    # Updates

    def _jobs_changed(self, change: JobChange) -> None:
        """Read this job immediately when the list drops it, because an ended job is rarely read."""
        if self.job_name in change.removed:
            self.feed.kick()

    def _connection_changed(self, _status: ConnectionStatus) -> None:
        """Use the new session after a reconnect, because the old session is closed."""
        session = self.console.session
        if session is not None and session is not self.feed.session:
            self.feed.use(session)
        elif self.console.live and not self._context_live:
            self.feed.kick(failing=True)
        self._context_live = self.console.live

    def _changed(self, changed: Changed) -> None:
        for pane in self.panes.values():
            self._stale[pane.id] |= changed & pane.NEEDS
        if self.has_widgets:
            self._refresh_pane()
            if changed & Changed.JOB:
                self._show_gone()
            if changed & (Changed.JOB | Changed.TRAINING_STEPS | Changed.SOURCES):
                self.refresh_frame()

    def _refresh_pane(self) -> None:
        pane = self.pane
        changed = self._stale[pane.id]
        if changed and pane.is_mounted and not pane.boundary.failed:
            self._stale[pane.id] = Changed(0)
            pane.show(changed)
            self.refresh_frame()
            self.call_after_refresh(self._keep_focus)

    def _show_gone(self) -> None:
        """Show that the job was deleted, under the data that was read before."""
        if self.feed.gone and self.job is not None:
            headline = f"{plain(self.job.display_name)} was deleted."
            why = "The data read before stays here until you leave."
            self._gone_notice.show(headline, why, "esc goes back", bad=True, alone=False)

    def _keep_focus(self) -> None:
        """Focus the pane again, because an empty pane hides its widget, which loses the focus."""
        rest = self.pane.default_focus()
        if rest is not None:
            self.keep_focus(rest)

    def _tick(self) -> None:
        if self.is_current and not self.paused:
            if not self.pane.boundary.failed:
                self.pane.tick()
            self.refresh_frame()
            self._keep_focus()

    def on_screen_resume(self) -> None:
        super().on_screen_resume()
        self._refresh_pane()

    def on_resize(self) -> None:
        self.refresh_frame()

    def refresh_here(self) -> None:
        pane = self.pane
        if pane.boundary.retry():
            self._stale[pane.id] |= pane.NEEDS
            self._refresh_pane()
        self.feed.kick()

    # Lines

    def top_line(self) -> Line:
        job, now = self.job, self.feed.as_of()
        info = self.feed.session.backend.info
        name = plain((job.display_name or job.id) if job else self.job_name.rpartition("/")[2])
        state: list[Content | str | tuple[str, str]] = []
        figures = self._figures()
        if job is not None:
            state = ["   ", state_content(job.state), f" {lasted(job, now)}"]
            cost = self._spent(job, now)
            if cost:
                state.append((f"  {cost}", "$text-muted"))
        tail = Content.assemble(*state)
        parent = self.parent_job
        of = f"{plain(parent.display_name or parent.id)} ▸ " if parent else ""
        crumb = f"{plain(info.name)} ▸ Jobs ▸ {of}"
        room = self.size.width - 3 - tail.cell_length - figures.cell_length
        least = min(len(name), MIN_NAME)
        if room < len(crumb) + least:
            crumb = f"▸ {of}" if room >= len(of) + 2 + least else "▸ "
        if room < len(crumb) + least:
            figures = Content("")
            room = self.size.width - 3 - tail.cell_length
        name = clip(name, max(8, room - len(crumb)))
        way = clickable(Content.styled(crumb, "$text-muted"), "app.jobs")
        return Content.assemble(way, (name, "bold"), tail), figures

    @property
    def parent_job(self) -> Job | None:
        """The job that runs this job as a part."""
        store = self.console.store
        listed = store.jobs.get(self.job_name)
        return store.parent_of(listed) if listed else None

    def _spent(self, job: Job, now: datetime) -> str:
        """Return the job's cost so far; "" if it is unknown or the line is narrow."""
        console = self.console
        text = console.costs.parts_spent_text(console.store.own_parts(job), now)
        if text == NOT_MEASURED or self.size.width < WIDE:
            return ""
        return ("would cost " if console.unbilled(job) else "") + text

    def _figures(self) -> Content:
        """Return the training's progress, or why it is unknown."""
        trouble, progress = self.feed.trouble, self.feed.progress
        if self.feed.gone:
            return Content.styled("deleted", "bold $text-error")
        if trouble is not None:
            words = self._not_reached(trouble)
            return Content.styled(f"{words}; ctrl+r tries again", "bold $text-error")
        parts: list[Content] = []
        if self.feed.runner_gone and self.job is not None:
            parts.append(Content.styled(lost_runner(self.job), "$text-warning"))
        if progress.step is not None:
            total = f"/{progress.total_steps:,}" if progress.total_steps else ""
            parts.append(Content(f"step {progress.step:,}{total}"))
        if progress.last_loss is not None:
            parts.append(Content(f"loss {progress.last_loss:.4g}"))
        silence = self.feed.silence
        if silence is not None:
            text = f"{SILENT} {silence_text(silence, self.feed.as_of('logs'))}"
            parts.append(Content.styled(text, "$text-warning"))
        elif progress.speed is not None:
            parts.append(Content(speed_text(progress.speed, progress.speed_unit)))
        return Content("   ").join(parts)

    def _not_reached(self, source: DataSource) -> str:
        """Return the unreadable source, or the entire context, and the duration of the failure."""
        name, since, console = source.name, source.failing_since, self.console
        if console.trouble is not None:
            name = plain(console.context_name)
            since = min(filter(None, (since, console.connection.status.since)), default=None)
        return not_reached(name, since, self.feed.now())

    def second_line(self) -> Line:
        """Return the tabs and the status of the visible tab. A long status gets a separate line."""
        tabs, note = self._tabs(), self._status()
        fits = tabs.cell_length + note.cell_length <= self.size.width - 3
        self._show_status_line(Content("") if fits else note)
        return tabs, note if fits else Content("")

    def _tabs(self) -> Content:
        parts: list[Content | str | tuple[str, str]] = []
        for pane in self.panes.values():
            here = pane is self.pane
            tab = Content.styled(f" {pane.title()} ", "bold $accent reverse" if here else "$text-muted")
            parts += [clickable(tab, f"job.{pane.TITLE.lower()}"), " "]
        return Content.assemble(*parts)

    def _show_status_line(self, note: Content) -> None:
        line = self._status_line
        line.display = bool(note)
        text = note.truncate(self.size.width - 2, ellipsis=True)
        if line.display and line.content != text:
            line.update(text, layout=False)

    def footer_actions(self) -> list[Action]:
        """Put the actions on an ended job first, because little is left to follow.

        While the job runs, its keys use the room that cloning would take. A suspended job is resumed.
        """
        shown = super().footer_actions()
        if self.job is not None and self.job.state is JobState.SUSPENDED:
            resume = (action for action in actions(self.kind.scope) if action.operation == "job.resume")
            shown = [*(action for action in resume if self.blocked_reason(action) is None), *shown]
        if self.job is None or not self.job.state.terminal:
            return [action for action in shown if action.id != "job.clone"]
        return sorted(shown, key=lambda action: action.scope != "job" or not action.mutates)

    def _status(self) -> Content:
        note = self.pane.status()
        return Content.assemble(("paused", "bold $text-warning"), "   ", note) if self.paused else note

    # Tabs

    def _open(self, pane: JobPane) -> None:
        self._pane, self._switcher.current = pane, pane.id
        rest = pane.default_focus()
        if rest is not None:
            rest.focus()
        self._stale[pane.id] = ~Changed(0)
        self.call_after_refresh(self._refresh_pane)
        self.refresh_frame()

    def _beside(self, way: int) -> None:
        panes = list(self.panes.values())
        self._open(panes[(panes.index(self.pane) + way) % len(panes)])

    def _tab(self, key: str) -> JobPane | None:
        """Open a tab. Return `None` if this kind of job has no such tab."""
        pane = self.panes.get(key)
        if pane is not None:
            self._open(pane)
        return pane

    @on(ReplicasPane.ReplicaLogRequested)
    def _replica_log_requested(self, event: ReplicasPane.ReplicaLogRequested) -> None:
        logs = self._tab("logs")
        if isinstance(logs, LogsPane):
            logs.select_replica(event.replica)

    @on(EventsPane.LogLineRequested)
    def _log_line_requested(self, event: EventsPane.LogLineRequested) -> None:
        logs = self._tab("logs")
        if isinstance(logs, LogsPane):
            logs.call_after_refresh(logs.go_to, event.line)

    @on(TasksPane.JobRequested)
    def _job_requested(self, event: TasksPane.JobRequested) -> None:
        self.console.open_job(event.name, tab=event.tab)

    @on(Table.Moved)
    @on(LogView.Moved)
    def _moved(self) -> None:
        self.refresh_for_cursor()

    # Running actions

    def scopes(self) -> tuple[str, ...]:
        if not self.is_mounted:
            return ("job", "app")
        return (*self.pane.scopes(), self.kind.scope, "job", "app")

    def target(self, action: Action) -> object:
        if action.scope in {"job", "app"}:
            return super().target(action)
        if action.scope == self.kind.scope:
            return self._kind_target
        return next((pane for pane in self.panes.values() if action.scope in pane.scopes()), self)

    def selection(self, scope: str) -> ActionSelection:
        job = self.pane.selected_job if scope == self.pane.SCOPE else self.job
        return replace(super().selection(scope), current=job)

    def unmet(self, condition: str, action: Action) -> str:
        if action.scope == self.pane.SCOPE:
            return self.pane.unmet(condition, action)
        job, noun = self.job, self.kind.words.noun
        match condition:
            case "job" if job is None:
                return "The job is not known yet."
            case "job":
                return f"{plain(job.display_name)} was deleted." if job and self.feed.gone else ""
            case "failure":
                return "Everything could be read." if self.feed.trouble is None else ""
            case "tab":
                has_tab = self.kind.has(action.method.removeprefix("tab_"))
                return "" if has_tab else f"A {noun} has no {action.label}."
        return super().unmet(condition, action)

    # Actions

    def action_next_tab(self) -> None:
        """Open the next tab."""
        self._beside(1)

    def action_previous_tab(self) -> None:
        """Open the previous tab."""
        self._beside(-1)

    def action_tab_overview(self) -> None:
        """Open Overview."""
        self._tab("overview")

    def action_tab_replicas(self) -> None:
        """Open Replicas."""
        self._tab("replicas")

    def action_tab_logs(self) -> None:
        """Open Logs."""
        self._tab("logs")

    def action_tab_metrics(self) -> None:
        """Open Metrics."""
        self._tab("metrics")

    def action_tab_attempts(self) -> None:
        """Open Attempts."""
        self._tab("attempts")

    def action_tab_tasks(self) -> None:
        """Open Tasks."""
        self._tab("tasks")

    def action_tab_spec(self) -> None:
        """Open Spec."""
        self._tab("spec")

    def action_tab_events(self) -> None:
        """Open Events."""
        self._tab("events")

    def action_cancel(self) -> None:
        """Cancel the job, after confirmation."""
        if self.job is not None:
            confirm_cancel(self.console, [self._with_progress(self.job)])

    def action_delete(self) -> None:
        """Delete the job, after confirmation."""
        if self.job is not None:
            confirm_delete(self.console, [self._with_progress(self.job)])

    def _with_progress(self, job: Job) -> Job:
        """Return the job with the progress from the log, for the question."""
        return replace(job, progress=self.feed.progress)

    def action_shell(self) -> None:
        """Open a shell in a replica."""
        from tui.screens.shell import open_shell  # noqa: PLC0415 - rarely used

        if self.job is not None:
            open_shell(self.console, self.job)

    def action_stacks(self) -> None:
        """Show where the Python processes of each replica wait."""
        from tui.screens.shell import open_stacks  # noqa: PLC0415 - rarely used

        if self.job is not None:
            open_stacks(self.console, self.job)

    def action_fleet(self) -> None:
        """Show this job's machines as a heat map."""
        from tui.screens.fleet.screen import FleetScreen  # noqa: PLC0415 - rarely opened

        self.app.push_screen(FleetScreen(self.job_name, open_replica=self.show_replica))

    def action_pause(self) -> None:
        """Pause or resume the screen."""
        self.paused = not self.paused
        for pane in self.panes.values():
            pane.pause(self.paused)
        if not self.paused:
            self._stale = dict.fromkeys(self._stale, ~Changed(0))
            self._refresh_pane()

    def action_clone(self) -> None:
        """Save the job as a profile."""
        from tui.screens.profiles.clone import clone  # noqa: PLC0415 - rarely used

        if self.job is not None:
            clone(self.console, self.job)

    def action_copy_command(self) -> None:
        """Copy the gcloud command that creates the job."""
        if self.job is not None:
            copy_command(self.console, [self.job])

    def action_copy_name(self) -> None:
        """Copy the resource name."""
        self.console.send_copy(self.job_name, "the resource name")

    def action_link(self) -> None:
        """Show and copy the job's page."""
        if self.job is not None:
            show_link(self.console, self.job)

    def action_why(self) -> None:
        """Show every read error in full."""
        sources = self.feed.sources.values()
        show_unread(self.app, [(source.name, source.error) for source in sources if source.error is not None])

    def action_back(self) -> None:
        """Cancel the tab's operation, or close the screen."""
        if not self.pane.back():
            self.dismiss()


@cache
def screen_class(kind: Kind) -> type[JobScreen]:
    """Return the screen's class for a kind. A kind with additional keys has a separate class."""
    if not kind.actions:
        return JobScreen
    return type("JobScreen", (JobScreen,), {"__module__": __name__, "BINDINGS": bindings(kind.scope)})
