"""The console's app: modes, key map and the actions that work on every screen.

Modules that the first paint does not need are imported on first use, because imports dominate the start-up
time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, partialmethod
from typing import TYPE_CHECKING, Any, ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content
from textual.screen import Screen

from tui.actions.availability import job_refusal
from tui.actions.registry import action, actions, key_problems
from tui.config.settings import Settings, SettingsError, all_contexts, unknown_context
from tui.domain.core.job import Job
from tui.domain.core.text import plain
from tui.kinds.kind import Kind, resolve
from tui.kinds.registry import kind_of
from tui.screens.console_app import ConsoleApp
from tui.screens.frame import FrameScreen, frame_of
from tui.screens.workers import background
from tui.skeleton import hand_over

if TYPE_CHECKING:
    from pathlib import Path

    from textual.command import Provider

    from tui.screens.commands import PaletteCommand
    from tui.session import Session

PRICES_EVERY = 5.0
"""Seconds between checks for prices fetched by another process."""


def _open_screen(reference: str) -> Screen[Any]:
    screen: Screen[Any] = resolve(reference)()
    return screen


def _job_screen(
    session: Session, job_name: str, log_folder: Path, replica: str, kind: Kind, *, tab: str = ""
) -> Screen[Any]:
    """Return the screen of a job. The screen's plots import numpy."""
    from tui.screens.job.screen import screen_class

    return screen_class(kind)(session, job_name, log_folder, replica, kind, tab=tab)


def _palette() -> type[Provider]:
    from tui.screens.commands import RegistryProvider

    return RegistryProvider


LIST_SCREENS = tuple(entry for entry in actions("app") if entry.screen)
"""Actions that switch to a list. Each list is a mode of the app, named after the action's method."""


