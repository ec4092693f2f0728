"""`--ascii`: nothing draws another character. A key that does nothing says so once."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from rich.segment import Segment
from textual.app import App
from textual.color import Color

import tui
from tests.ui.double import MemoryBackend, console, fleet, job
from tests.ui.job_double import step
from tests.ui.job_screen_support import backend_of
from tests.ui.job_screen_support import opened as job_opened
from tests.ui.jobs_screen_support import opened, said, until
from tui.config.settings import Settings
from tui.display.ascii_filter import AsciiFilter
from tui.screens.profile_form.screen import FormScreen
from tui.store.profiles.library import entries
from tui.widgets.table.table import Table

ASCII = Settings(ascii=True)


def odd(app: App[object]) -> list[str]:
    """Lines of the picture with a character that is not ASCII."""
    found = []
    for screen in app.screen_stack:
        found += ["".join(segment.text for segment in strip) for strip in screen._compositor.render_strips()]
    return [text for text in found if not text.isascii()]


@pytest.mark.parametrize("size", [(80, 24), (160, 50)])
async def test_every_list_and_dialog(tmp_path: Path, size: tuple[int, int]) -> None:
    many = [*fleet(), *(job(1000 + n, f"job-{n}") for n in range(80))]
    (tmp_path / "profiles").mkdir()
    more = {"settings": ASCII, "read_profiles": lambda: entries(tmp_path / "profiles"), "size": size}
    async with opened(MemoryBackend(many), tmp_path, **more) as (app, pilot):
        for keys in (
            ["j"], ["question_mark"], ["escape", "ctrl+p"], ["escape", "c"], ["escape", "colon"],
            ["escape", "slash", *"zzz"], ["escape", "dollar_sign"], ["escape", "D"],
            ["3"], ["4"], ["6"], ["2"],
        ):  # fmt: skip
            await pilot.press(*keys)
            await pilot.pause()
            assert not odd(app), keys
        await until(pilot, lambda: app.screen.query_one(Table).keys, "the profiles")
        await pilot.press("j", "j", "e")
        await until(pilot, lambda: isinstance(app.screen, FormScreen) and app.screen.view.rows, "the form")
        await pilot.pause()
        assert not odd(app), "the form"


async def test_every_tab_of_a_job(tmp_path: Path) -> None:
    backend = backend_of(log=False, gpus=8)
    backend.say(*(step(n, n) for n in range(200)))
    async with job_opened(backend, tmp_path, settings=ASCII, size=(100, 30)) as (screen, pilot):
        for _ in screen.panes:
            await pilot.pause()
            assert not odd(screen.app), screen.pane.TITLE
            await pilot.press("right_square_bracket")


async def test_a_key_that_does_nothing_says_so_once(tmp_path: Path) -> None:
    async with opened(MemoryBackend(fleet()), tmp_path) as (app, pilot):
        await pilot.press("W", "W", "W")
        assert said(app).count("Everything could be read.") == 1
        await pilot.press("G", "c")
        assert "succeeded already" in said(app)


def test_without_it_nothing_is_filtered(tmp_path: Path) -> None:
    names = [type(each).__name__ for each in console(MemoryBackend(), tmp_path).get_line_filters()]
    assert "AsciiFilter" not in names
    assert "AsciiFilter" in [
        type(each).__name__ for each in console(MemoryBackend(), tmp_path, settings=ASCII).get_line_filters()
    ]


KEPT = {"µ", "∞"}
"""Signs of code page 437, which every font has."""


def test_every_sign_that_a_screen_draws_has_a_replacement() -> None:
    """Those of literals in the code; what a user wrote stays as it is."""
    drawn: dict[str, str] = {}
    for folder in ("screens", "widgets", "display"):
        for file in (Path(tui.__file__).parent / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text())):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    drawn |= dict.fromkeys(node.value, file.name)
    (segment,) = AsciiFilter().apply([Segment("".join(sorted(drawn)))], Color(0, 0, 0))
    left = {sign: drawn[sign] for sign in segment.text if not sign.isascii()}
    assert left.keys() <= KEPT, left
