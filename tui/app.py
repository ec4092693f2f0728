"""The console's app: modes, key map and the actions that work on every screen.

What the first paint of the jobs does not need is imported where it is used: most of the start is imports.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from textual.screen import Screen

from tui.actions.registry import key_problems
from tui.config.settings import unknown_context
from tui.domain.job import Job
from tui.domain.text import plain
from tui.kinds.registry import may_cancel, may_delete
from tui.screens import lazy_screens
from tui.screens.console_app import ConsoleApp
from tui.screens.frame import FrameScreen, frame_of
from tui.screens.jobs.screen import JobsScreen
from tui.screens.workers import background
from tui.skeleton import hand_over

if TYPE_CHECKING:
    from textual.command import Provider

    from tui.screens.commands import Command

PRICES_EVERY = 5.0
"""Seconds between two checks whether another process has fetched prices."""


class VxtuiApp(ConsoleApp):
    """The lists as modes, and the actions that work on every screen."""

    TITLE = "vxtui"
    CSS_PATH = "app.tcss"
    MODES: ClassVar[dict[str, str | Callable[[], Screen[Any]]]] = {
        "jobs": JobsScreen,
        "profiles": lazy_screens.profiles,
        "fleet": lazy_screens.fleet,
        "quotas": lazy_screens.quotas,
        "cluster_quotas": lazy_screens.cluster_quotas,
        "studies": lazy_screens.studies,
        "events": lazy_screens.events,
        "models": lazy_screens.models,
        "endpoints": lazy_screens.endpoints,
        "resources": lazy_screens.resources,
        "schedules": lazy_screens.schedules,
    }
    DEFAULT_MODE = "jobs"
    COMMANDS: ClassVar[set[type[Provider] | Callable[[], type[Provider]]]] = {lazy_screens.palette}
    JOB_SCREEN = staticmethod(lazy_screens.job)
    NOTIFICATION_TIMEOUT = 6

    @property
    def frame(self) -> FrameScreen | None:
        """The topmost screen with a frame; dialogs lie above it."""
        return frame_of(self)

    # Start and end

    def on_load(self) -> None:
        """Textual takes the terminal after this."""
        hand_over()

    def on_mount(self) -> None:
        """Set the keys, then connect after the first paint."""
        if self._unknown_theme:
            self.action_theme(self._unknown_theme)
        self._set_keymap(self.settings.keys)
        # The first paint comes before the connection.
        self.call_after_refresh(self.connect)
        self.set_interval(PRICES_EVERY, partial(background, self, self._check_prices, "prices"))

    def _set_keymap(self, keys: dict[str, str]) -> None:
        for problem in key_problems(keys):
            self.notify(problem, severity="warning", markup=False)
        self.set_keymap(keys)

    # Lists

    def _switch_to(self, mode: str) -> None:
        if self.current_mode != mode:
            for screen in self.screen_stack:
                if isinstance(screen, FrameScreen):
                    screen.note_switched_away()
            self.switch_mode(mode)
        else:
            self._back_to_list()

    def _back_to_list(self) -> None:
        """Close the screens above the list; one that asks something before it closes stays."""
        while len(self.screen_stack) > 1:
            top = self.screen_stack[-1]
            if isinstance(top, FrameScreen) and top.confirm_leave():
                return
            self.pop_screen()

    def action_help_quit(self) -> None:
        """Say how to quit; Textual's own toast has markup, which toasts show as text here."""
        keys = [k for k, each in self.active_bindings.items() if each.binding.action in {"quit", "app.quit"}]
        if keys:
            self.notify(f"{keys[0]} quits; jobs keep running.", markup=False)

    def action_jobs(self) -> None:
        """Jobs of this context."""
        self._switch_to("jobs")

    def action_profiles(self) -> None:
        """Saved profiles."""
        self._switch_to("profiles")

    def action_fleet(self) -> None:
        """Every active replica and GPU."""
        self._switch_to("fleet")

    def action_quotas(self) -> None:
        """Training quotas."""
        cluster = self.connection.context.kind == "kubernetes"
        self._switch_to("cluster_quotas" if cluster else "quotas")

    def action_resources(self) -> None:
        """Persistent resources."""
        self._switch_to("resources")

    def action_schedules(self) -> None:
        """Pipelines that run again and again."""
        self._switch_to("schedules")

    def action_studies(self) -> None:
        """Jobs that are made of tasks, and what has come of them."""
        self._switch_to("studies")

    def action_events(self) -> None:
        """Events of this console."""
        self._switch_to("events")

    def action_models(self) -> None:
        """Models and their versions."""
        self._switch_to("models")

    def action_endpoints(self) -> None:
        """Endpoints, and what answers their requests."""
        self._switch_to("endpoints")

    # Actions from everywhere

    def action_job(self, reference: str) -> None:
        """Open a job by name or id; of several that have the name, the one that is chosen."""
        self._one(reference, lambda job: self.open_job(job.name))

    def action_cancel(self, reference: str) -> None:
        """Cancel a job by name or id."""
        self._one(reference, self._cancel)

    def _cancel(self, job: Job) -> None:
        if may_cancel(job):
            from tui.screens.jobs.job_actions import confirm_cancel

            confirm_cancel(self, [job])
        else:
            self.notify(
                f"{plain(job.display_name)} {job.state.phrase} already.", severity="warning", markup=False
            )

    def action_delete(self, reference: str) -> None:
        """Delete an ended job by name or id."""
        self._one(reference, self._delete, ended=True)

    def _delete(self, job: Job) -> None:
        if may_delete(job):
            from tui.screens.jobs.job_actions import confirm_delete

            confirm_delete(self, [job])
        else:
            words = f"{plain(job.display_name)} {job.state.phrase}; only an ended job can be deleted."
            self.notify(words, severity="warning", markup=False)

    def action_preempt(self, reference: str) -> None:
        """Preempt the machines of a job on the emulator."""
        from tui.screens.jobs.job_actions import confirm_preempt

        self._one(reference, partial(confirm_preempt, self))

    def action_tensorboard(self, reference: str) -> None:
        """Show a job's events in TensorBoard."""
        from tui.screens.job.tensorboard import start_tensorboard

        self._one(reference, partial(start_tensorboard, self))

    def action_emulator_stop(self) -> None:
        """Stop the emulator of this machine."""
        from tui.screens.jobs.job_actions import confirm_emulator_stop

        confirm_emulator_stop(self)

    def _one(self, reference: str, then: Callable[[Job], None], *, ended: bool = False) -> None:
        """Do this with the job that has the name or id; the user chooses where several have it."""
        found = {job.name: job for job in self.store.find(reference, ended=ended)}
        if len(found) == 1:
            then(next(iter(found.values())))
        elif found:
            from tui.screens.dialogs.pick import PickScreen
            from tui.screens.jobs.job_actions import choices

            title = f"{len(found)} jobs are called {reference}: which one?"

            def chosen(name: str | None) -> None:
                if name is not None:
                    then(found[name])

            self.push_screen(PickScreen(title, choices(found.values(), self.clock())), chosen)
        else:
            self.notify(f"No job is called {reference}.", severity="warning", markup=False)

    async def action_launch(self, name: str) -> None:
        """Open the launch screen of a profile."""
        await self.load_profiles()
        found = next((entry for entry in self.profiles if entry.name == name), None)
        if found is None or found.problem:
            why = found.problem if found else "there is no such profile"
            self.notify(f"{name}: {why}", severity="warning", markup=False)
        else:
            from tui.screens.launch.opening import open_launch

            await open_launch(self, found)

    def action_theme(self, name: str) -> None:
        """Change the colours."""
        if name in self.available_themes:
            self.theme = name
            self.ui_state.choose(name, self.settings.theme)
        else:
            known = ", ".join(sorted(self.available_themes))
            self.notify(f"No theme is called {name}. There are: {known}", severity="warning", markup=False)

    async def action_context(self, name: str) -> None:
        """Open another context."""
        if name in self.contexts:
            await self.go_to(self.contexts[name])
        else:
            self.notify(unknown_context(name, self.contexts), severity="warning", markup=False)

    async def action_command(self) -> None:
        """Type a command."""
        from tui.screens.commands import CommandLine, commands, run_command

        frame = self.frame
        if frame is None:
            return
        await self.load_profiles()

        async def run(command: Command | None) -> None:
            if command is not None:
                await run_command(frame, command)

        self.push_screen(CommandLine(frame, commands(self, frame)), run)

    async def action_palette(self) -> None:
        """Find a command by name."""
        await self.load_profiles()
        self.action_command_palette()

    def action_prices(self) -> None:
        """The current prices, and refreshing them."""
        from tui.screens.quotas.prices import PricesScreen

        self.push_screen(PricesScreen())

    def action_help(self) -> None:
        """The keys that work here."""
        if self.frame is not None:
            from tui.screens.dialogs.help import HelpScreen

            self.push_screen(HelpScreen(self.frame))

    def action_refresh_now(self) -> None:
        """Read again now, or connect if there is no connection; repaint everything."""
        # Another program may have written to the terminal.
        self.repaint_all()
        if not self.connection.again(connect=True):
            self.connect()
        if self.frame is not None:
            self.frame.boundary.retry()
            self.frame.refresh_here()
