"""The command palette and the `:` line. Both offer only the actions that can run now."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar, cast

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.containers import HorizontalGroup, VerticalGroup
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from tui.actions.availability import job_refusal
from tui.actions.registry import Action, actions, key_text
from tui.actions.registry import action as action_named
from tui.domain.core.text import plain
from tui.domain.fields.jobs import SORTS
from tui.screens.frame import FrameScreen, frame_of

if TYPE_CHECKING:
    from tui.screens.console_app import ConsoleApp

MAX_CHOICES = 8
ALIASES = {"q": "quit", "q!": "quit", "ctx": "context", "h": "help"}
PLACES = {
    "jobs": ("Jobs", "app.jobs"), "profiles": ("Profiles", "app.profiles"), "fleet": ("Fleet", "app.fleet"),
    "quota_grid": ("Quotas", "app.quotas"), "events": ("Events", "app.events"),
    "studies": ("Studies & pipelines", "app.studies"), "job": ("a job", "jobs.open"),
    "logs": ("a job's Logs", "jobs.open"), "metrics": ("a job's Metrics", "jobs.open"),
    "replicas": ("a job's Replicas", "jobs.open"), "spec": ("a job's Spec", "jobs.open"),
}  # fmt: skip
"""Scopes that the palette offers on other screens, each with its screen's title and the action that opens the
screen."""


@dataclass(frozen=True, slots=True)
class PaletteCommand:
    """An action that can run now, with its argument, which is optional."""

    action: Action
    argument: str = ""

    @property
    def text(self) -> str:
        """The command as typed after the colon."""
        return f"{self.action.word} {self.argument}".strip()


def offered(frame: FrameScreen) -> list[Action]:
    """Return the actions of the active scopes that can run now."""
    return [action for action in frame.possible_actions() if action.is_command]


def arguments(console: ConsoleApp, frame: FrameScreen, action: Action) -> list[str]:
    """Return the possible values of an action's argument."""
    match action.argument:
        case "NAME":
            selection = frame.selection(action.scope)
            jobs = [j for j in console.store.jobs.values() if not job_refusal(action.operation, j, selection)]
            return [plain(job.display_name) for job in jobs][:200]
        case "PROFILE":
            return [plain(entry.name) for entry in console.profiles.entries]
        case "THEME":
            return sorted(console.available_themes)
        case "COLUMN":
            return list(SORTS)
        case "FILTER":
            return [plain(name) for name in getattr(frame_of(console), "filters", ())]
        case "CONTEXT":
            return list(console.contexts)
    return []


def commands(console: ConsoleApp, frame: FrameScreen) -> list[PaletteCommand]:
    """Return every command that can be run now, each with each value of its argument."""
    by_text: dict[str, PaletteCommand] = {}
    for action in offered(frame):
        values = dict.fromkeys(arguments(console, frame, action)) if action.argument else ("",)
        for command in (PaletteCommand(action, value) for value in values):
            # A word of this screen hides the same word of the app, as it does when it is typed.
            by_text.setdefault(command.text, command)
    return list(by_text.values())


def read_command(text: str, frame: FrameScreen) -> PaletteCommand | str:
    """Return the typed command, or its problem as a sentence."""
    word, _, rest = text.strip().partition(" ")
    here = [a for scope in reversed(frame.scopes()) for a in actions(scope) if a.is_command]
    # One word may name two actions: `cancel` the selection, `cancel NAME` any job.
    by_word = {a.word: a for a in sorted(here, key=lambda a: bool(a.argument) == bool(rest.strip()))}
    action = by_word.get(ALIASES.get(word, word))
    if action is None:
        starts = [a for name, a in by_word.items() if name.startswith(word)]
        if len(starts) != 1:
            near = (
                f"; did you mean {', '.join(a.word for a in starts[:5])}?" if starts else "; ? lists the keys"
            )
            return f"unknown command {word!r}{near}"
        action = starts[0]
    reason = frame.blocked_reason(action)
    if reason is not None:
        return reason
    if action.argument and not rest.strip():
        return f"{action.word} needs {action.argument}"
    if rest.strip() and not action.argument:
        return f"{action.word} must not have an argument"
    return PaletteCommand(action, rest.strip())


def elsewhere(frame: FrameScreen) -> list[tuple[Action, str, Action]]:
    """Return the actions of other screens, each with the screen's title, and the action that opens it."""
    here = set(frame.scopes())
    words = {action.word for action in offered(frame)}
    return [
        (action, place, action_named(way))
        for scope, (place, way) in PLACES.items()
        if scope not in here
        for action in actions(scope)
        if action.is_command and action.key and action.method != "back" and action.word not in words
    ]


async def go_there(frame: FrameScreen, action: Action, place: str, way: Action) -> None:
    """Open the screen of an action, and show the key that runs the action there."""
    console = cast("ConsoleApp", frame.app)
    key = key_text(action, console.settings.keys).split(" ")[0]
    if way.scope in frame.scopes() and frame.blocked_reason(way) is None:
        await frame.action_do(way.id)
        words = f"{key}: {action.help}"
    else:
        words = f"{key} in {place}: {action.help}"
    console.notify(plain(words), markup=False)


