"""Screens are laid out and styled once: they look as if Textual had done it at each of its occasions."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.geometry import Size
from textual.screen import Screen

from tests.ui.display_equal_support import RANDOM
from tests.ui.double import MemoryBackend, fleet
from tests.ui.jobs_screen_support import opened
from tests.waiting import until
from tui.app import VxtuiApp
from tui.display.stylesheet import CachedStylesheet

LAYS = "_refresh_layout"
OCCASIONS = ("question_mark", "escape", "escape", "2", "3", "1", "enter", "slash", "l", "colon",
             "80x24", "120x40", "vxtui-light", "vxtui-dark", "n", "c", "blur", "focus")  # fmt: skip
"""Keys, sizes, themes, and whether the terminal has the focus."""


def cells(screen: Screen[Any]) -> list[str]:
    """What a screen paints, with its colours."""
    screen._compositor._dirty_regions.clear()
    strips = screen._compositor.render_strips()
    return [repr([(part.text, str(part.style)) for part in strip]) for strip in strips]


def assert_as_new(app: VxtuiApp) -> None:
    """The screen on top is what it is after all of it has been styled and laid out again."""
    screen = app.screen
    before = cells(screen)
    screen.update_node_styles(animate=False)
    screen._refresh_layout(app.size)
    assert cells(screen) == before


async def take(app: VxtuiApp, pilot: Any, occasion: str) -> None:
    if occasion.startswith("vxtui-"):
        app.theme = occasion
    elif "x" in occasion:
        await pilot.resize_terminal(*map(int, occasion.split("x")))
    elif occasion in {"blur", "focus"}:
        app.app_focus = occasion == "focus"
    else:
        await pilot.press(occasion)
    await pilot.pause()


def looked_at(occasions: Sequence[str]) -> None:
    """Compare after each occasion, and all screens of the stack at the end."""

    async def run() -> None:
        with TemporaryDirectory() as folder:
            async with opened(MemoryBackend(fleet()), Path(folder)) as (app, pilot):
                for occasion in occasions:
                    await take(app, pilot, occasion)
                    assert_as_new(app)
                while len(app.screen_stack) > 1:
                    app.pop_screen()
                    await pilot.pause()
                    assert_as_new(app)

    asyncio.run(run())


@RANDOM
@given(st.lists(st.sampled_from(OCCASIONS), min_size=4, max_size=8))
def test_a_screen_looks_as_if_laid_out_and_styled_anew(occasions: list[str]) -> None:
    looked_at(occasions)


@pytest.mark.parametrize("change", ["vxtui-light", "120x40", "blur"])
def test_a_change_under_a_dialog_is_seen_after_it(change: str) -> None:
    looked_at(["question_mark", change])


async def test_a_dialog_leaves_the_layout_below_it_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(MemoryBackend(fleet()), tmp_path) as (app, pilot):
        below, lays = app.screen, []
        await until(lambda: not below._layout_required, "a screen at rest")
        stock = below._refresh_layout

        def counted(size: Size | None = None, **kwargs: Any) -> None:
            lays.append(size)
            stock(size, **kwargs)

        monkeypatch.setattr(below, LAYS, counted)
        await pilot.press("question_mark")
        await pilot.pause()
        assert app.screen is not below and lays == []
        await pilot.resize_terminal(100, 30)
        assert lays, "a new size lays it out"


def test_styles_are_read_ahead_once(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    path = tmp_path / "some.tcss"
    path.write_text("Label { color: red; }")
    styles = CachedStylesheet(variables={})
    styles.read_ahead(path)
    rules = styles.rules
    assert len(rules) == 1
    path.write_text("Label { color: red; } Input { color: blue; }")
    styles.read_ahead(tmp_path / "sub" / ".." / "some.tcss")
    assert styles.rules is rules
    assert styles.has_source(str(tmp_path / "sub" / ".." / "some.tcss"))