class VxtuiApp(ConsoleApp):
    """The lists as modes, and the actions that work on every screen."""

    TITLE = "vxtui"
    CSS_PATH = "app.tcss"
    MODES: ClassVar[dict[str, str | Callable[[], Screen[Any]]]] = {
        **{entry.method: partial(_open_screen, entry.screen) for entry in LIST_SCREENS},
        "jobs": resolve(action("app.jobs").screen),
        "cluster_quotas": partial(_open_screen, "tui.screens.quotas.list:cluster_quotas"),
    }
    DEFAULT_MODE = "jobs"
    # Dialogs have no bindings of the scope "app".
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+z", "suspend_process", id="app.background", show=False, priority=True)
    ]
    COMMANDS: ClassVar[set[type[Provider] | Callable[[], type[Provider]]]] = {_palette}
    JOB_SCREEN = staticmethod(_job_screen)
    NOTIFICATION_TIMEOUT = 6
    read_settings: Callable[[], Settings] | None = None
    """A function that reads the settings again, for contexts that were added."""

    @property
    def frame(self) -> FrameScreen | None:
        """The topmost screen with a frame; dialogs lie above it."""
        return frame_of(self)

    # Start and end

    def on_load(self) -> None:
        """Hand the terminal over to Textual, which uses it from then on."""
        hand_over()

    def on_mount(self) -> None:
        """Set the keys, then connect after the first paint."""
        if self._first_theme not in self.available_themes:
            self.action_theme(self._first_theme)
        self._set_keymap(self.settings.keys)
        # Paint first, then connect.
        self.call_after_refresh(self.connect)
        self.set_interval(PRICES_EVERY, partial(background, self, self._check_prices, "prices"))

    def _set_keymap(self, keys: dict[str, str]) -> None:
        for problem in key_problems(keys):
            self.notify(problem, severity="warning", markup=False)
        self.set_keymap(keys)

    # Lists

    def switch_to(self, mode: str) -> None:
        """Show a list; if it is already shown, close the screens above it."""
        if mode == "quotas" and self.connection.context.kind == "kubernetes":
            mode = "cluster_quotas"
        if self.current_mode != mode:
            for screen in self.screen_stack:
                if isinstance(screen, FrameScreen):
                    screen.note_switched_away()
            self.switch_mode(mode)
        else:
            self._back_to_list()

    def _back_to_list(self) -> None:
        """Close the screens above the list; a screen that asks before closing stays."""
        while len(self.screen_stack) > 1:
            top = self.screen_stack[-1]
            if isinstance(top, FrameScreen) and top.confirm_leave():
                return
            self.pop_screen()

    def action_help_quit(self) -> None:
        """Show how to quit. Textual's own toast contains markup, which vxtui's toasts show as plain text."""
        keys = [
            key
            for key, active in self.active_bindings.items()
            if active.binding.action in {"quit", "app.quit"}
        ]
        if keys:
            self.notify(f"{keys[0]} quits; jobs keep running.", markup=False)

    # Actions that work everywhere

    def action_job(self, reference: str) -> None:
        """Open a job by name or id. If several jobs share the name, ask the user to choose."""
        self._with_job(reference, lambda job: self.open_job(job.name))

    def action_cancel(self, reference: str) -> None:
        """Cancel a job by name or id."""
        from tui.screens.jobs.job_actions import confirm_cancel

        self._with_job(reference, lambda job: self._change("job.cancel", job, confirm_cancel))

    def action_delete(self, reference: str) -> None:
        """Delete an ended job by name or id."""
        from tui.screens.jobs.job_actions import confirm_delete

        self._with_job(reference, lambda job: self._change("job.delete", job, confirm_delete), ended=True)

    def action_shell_job(self, reference: str) -> None:
        """Open a shell in a replica of a job."""
        from tui.screens.shell import open_shell

        self._with_job(
            reference, lambda job: self._change("job.shell", job, lambda *_: open_shell(self, job))
        )

    def action_stacks_job(self, reference: str) -> None:
        """Show where the Python processes of each replica of a job wait."""
        from tui.screens.shell import open_stacks

        self._with_job(
            reference, lambda job: self._change("job.shell", job, lambda *_: open_stacks(self, job))
        )

    def change_as_its_kind(self, method: str, reference: str) -> None:
        """Run an action that only some kinds of job offer, e.g. scale, on a job by name or id."""

        def change(job: Job) -> None:
            target = resolve(kind_of(job).target)(NamedJob(self, job))
            getattr(target, f"action_{method}")()

        self._with_job(
            reference,
            lambda job: self._change(f"job.{method}", job, lambda *_: change(job)),
            ended=method == "rerun",
        )

    def show_tab(self, tab: str, reference: str) -> None:
        """Open a job by name or id and show a tab of its screen."""

        def show(job: Job) -> None:
            if kind_of(job).has(tab):
                self.open_job(job.name, tab=tab, job=job)
            else:
                words = f"A {kind_of(job).words.noun} has no {tab}."
                self.notify(words, severity="warning", markup=False)

        self._with_job(reference, show)

    def action_compare(self, references: str) -> None:
        """Compare two runs by name or id."""
        from tui.screens.jobs.compare import open_comparison
        from tui.screens.jobs.views import not_comparable

        first, _, second = references.partition(" ")

        def compare(*jobs: Job) -> None:
            if problem := not_comparable(jobs):
                self.notify(problem, severity="warning", markup=False)
            else:
                open_comparison(self, jobs)

        if second:
            self._with_job(first, lambda a: self._with_job(second.strip(), lambda b: compare(a, b)))
        else:
            self.notify("compare needs two runs: compare A B", severity="warning", markup=False)

    def _change(
        self, operation_id: str, job: Job, confirm: Callable[[ConsoleApp, Sequence[Job]], None]
    ) -> None:
        frame = frame_of(self)
        refusal = job_refusal(operation_id, job, frame.selection("app")) if frame is not None else None
        if refusal is None:
            confirm(self, [job])
        else:
            self.notify(refusal.sentence, severity="warning", markup=False)

    def action_preempt(self, reference: str) -> None:
        """Preempt the machines of a job on the emulator."""
        from tui.screens.jobs.job_actions import confirm_preempt

        self._with_job(reference, partial(confirm_preempt, self))

    def action_tensorboard(self, reference: str) -> None:
        """Show a job's events in TensorBoard."""
        from tui.screens.job.tensorboard import start_tensorboard

        self._with_job(reference, partial(start_tensorboard, self))

    def action_emulator_stop(self) -> None:
        """Stop the emulator of this machine."""
        from tui.screens.jobs.job_actions import confirm_emulator_stop

        confirm_emulator_stop(self)

    def _with_job(self, reference: str, then: Callable[[Job], None], *, ended: bool = False) -> None:
        """Call `then` with the job of this name or id. If several jobs match, ask the user to choose."""
        jobs = {job.name: job for job in self.store.find(reference, ended=ended)}
        if len(jobs) == 1:
            then(next(iter(jobs.values())))
        elif jobs:
            from tui.screens.dialogs.pick import PickScreen
            from tui.screens.jobs.job_actions import choices

            title = f"{len(jobs)} jobs are called {reference}: which one?"

            def chosen(name: str | None) -> None:
                if name is not None:
                    then(jobs[name])

            self.push_screen(PickScreen(title, choices(jobs.values(), self.clock())), chosen)
        else:
            self.notify(f"No job is called {reference}.", severity="warning", markup=False)

    async def action_launch(self, name: str) -> None:
        """Open the launch screen of a profile."""
        await self.load_profiles()
        entry = self.profiles.named(name)
        if entry is None or entry.problem:
            why = entry.problem if entry else "the profile does not exist"
            self.notify(f"{name}: {why}", severity="warning", markup=False)
        else:
            from tui.screens.launch.opening import open_launch

            await open_launch(self, entry)

    def action_theme(self, name: str) -> None:
        """Change the colour theme."""
        if name in self.available_themes:
            self.theme = name
            self.ui_state.choose(name, self.settings.theme)
        else:
            known = ", ".join(sorted(self.available_themes))
            self.notify(f"The theme {name} does not exist. Themes: {known}", severity="warning", markup=False)

    async def load_contexts(self) -> None:
        """Read the contexts of the settings again; a mistake in the settings is shown and changes nothing."""
        if self.read_settings is None:
            return
        try:
            self.settings.contexts = (await asyncio.to_thread(self.read_settings)).contexts
        except SettingsError as error:
            self.notify(str(error), severity="warning", markup=False)
        else:
            self.contexts = {c.name: c for c in all_contexts(self.settings)}
            self.contexts.setdefault(self.context_name, self.connection.context)

    async def action_context(self, name: str) -> None:
        """Open another context."""
        await self.load_contexts()
        if name in self.contexts:
            await self.go_to(self.contexts[name])
        else:
            self.notify(unknown_context(name, self.contexts), severity="warning", markup=False)

    async def action_contexts(self) -> None:
        """Choose a context from a list and open it."""
        await self.load_contexts()
        from tui.screens.dialogs.pick import PickScreen

        async def chosen(name: str | None) -> None:
            if name is not None:
                await self.action_context(name)

        options = [(name, Content(plain(name))) for name in self.contexts]
        self.push_screen(PickScreen("Which context?", options), chosen)

    async def action_command(self) -> None:
        """Type a command."""
        from tui.screens.commands import CommandLine, commands, run_command

        frame = self.frame
        if frame is None:
            return
        await self.load_contexts()
        await self.load_profiles()

        async def run(command: PaletteCommand | None) -> None:
            if command is not None:
                await run_command(frame, command)

        self.push_screen(CommandLine(frame, commands(self, frame)), run)

    async def action_palette(self) -> None:
        """Find a command by name."""
        await self.load_contexts()
        await self.load_profiles()
        self.action_command_palette()

    def action_prices(self) -> None:
        """Show the current prices and refresh them."""
        from tui.screens.quotas.prices import PricesScreen

        self.push_screen(PricesScreen())

    def action_help(self) -> None:
        """Show the keys that work here."""
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


@dataclass(frozen=True, slots=True)
class NamedJob:
    """Adapter that lets a command's job stand in for a screen as the target of a kind's actions."""

    console: ConsoleApp
    job: Job


for _tab in ("logs", "metrics", "replicas", "tasks", "spec"):
    setattr(VxtuiApp, f"action_show_{_tab}", partialmethod(VxtuiApp.show_tab, _tab))
for _method in ("suspend", "resume", "scale", "rerun"):
    setattr(VxtuiApp, f"action_{_method}_job", partialmethod(VxtuiApp.change_as_its_kind, _method))
for _entry in LIST_SCREENS:
    setattr(VxtuiApp, f"action_{_entry.method}", partialmethod(VxtuiApp.switch_to, _entry.method))
