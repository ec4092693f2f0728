"""Leaving the profile form: nothing is lost, whoever closes it and whoever else edits the file."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from tests.ui.form_screen_support import A100, form, ready, screen, settled, to
from tests.ui.jobs_screen_support import lines, said, until
from tui.screens.dialogs.choice import ChoiceScreen
from tui.screens.profile_form.diff import DiffScreen
from tui.screens.profile_form.screen import FormScreen
from tui.screens.profiles.screen import ProfilesScreen


async def test_leaving_asks_and_loses_nothing(tmp_path: Path) -> None:
    async with form(tmp_path) as (app, pilot, path):
        to(app, "displayName")
        await pilot.press("enter", "ctrl+u", *"later", "enter")
        await settled(pilot, app, "displayName: later")
        await pilot.press("escape")
        assert isinstance(app.screen, ChoiceScreen)
        await pilot.press("enter", "x")
        assert isinstance(app.screen, ChoiceScreen)
        await pilot.press("k")
        await until(pilot, lambda: isinstance(app.screen, ProfilesScreen), "the list")
        assert path.read_text() == A100
        await pilot.press("e")
        await until(pilot, lambda: isinstance(app.screen, ChoiceScreen), "the offer")
        await pilot.press("g")
        await settled(pilot, app, "displayName: later")
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, ChoiceScreen), "the question")
        await pilot.press("s")
        await until(pilot, lambda: isinstance(app.screen, ProfilesScreen), "the list")
        assert "displayName: later" in path.read_text()
        assert not list((tmp_path / "drafts").glob("*.json"))


async def test_the_key_of_the_list_asks_as_esc_does(tmp_path: Path) -> None:
    async with form(tmp_path) as (app, pilot, path):
        await pilot.press("2")
        assert isinstance(app.screen, ProfilesScreen), "nothing has changed"
        await pilot.press("e")
        await until(pilot, lambda: isinstance(app.screen, FormScreen) and ready(app), "the form")
        to(app, "displayName")
        await pilot.press("enter", "ctrl+u", *"later", "enter")
        await settled(pilot, app, "displayName: later")
        await pilot.press("d")
        assert isinstance(app.screen, DiffScreen)
        await pilot.press("2")
        assert isinstance(app.screen, ChoiceScreen), "what lies above is left, the form asks"
        await pilot.press("escape")
        assert isinstance(app.screen, FormScreen)
        await pilot.press("colon", *"profiles", "enter")
        await until(pilot, lambda: isinstance(app.screen, ChoiceScreen), "the question after a command")
        await pilot.press("escape", "1")
        await until(pilot, lambda: app.current_mode == "jobs", "the jobs")
        assert "unsaved changes; 2 goes back to it" in said(app)
        await pilot.press("2")
        assert isinstance(app.screen, FormScreen) and screen(app).draft.changed
        await pilot.press("2", "d")
        await until(pilot, lambda: isinstance(app.screen, ProfilesScreen), "the list")
        assert path.read_text() == A100 and not list((tmp_path / "drafts").glob("*.json"))


async def test_what_closes_the_form_without_asking_keeps_its_work_and_says_so(tmp_path: Path) -> None:
    async with form(tmp_path) as (app, pilot, _):
        to(app, "displayName")
        await pilot.press("enter", "ctrl+u", *"later", "enter")
        await settled(pilot, app, "displayName: later")
        await app.go_to(app.connection.context)
        await until(pilot, lambda: "Changes to mine.yaml are saved as a draft" in said(app), "the word")
        assert len(list((tmp_path / "drafts").glob("*.json"))) == 1


HOLDER = """
import sys, time
from pathlib import Path
from tui.store.profiles.draft import Draft, read_text
path = Path(sys.argv[1])
draft = Draft(path, read_text(path), Path(sys.argv[2]))
draft.open()
draft.replace(draft.text.replace("a100-4node-spot", "theirs"), "x")
draft.keep()
print("open", flush=True)
sys.stdin.readline()
draft.save()
print("saved", flush=True)
sys.stdin.readline()
"""


async def test_a_second_console_is_told_and_nothing_of_either_is_lost(tmp_path: Path) -> None:
    async with form(tmp_path) as (app, pilot, path):
        await pilot.press("escape")
        other = await asyncio.create_subprocess_exec(
            sys.executable, "-c", HOLDER, str(path), str(tmp_path / "drafts"),
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        assert other.stdin is not None and other.stdout is not None
        try:
            assert await other.stdout.readline() == b"open\n"
            await pilot.press("e")
            await until(pilot, lambda: f"pid {other.pid} for" in said(app), "who has it open")
            assert f"also open: pid {other.pid}" in lines(app) and isinstance(app.screen, FormScreen)
            to(app, "description")
            await pilot.press("enter", "ctrl+u", *"mine", "enter")
            await settled(pilot, app, "description: mine")
            assert len(list((tmp_path / "drafts").glob("*.json"))) == 2
            other.stdin.write(b"\n")
            assert await other.stdout.readline() == b"saved\n"
            await pilot.press("ctrl+s")
            await until(pilot, lambda: isinstance(app.screen, ChoiceScreen), "the question")
            assert "theirs" in path.read_text()
            await pilot.press("o")
            await until(pilot, lambda: "description: mine" in path.read_text(), "mine, as was asked for")
            await pilot.press("u")
            await settled(pilot, app, "theirs")
        finally:
            other.kill()
            await other.wait()
        await until(pilot, lambda: "also open" not in lines(app), "it has gone")
