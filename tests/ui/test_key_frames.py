"""A key's frame is rendered when the key is over, or soon after a long one began."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

import pytest
from textual._compositor import Compositor
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen
from textual.widgets import Label, Static

from tests.ui.jobs_screen_support import until
from tui.display import app as display_app
from tui.display.app import DisplayApp


class Dialog(ModalScreen[None]):
    def compose(self) -> ComposeResult:
        yield Label("a dialog", id="text")

    def on_resize(self) -> None:
        self.query_one(Label).update("a dialog of two\nlines")


class Window(DisplayApp[None]):
    BINDINGS: ClassVar[list[BindingType]] = [Binding("d", "dialog", "Dialog"), Binding("l", "long", "Long")]

    def __init__(self) -> None:
        super().__init__()
        self.free = asyncio.Event()

    def compose(self) -> ComposeResult:
        yield Static("before", id="text")

    def action_dialog(self) -> None:
        self.push_screen(Dialog())

    async def action_long(self) -> None:
        self.query_one("#text", Static).update("changed")
        await self.free.wait()

    def shown(self) -> str:
        return "\n".join(
            "".join(part.text for part in line) for line in self.screen._compositor.render_strips()
        )


@pytest.fixture
def during_key(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For each frame that is rendered: whether it is in the middle of a key."""
    found: list[bool] = []
    stock = Compositor.render_update

    def rendered(self: Compositor, *args: Any, **more: Any) -> Any:
        found.append(window.key_in_progress)
        return stock(self, *args, **more)

    window = Window()
    monkeypatch.setattr(Compositor, "render_update", rendered)
    monkeypatch.setattr(Window, "made", window, raising=False)
    return found


async def test_a_screen_that_a_key_opens_is_rendered_when_the_key_is_over(
    during_key: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(display_app, "KEY_WAIT", 60.0)
    window: Window = Window.made  # type: ignore[attr-defined]
    async with window.run_test(size=(40, 10)) as pilot:
        await pilot.pause()
        during_key.clear()
        await pilot.press("d")
        await until(pilot, lambda: "two" in window.shown(), "the dialog")
        assert during_key and not any(during_key)


async def test_a_key_that_goes_on_does_not_keep_its_frame(during_key: list[bool]) -> None:
    window: Window = Window.made  # type: ignore[attr-defined]
    async with window.run_test(size=(40, 10)) as pilot:
        await pilot.pause()
        during_key.clear()
        window.simulate_key("l")
        while not any(during_key):
            assert not window.free.is_set()
            await asyncio.sleep(0.001)
        assert window.key_in_progress
        window.free.set()
        await until(pilot, lambda: not window.key_in_progress, "its end")
