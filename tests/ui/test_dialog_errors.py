"""An exception in a handler, a timer, a worker or the render of a dialog closes it; the console goes on."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from textual import events
from textual.content import Content
from textual.screen import ModalScreen

import tui.screens
from tests.ui.double import MemoryBackend, fleet
from tests.ui.jobs_screen_support import opened, table
from tests.waiting import until
from tui.app import VxtuiApp
from tui.config.settings import Settings
from tui.file_viewer import FileScreen, FileViewer
from tui.screens.commands import CommandLine, commands
from tui.screens.dialogs.choice import ChoiceScreen
from tui.screens.dialogs.confirm import ConfirmScreen
from tui.screens.dialogs.help import HelpScreen
from tui.screens.dialogs.message import MessageScreen
from tui.screens.dialogs.pick import PickScreen
from tui.screens.dialogs.prompt import PromptScreen
from tui.screens.frame import FrameScreen, frame_of
from tui.screens.jobs.columns import ColumnsScreen
from tui.screens.quotas.prices import PricesScreen
from tui.screens.workers import background
from tui.store.job.file_feed import FileFeed

Dialog = ModalScreen[Any]


def frame(app: VxtuiApp) -> FrameScreen:
    found = frame_of(app)
    assert found is not None
    return found


DIALOGS: dict[type[Dialog], Callable[[VxtuiApp], Dialog]] = {
    ChoiceScreen: lambda _: ChoiceScreen("Which?", [("a", "one", "")]),
    ColumnsScreen: lambda app: ColumnsScreen(table(app)),  # type: ignore[arg-type]
    CommandLine: lambda app: CommandLine(frame(app), commands(app, frame(app))),
    ConfirmScreen: lambda _: ConfirmScreen("Do it?", ["a line"]),
    HelpScreen: lambda app: HelpScreen(frame(app)),
    MessageScreen: lambda _: MessageScreen("A title", "a text"),
    PickScreen: lambda _: PickScreen("Which?", [("a", Content("a"))]),
    PricesScreen: lambda _: PricesScreen(),
    PromptScreen: lambda _: PromptScreen("What?"),
}


class Defect(Exception):
    """A defect of a dialog."""


@pytest.fixture(autouse=True)
def _no_pane_fails() -> None:
    """In place of the check of every other test: here dialogs fail on purpose."""


@pytest.fixture(autouse=True)
def crash_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("VXTUI_STATE_DIR", str(tmp_path / "state"))
    return tmp_path / "state" / "crash.log"


def fails(self: Any, *_: Any, **__: Any) -> Any:
    raise Defect("a figure of [bold] \x1b[31mtext")


async def work() -> None:
    fails(None)


def in_compose(dialog: Dialog) -> None:
    dialog.__class__ = type("Broken", (type(dialog),), {"compose": fails})


def in_resize(dialog: Dialog) -> None:
    dialog.__class__ = type("Broken", (type(dialog),), {"_on_resize": fails})


def in_handler(dialog: Dialog) -> None:
    """A message of a widget in the dialog."""
    widget = next(iter(dialog.query("Static")))
    widget.__class__ = type("Broken", (type(widget),), {"_on_focus": fails})
    widget.post_message(events.Focus())


def in_key(dialog: Dialog) -> None:
    dialog.__class__ = type("Broken", (type(dialog),), {"key_f9": fails})
    dialog.post_message(events.Key("f9", None))


def in_timer(dialog: Dialog) -> None:
    dialog.set_timer(0.001, lambda: fails(dialog))


def in_render(dialog: Dialog) -> None:
    widget = next(each for each in dialog.query("*") if each.region.area and not each.children)
    broken = {"render_lines": fails, "render_line": fails, "render": fails}
    widget.__class__ = type("Broken", (type(widget),), broken)
    widget.refresh()


def in_worker(dialog: Dialog) -> None:
    background(dialog, work, "work")


def in_own_worker(dialog: Dialog) -> None:
    """One of Textual's, which ends the app at an error."""
    dialog.run_worker(work())


BEFORE = (in_compose, in_resize)
"""What fails while the dialog opens."""
OF_ALL = (in_handler, in_render, in_worker)
"""How every dialog fails; in the other ways one of them does."""
OF_ONE = (*BEFORE, in_key, in_timer, in_own_worker)


def dialog_classes() -> set[type[Dialog]]:
    """Every dialog of the console."""
    for module in pkgutil.walk_packages(tui.screens.__path__, "tui.screens."):
        importlib.import_module(module.name)
    found, waiting = set(), [ModalScreen]
    while waiting:
        for kind in waiting.pop().__subclasses__():
            waiting.append(kind)
            if kind.__module__.startswith("tui.") and kind.__name__ != "Broken":
                found.add(kind)
    return found


def test_every_dialog_is_here() -> None:
    assert dialog_classes() == set(DIALOGS)


async def check(app: Any, dialog: Dialog, way: Callable[[Dialog], None], crash_log: Path) -> None:
    """Open it, let it fail in this way, and look for the message."""
    said: list[str] = []
    name = f"{type(dialog).__name__} {way.__name__}"
    screen = app.screen
    with pytest.MonkeyPatch.context() as patch:
        tell = lambda _, text, **__: "dialog" in text and said.append(text)  # noqa: E731
        patch.setattr(type(app), "notify", tell)
        if way in BEFORE:
            way(dialog)
        await app.push_screen(dialog)
        if way not in BEFORE:
            await until(lambda: dialog.is_current and dialog.region.area, name)
            way(dialog)
        await until(lambda: app.screen is screen and said, name)
    assert len(said) == 1 and "Defect: a figure of [bold] " in said[0], (name, said)
    assert "\x1b" not in said[0] and app.return_code is None, name
    assert str(crash_log) in said[0] and has_details(crash_log), name


def has_details(crash_log: Path) -> bool:
    """Whether the traceback was written; the file goes."""
    written = "Defect" in crash_log.read_text()
    crash_log.unlink()
    return written


async def test_an_exception_in_a_dialog_closes_it_with_a_message(tmp_path: Path, crash_log: Path) -> None:
    async with opened(MemoryBackend(fleet()), tmp_path) as (app, pilot):
        for kind, make in DIALOGS.items():
            for way in (*OF_ALL, *OF_ONE) if kind is PromptScreen else OF_ALL:
                await check(app, make(app), way, crash_log)
        await pilot.press("question_mark")
        assert isinstance(app.screen, HelpScreen)


async def test_what_a_dialog_calls_of_the_screen_behind_it_closes_the_dialog(tmp_path: Path) -> None:
    async with opened(MemoryBackend(fleet()), tmp_path) as (app, pilot):
        behind = frame(app)
        await app.push_screen(PromptScreen("What?", check=fails.__get__(behind)))
        await pilot.press("a", "enter")
        await until(lambda: app.screen is behind, "the list")
        assert not behind.boundary.failed and app.return_code is None


async def test_an_exception_in_the_help_of_the_file_viewer_closes_it(tmp_path: Path, crash_log: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text("a line\n")
    app = FileViewer(FileFeed(path), Settings())
    async with app.run_test():
        assert isinstance(app.screen, FileScreen)
        await check(app, HelpScreen(app.screen), in_handler, crash_log)
