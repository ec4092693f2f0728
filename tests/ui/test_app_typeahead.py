"""Keys that arrive in one packet do what they would do one by one."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from textual import events

from tests.ui.app_typeahead_support import packet
from tests.ui.double import MemoryBackend, fleet
from tests.ui.jobs_screen_support import lines, opened, shown, table, until
from tui.screens.jobs.screen import JobsScreen
from tui.screens.launch.screen import LaunchScreen
from tui.screens.quotas.grid import QuotaGridScreen
from tui.store.profiles.library import entries
from tui.widgets.filter_bar import FilterBar


async def test_a_filter_and_what_follows(tmp_path: Path) -> None:
    backend = MemoryBackend(fleet())
    async with opened(backend, tmp_path) as (app, pilot):
        await packet(app, pilot, ["/", *"vit-abl", "enter", "j", "D", "y"])
        assert app.screen.query_one(FilterBar).text == "vit-abl"
        await until(pilot, lambda: backend.deleted == [fleet()[4].name], "the deletion")
        await packet(app, pilot, ["escape", "/", *"llm", "enter", "s"])
        assert shown(app) == ["llm-7b-fsdp"] and "sorted by state" in lines(app)


async def test_a_command_and_what_follows(tmp_path: Path) -> None:
    async with opened(MemoryBackend(fleet()), tmp_path) as (app, pilot):
        await packet(app, pilot, [":", *"quotas", "enter", "/", *"a1", "enter", "1", "j", "j"])
        assert isinstance(app.screen, JobsScreen) and table(app).keys[2] == table(app).cursor
        await packet(app, pilot, ["4"])
        assert isinstance(app.screen, QuotaGridScreen)
        assert app.screen.query_one(FilterBar).text == "a1"


async def test_a_key_whose_turn_comes_when_the_console_has_ended(tmp_path: Path) -> None:
    async with opened(MemoryBackend(fleet()), tmp_path) as (app, _):
        app.key_queue.waiting.append(events.Key("k", "k"))
    await app.key_queue.pass_on(events.Key("j", "j"))
    assert not app.key_queue.waiting


async def test_a_question_and_its_answer(tmp_path: Path) -> None:
    backend = MemoryBackend(fleet())
    async with opened(backend, tmp_path) as (app, pilot):
        await packet(app, pilot, ["c", "n", "j", "c", "y"])
        await until(pilot, lambda: backend.cancelled == [fleet()[0].name], "the cancel")
        assert isinstance(app.screen, JobsScreen)


async def test_from_the_list_to_a_launch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = MemoryBackend()
    reader = partial(entries, tmp_path / "profiles")
    async with opened(backend, tmp_path, read_profiles=reader) as (app, pilot):
        went: list[str] = []
        monkeypatch.setattr(app, "open_job", went.append)
        await packet(app, pilot, ["2"])
        await until(pilot, lambda: table(app).keys, "the profiles")
        await packet(app, pilot, ["/", *"local-2node", "enter", "l"])
        assert isinstance(app.screen, LaunchScreen)
        await packet(app, pilot, ["enter", "enter"])
        await until(pilot, lambda: went, "the job's screen")
        assert len(backend.created) == 1