class RegistryProvider(Provider):
    """The palette's commands for the screen on which the palette was opened."""

    def _found(self) -> list[tuple[PaletteCommand, Callable[[], object]]]:
        console = cast("ConsoleApp", self.app)
        frame = frame_of(console)
        if frame is None:
            return []
        return [(c, partial(run_command, frame, c)) for c in commands(console, frame)]

    def _help(self, command: PaletteCommand) -> str:
        key = key_text(command.action, cast("ConsoleApp", self.app).settings.keys)
        return f"{command.action.help}   {key}" if key else command.action.help

    async def discover(self) -> Hits:
        """Yield every command without an argument, for an empty query."""
        for command, run in self._found():
            if not command.argument:
                yield DiscoveryHit(
                    Content(command.text), run, command.text, Content(self._help(command)).plain
                )

    async def search(self, query: str) -> Hits:
        """Yield the commands that match the query."""
        matcher = self.matcher(query)
        for command, run in self._found():
            score = matcher.match(f"{command.text} {command.action.help}")
            if score > 0:
                yield Hit(score, Content(command.text), run, command.text, self._help(command))
        frame = frame_of(cast("ConsoleApp", self.app))
        if frame is None:
            return
        for action, place, way in elsewhere(frame):
            score = matcher.match(f"{action.word} {action.label}")
            if score > 0:
                text = f"{action.label} in {place}"
                run = partial(go_there, frame, action, place, way)
                # Actions that can run here come first.
                yield Hit(score * 0.9, Content(text), run, text, self._help(PaletteCommand(action)))


async def run_command(frame: FrameScreen, command: PaletteCommand) -> None:
    """Run a command on the screen that offered it."""
    await frame.action_do(command.action.id, command.argument or None)


class CommandLine(ModalScreen[PaletteCommand]):
    """A line at the bottom for a word and its argument, with completions. The dialog returns the command."""

    CSS_PATH = "commands.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "app.pop_screen", "Back"),
        Binding("tab,right", "complete", "Complete", priority=True),
        Binding("down", "choose(1)", "Next"),
        Binding("up", "choose(-1)", "Previous"),
    ]

    def __init__(self, frame: FrameScreen, known: Sequence[PaletteCommand]) -> None:
        super().__init__()
        self._frame = frame
        self._all = [(command.text, command.action.help) for command in known]
        words = {a.word: a.help for a in offered(frame) if a.argument}
        self._all = [(word + " ", text) for word, text in words.items()] + self._all
        self._fitting: list[tuple[str, str]] = []
        self._at = 0

    def compose(self) -> ComposeResult:
        with VerticalGroup(id="line"):
            yield Static("", id="choices", markup=False)
            with HorizontalGroup(id="typed"):
                yield Static(":", id="colon", markup=False)
                line = Input(compact=True)
                line.cursor_blink = False
                yield line

    def on_mount(self) -> None:
        self._show("")

    @on(Input.Changed)
    def _changed(self, event: Input.Changed) -> None:
        self._at = 0
        self._show(event.value)

    def _show(self, text: str, problem: str = "") -> None:
        word, blank, rest = text.lstrip().casefold().partition(" ")
        typed = f"{ALIASES.get(word, word)}{blank}{rest}"
        # Before the first blank, show one line per word; after it, the argument's values.
        fitting = [(c, h) for c, h in self._all if c.casefold().startswith(typed)]
        if " " not in typed:
            fitting = [(c, h) for c, h in fitting if " " not in c.rstrip()]
        self._fitting = fitting
        self._at = max(0, min(self._at, len(fitting) - 1))
        top = max(0, self._at - MAX_CHOICES + 1)
        lines = []
        for at, (command, words) in list(enumerate(fitting))[top : top + MAX_CHOICES]:
            style = "bold $accent" if at == self._at else ""
            lines.append(Content.assemble((f"{command:<28}", style), "  ", (words, "$text-muted")))
        if problem:
            lines.append(Content.styled(plain(problem), "bold $text-error"))
        elif not fitting and text:
            lines.append(
                Content.styled("no command starts with this text; enter reports the problem", "$text-muted")
            )
        self.query_one("#choices", Static).update(Content("\n").join(lines))

    def action_complete(self) -> None:
        """Complete the line with the marked choice."""
        if self._fitting:
            self._complete_with(self._fitting[self._at][0])

    def _complete_with(self, text: str) -> None:
        line = self.query_one(Input)
        line.value = text
        line.cursor_position = len(text)

    def action_choose(self, step: int) -> None:
        """Mark another choice."""
        self._at = max(0, min(len(self._fitting) - 1, self._at + step))
        self._show(self.query_one(Input).value)

    @on(Input.Submitted)
    def _entered(self, event: Input.Submitted) -> None:
        text = event.value.strip()
        if not text:
            self.app.pop_screen()
            return
        command_or_problem = read_command(text, self._frame)
        wanting = next((c for c, _ in self._all if c == f"{ALIASES.get(text, text)} "), "")
        if isinstance(command_or_problem, str) and wanting:
            # The argument's values are offered: pressing enter again selects the first value.
            self._complete_with(wanting)
            return
        known = {choice for choice, _ in self._all}
        unfinished = isinstance(command_or_problem, str) or (
            command_or_problem.argument and command_or_problem.text not in known
        )
        if unfinished and self._fitting and not self._fitting[self._at][0].endswith(" "):
            # The text is the start of the marked choice, so enter runs that choice.
            command_or_problem = read_command(self._fitting[self._at][0], self._frame)
        if isinstance(command_or_problem, str):
            self._show(event.value, command_or_problem)
        else:
            self.dismiss(command_or_problem)
