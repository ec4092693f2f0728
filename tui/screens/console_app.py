"""The app from the screens' perspective: the open context, its jobs, the signals, and opening a job.

Screens import this module and `tui.app` imports the screens. Code that needs a particular screen is in
`tui.app`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from textual.screen import Screen
from textual.signal import Signal
from textual.worker import Worker, WorkerState

from tui.config.access import ContextAccess, access_of
from tui.config.settings import Context, Settings
from tui.display.app import DisplayApp
from tui.display.ascii_filter import AsciiFilter
from tui.display.stylesheet import CachedStylesheet
from tui.domain.core.formatting import NOT_MEASURED
from tui.domain.core.job import Job
from tui.domain.core.text import plain
from tui.domain.masking import mask_text
from tui.domain.spec.spec_format import format_of
from tui.garbage import TURN, IdleCollector
from tui.kinds.kind import Kind
from tui.kinds.registry import kind_named, kind_of
from tui.screens.console import preload
from tui.screens.console.job_toasts import JobToasts
from tui.screens.console.operations import ConsoleOperations
from tui.screens.console.profile_entries import ProfileEntries
from tui.screens.console.standing_costs import TICK, StandingCosts
from tui.screens.console.unanswered_launches import UnansweredLaunches
from tui.screens.console.wait_reasons import WaitReasons
from tui.screens.containment import ContainingApp
from tui.screens.not_connected import not_connected
from tui.screens.workers import background
from tui.session import Session, now
from tui.store.failures import broken
from tui.store.jobs.connection import Connection, Opener
from tui.store.jobs.connection_state import ConnectionState, ConnectionStatus
from tui.store.jobs.costs import Costs
from tui.store.jobs.snapshot import Snapshot
from tui.store.jobs.table import JobChange, JobStore
from tui.store.journal import Journal
from tui.store.log.retention import log_folder
from tui.store.ui_state import UiState
from tui.widgets.toasts import ToastApp

if TYPE_CHECKING:
    from textual.filter import LineFilter
    from textual.theme import Theme

    from tui.actions.operations.runner import OperationRunner, Outcome
    from tui.backends.errors import BackendError
    from tui.domain.profile.model import Request
    from tui.store.profiles.entries import ProfileEntry

LOG = logging.getLogger("vxtui")
DEFAULT_THEME = "vxtui-dark"
NO_COLOUR_THEME = "ansi16"


class JobScreenFactory(Protocol):
    """Creates the screen of one job. `replica` is the replica to show first, `tab` is the tab to open, or ""
    for the defaults."""

    def __call__(
        self, session: Session, job_name: str, log_folder: Path, replica: str, kind: Kind, *, tab: str = ""
    ) -> Screen[Any]:
        """Return the screen, which is not shown yet."""


class ConsoleApp(ContainingApp, ToastApp[int], DisplayApp[int]):
    """One context at a time. Screens read `store` and `connection`; signals announce their changes."""

    JOB_SCREEN: ClassVar[JobScreenFactory]
    WHOLE_TEXT = "  6 shows all"

    def __init__(
        self,
        settings: Settings,
        context: Context,
        *,
        opener: Opener,
        contexts: Sequence[Context],
        state_dir: Path,
        read_profiles: Callable[[], list[ProfileEntry]],
        profile_folder: Path,
        themes: Iterable[Theme] = (),
        read_only: bool = False,
        snapshot: Snapshot | None = None,
        clock: Callable[[], datetime] = now,
    ) -> None:
        """Set the contexts. `read_only` is the command-line option; the settings and the context may be
        read-only too."""
        # Textual's constructor chooses the driver.
        self.output = settings.output
        super().__init__()
        if settings.slow:
            self.go_slow()
        self.settings = settings
        self.contexts = {c.name: c for c in contexts} | {context.name: context}
        self.clock = clock
        self.state_dir = state_dir
        self.profiles = ProfileEntries(read_profiles, profile_folder, state_dir)
        self.operations = ConsoleOperations(self._operation_runner, lambda: self.session, profile_folder)
        self.journal = Journal(state_dir / "audit.jsonl", clock)
        self.costs = Costs(state_dir)
        self.standing = StandingCosts(self, lambda work: background(self, work, "standing costs"))
        self.jobs_changed: Signal[JobChange] = Signal(self, "jobs_changed")
        self.connection_changed: Signal[ConnectionStatus] = Signal(self, "connection_changed")
        self.prices_changed: Signal[Costs] = Signal(self, "prices_changed")
        self._to_open: tuple[Screen[Any], str, str] | None = None
        self.unanswered = UnansweredLaunches()
        self.job_toasts = JobToasts(self, clock)
        self._new_connection = lambda opened: Connection(
            opened,
            settings,
            opener=opener,
            state_dir=state_dir,
            journal=self.journal,
            clock=clock,
            access=access_of(settings, opened, flag=read_only),
            on_jobs=self._on_jobs,
            on_status=self._on_connection,
        )
        self.connection: Connection = self._new_connection(context)
        self.connection.restore(snapshot)
        for theme in themes:
            self.register_theme(theme)
        self.ui_state = UiState(state_dir)
        self._set_first_theme(self._first_theme)

    @property
    def _first_theme(self) -> str:
        """The user's theme, which may be unknown, or the default."""
        default = NO_COLOUR_THEME if self.no_color else DEFAULT_THEME
        return self.ui_state.theme(self.settings.theme) or default

    def _set_first_theme(self, theme: str) -> None:
        """Set the theme before anything is styled, because changing it would parse all styles again."""
        if theme in self.available_themes:
            self.set_reactive(ConsoleApp.theme, theme)
            # Textual does this when a theme changes; there is no public API for it before the start.
            self._refresh_truecolor_filter(self.ansi_theme)
        if theme == NO_COLOUR_THEME and self.no_color:
            self.drop_colours()
        self.stylesheet = CachedStylesheet(variables=self.get_css_variables())

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Return Textual's filters, then the ASCII filter if the user set `ascii`."""
        filters = super().get_line_filters()
        return [*filters, self._ascii_filter] if self.settings.ascii else filters

    @cached_property
    def _garbage(self) -> IdleCollector:
        return IdleCollector(self.quiet_for)

    @cached_property
    def wait_reasons(self) -> WaitReasons:
        """Why the jobs of the open context wait."""
        return WaitReasons(self, lambda work: background(self, work, "quotas of waiting jobs"))

    @cached_property
    def _ascii_filter(self) -> AsciiFilter:
        return AsciiFilter()

    async def on_unmount(self) -> None:
        """Save the snapshot for the next start."""
        self._garbage.stop()
        self.workers.cancel_group(self, "connection")
        await self.connection.save()
        await self.connection.closed()

    def connect(self) -> None:
        """Open the context in the background; an attempt in progress is cancelled."""
        background(self, self.connection.run, "connection")

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """Show the error of a failed worker. The console continues."""
        error = event.worker.error
        if event.state is WorkerState.ERROR and error is not None:
            LOG.error("%s failed", event.worker.name, exc_info=error)
            failure = broken(error)
            self.journal.add("error", failure.message)
            self.notify(plain(failure.message), title=event.worker.name, severity="error", markup=False)

    def _on_connection(self, status: ConnectionStatus) -> None:
        # Garbage collection is off from the start of the program (`tui.cli`) until the first list is read or
        # has failed, because objects created at the start stay alive.
        if status.state in {ConnectionState.LIVE, ConnectionState.FAILED}:
            if not self._garbage.started:
                self._garbage.start()
                self.set_interval(TURN, self._garbage.turn)
                self.set_interval(TICK, self.standing.tick)
                self.set_interval(TICK, self.wait_reasons.tick)
                background(self, self._preload_screens, "screens")
            self.standing.tick()
            if self.costs.prices is None:
                background(self, self.load_prices, "prices")
        if status.state is ConnectionState.LIVE and self.journal.looks_back(self.connection.context.name):
            background(self, self._tell_unfinished_launches, "launches")
        self.connection_changed.publish(status)
        self._open_now()

    async def _tell_unfinished_launches(self) -> None:
        """Report the outcome of launches whose process was killed before the reply."""
        name = self.connection.context.name
        # The operations' modules are imported when something is first changed.
        if not await asyncio.to_thread(self.journal.unfinished, name):
            return
        operations = self.operations.jobs()
        if operations is not None:
            async for text in operations.unfinished():
                self.journal.add("console", text)
                self.notify(text, severity="warning", timeout=60, markup=False)

    async def _preload_screens(self) -> None:
        await preload.import_modules(preload.screen_modules())
        assert isinstance(self.stylesheet, CachedStylesheet)
        await preload.read_styles(self, self.stylesheet)

    def _on_jobs(self, change: JobChange) -> None:
        self.job_toasts.show_ends(change)
        self.jobs_changed.publish(change)

    def toast_cut(self, text: str) -> None:
        """Store the complete text for the Events screen, unless an operation has already recorded its failure
        there."""
        if not any(event.text == text for event in list(self.journal.events)[-5:]):
            self.journal.add("console", text)

    def notify(self, message: str, **how: Any) -> None:
        """Show a message briefly with masked secrets, because errors of services quote the request."""
        super().notify(mask_text(message), **how)

    # The end

    async def action_quit(self) -> None:
        """Quit. If a launch is running, quit once its outcome is known, or at a second key press."""
        if self.unanswered.settling or not self.unanswered:
            self.exit()
            return
        self.unanswered.settling = True
        self.notify(
            f"{self.unanswered.names} was sent, but no reply has come. vxtui searches for the job for "
            "a few seconds, then quits; ctrl+q again quits at once.",
            severity="warning",
            markup=False,
            timeout=60,
        )
        background(self, self._quit_after_launches, "quit")

    async def _quit_after_launches(self) -> None:
        await self.unanswered.settle()
        self.exit()

    # For the screens

    @property
    def session(self) -> Session | None:
        """The open context; `None` until it is connected."""
        return self.connection.session

    @property
    def store(self) -> JobStore:
        """The jobs as they were last read."""
        return self.connection.store

    @property
    def context_name(self) -> str:
        """Name of the open context."""
        return self.connection.context.name

    @property
    def live(self) -> bool:
        """Whether the context is connected and its jobs were read in this run."""
        return self.connection.status.state is ConnectionState.LIVE

    @property
    def trouble(self) -> BackendError | None:
        """The reason why the context can't be reached; `None` if it can, or while connecting."""
        return self.connection.status.error

    @property
    def access(self) -> ContextAccess:
        """The allowed changes in the open context."""
        return self.connection.access

    def unbilled(self, job: Job) -> bool:
        """Return whether the job runs on this machine, where its price only estimates the cloud's price."""
        return self.emulates(job.context)

    def emulates(self, name: str) -> bool:
        """Return whether this is a context of this machine."""
        context = self.contexts.get(name)
        return context is not None and context.emulated

    @property
    def bills_nothing(self) -> bool:
        """Whether all jobs of the open context run on this machine."""
        context = self.connection.context
        return all(self.emulates(name) for name in context.members or [context.name])

    def spent(self, job: Job, now: datetime) -> float | None:
        """Return the upper bound of a job's cost so far, including its parts, in USD; None if unknown."""
        known, _ = self.costs.parts_spent(self.store.own_parts(job), now)
        return None if known is None else known.high

    def spent_words(self, job: Job, now: datetime) -> str:
        """Return the job's cost so far, including its parts; `would` marks an unbilled job among billed
        jobs."""
        text = self.costs.parts_spent_text(self.store.own_parts(job), now)
        alone = self.bills_nothing or not self.unbilled(job) or text == NOT_MEASURED
        return text if alone else f"would {text}"

    def _operation_runner(self) -> OperationRunner:
        from tui.actions.operations.runner import OperationRunner  # noqa: PLC0415

        projects = {context.name: context.project for context in self.contexts.values()}
        context = self.connection.context
        return OperationRunner(context, self.access, self.journal, "console", projects=projects)

    async def load_profiles(self) -> None:
        """Read the profiles from disk."""
        await self.profiles.load(self.connection.context, local=self.bills_nothing)

    def tell(self, outcome: Outcome[Any], *, cancelling: Iterable[Job] = ()) -> None:
        """Show the outcome of an operation, and read the jobs that it may have changed.

        `cancelling` contains the jobs that the operation cancels; the toast stays until the last of these
        jobs has ended.
        """
        listed = [self.store.jobs.get(job.name) for job in cancelling]
        waiting = {job.name for job in listed if job is not None and job.state.active}
        self.job_toasts.show_outcome(outcome, waiting)
        self.connection.again(hurry=True)

    async def load_prices(self) -> None:
        """Read the prices from disk in a thread, and update every screen."""
        await asyncio.to_thread(self.costs.load)
        self.prices_changed.publish(self.costs)

    async def _check_prices(self) -> None:
        """Load prices that another console or a verb has fetched."""
        if self.costs.prices is not None and await asyncio.to_thread(lambda: self.costs.changed_on_disk):
            await self.load_prices()

    def create_path(self, request: Request) -> str:
        """Return the REST path to which a launch is posted."""
        session = self.session
        project = session.backend.info.project if session else self.connection.context.project
        return format_of(request.body).create_path(project, request.region, request.custom_job)

    # Opening a job or another context

    def open_job(self, name: str, replica: str = "", tab: str = "", job: Job | None = None) -> None:
        """Open a job's screen, at `replica` or `tab` if it is given. The job may be missing in the list."""
        if self.session is not None:
            where = log_folder(self.state_dir, self.session.backend.info.name, name)
            kind = kind_of(job) if job is not None else self._kind_of(name)
            self.push_screen(type(self).JOB_SCREEN(self.session, name, where, replica, kind, tab=tab))
        elif self.trouble is not None:
            self.notify(not_connected(self), severity="warning", markup=False)
        else:
            self._to_open = (self.screen, name, replica)
            self.notify(f"The job opens as soon as {plain(self.context_name)} is reached.", markup=False)

    def _kind_of(self, name: str) -> Kind:
        """Return the kind of a job. For a job that is not listed yet, the names of the services decide."""
        listed = self.store.jobs.get(name)
        services = self.session.backend.jobs if self.session is not None and listed is None else {}
        return next(
            (kind_named(key) for key, service in services.items() if service.owns(name)), kind_of(listed)
        )

    def _open_now(self) -> None:
        """Open the job that was requested before the connection, unless the user has left that screen."""
        if self.trouble is not None:
            self._to_open = None
        elif self._to_open is not None and self.session is not None:
            (asked_on, name, replica), self._to_open = self._to_open, None
            if self.screen is asked_on:
                self.open_job(name, replica)

    def close_to_list(self) -> None:
        """Close every screen above the current list."""
        while len(self.screen_stack) > 1:
            self.pop_screen()

    async def launched(self, job: Job, entry: ProfileEntry) -> None:
        """Open the job's screen above the jobs list, after a launch of this profile."""
        await asyncio.to_thread(self.profiles.preferences.note_launch, entry, self.context_name)
        self._on_jobs(self.store.put(job))
        self.connection.again(hurry=True)
        self.close_to_list()
        await self.switch_mode("jobs")
        self.close_to_list()
        self.open_job(job.name)

    async def go_to(self, context: Context) -> None:
        """Open another context without a restart."""
        self.close_to_list()
        await self.switch_mode("jobs")
        self.close_to_list()
        await self.connection.save()
        self.workers.cancel_group(self, "connection")
        self.journal.add("console", f"opened context {context.name}")
        self._to_open = None
        self.connection = self._new_connection(context)
        self.connection.restore(await asyncio.to_thread(self.connection.load_snapshot))
        self._on_jobs(JobChange())
        self.connect()
