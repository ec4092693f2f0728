"""A launch from a group of contexts: a profile first, then the context that it runs in."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.ui.double import MemoryBackend, job
from tests.ui.jobs_screen_support import lines, said, until
from tests.ui.profiles_screen_support import choose, profiles
from tui.backends.group import GroupBackend
from tui.config.settings import Context
from tui.screens.dialogs.pick import PickScreen
from tui.screens.launch.screen import LaunchScreen
from tui.screens.profiles.screen import ProfilesScreen

ONE, TWO = (Context(name, project="p", regions=["us-central1"]) for name in ("one", "two"))
CLUSTER = Context("cluster", kind="kubernetes", namespaces=["default"])


def _group(*members: Context) -> tuple[Context, list[Context]]:
    found = Context("all", kind="group", members=[each.name for each in members])
    return found, [*members, found]


async def test_the_context_is_chosen_from_those_that_can_run_the_profile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    group, contexts = _group(ONE, TWO, CLUSTER)
    backend = MemoryBackend([job(1, "a")])
    async with profiles(backend, tmp_path, monkeypatch, context=group, contexts=contexts) as (app, pilot, _):
        await choose(app, pilot, "local-2node")
        await pilot.press("l")
        await until(pilot, lambda: isinstance(app.screen, PickScreen), "the question")
        assert [key for key, _ in app.screen._options] == ["one", "two"]  # type: ignore[attr-defined]
        await pilot.press("down", "enter")
        await until(pilot, lambda: isinstance(app.screen, LaunchScreen), "the launch screen")
        assert app.connection.context == TWO
        await pilot.press("escape")
        await until(pilot, lambda: "two" in lines(app), "the jobs of the chosen context")


async def test_one_context_that_fits_is_not_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    group, contexts = _group(ONE, CLUSTER)
    async with profiles(MemoryBackend(), tmp_path, monkeypatch, context=group, contexts=contexts) as found:
        app, pilot, _ = found
        await choose(app, pilot, "k8s-pytorch-2node")
        await pilot.press("l")
        await until(pilot, lambda: isinstance(app.screen, LaunchScreen), "the launch screen")
        assert app.connection.context == CLUSTER


async def test_a_group_without_a_context_for_the_profile_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    group, contexts = _group(ONE, TWO)
    backend = GroupBackend("all", [MemoryBackend()])
    async with profiles(backend, tmp_path, monkeypatch, context=group, contexts=contexts) as (app, pilot, _):  # type: ignore[arg-type]
        await choose(app, pilot, "k8s-pytorch-2node")
        await pilot.press("l")
        why = "No context of the group all can run k8s-pytorch-2node. Its contexts: one, two."
        await until(pilot, lambda: why in said(app), "the reason")
        assert isinstance(app.screen, ProfilesScreen) and app.connection.context == group
