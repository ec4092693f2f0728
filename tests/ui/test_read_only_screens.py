"""On real screens of a read-only context: each action is refused with its sentence, or changes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from textual.app import App
from textual.pilot import Pilot
from textual.screen import Screen

from tests.ui.double import MemoryBackend, fleet, job
from tests.ui.jobs_screen_support import opened, table, until
from tui.actions.operations import emulator, servers
from tui.actions.registry import actions
from tui.app import VxtuiApp
from tui.config.paths import shipped
from tui.domain.core.states import JobState
from tui.screens.frame import FrameScreen
from tui.store.profiles.library import entries

LEAVES = {
    "app.quit", "app.context", "app.jobs", "app.profiles", "app.fleet", "app.quotas", "app.events",
    "app.studies",
}  # fmt: skip
"""What only goes to another place; they would end the test's walk over one screen."""
PLACES: Mapping[str, str] = {
    "jobs": "", "profiles": "2", "fleet": "3", "quota_grid": "4", "events": "6", "form": "2 e",
    "launch": "launch", "preview": "2 v", "export": "2 x", "job": "enter",
}  # fmt: skip


def world(folder: Path, backend: MemoryBackend) -> tuple[dict[str, bytes], list[Any]]:
    """Everything that an action could change: files of the user and jobs."""
    files = {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
    return files, [*backend.created, *backend.cancelled, *backend.deleted, *backend.stored.values()]


async def back_to(app: App[Any], screen: Screen[Any], pilot: Pilot[Any]) -> None:
    """Close what an action has opened."""
    while app.screen is not screen:
        assert screen in app.screen_stack, f"{type(screen).__name__} was closed"
        app.pop_screen()
        await pilot.pause()


async def go(app: VxtuiApp, pilot: Pilot[Any], keys: str) -> None:
    if keys == "launch":
        # Refused in a read-only context by every key: shown as it would be if the context closed meanwhile.
        from tui.screens.launch.screen import LaunchScreen

        await app.load_profiles()
        app.push_screen(LaunchScreen(next(p for p in app.profiles.entries if p.name == "mine")))
    for key in keys.split() if keys != "launch" else ():
        before = app.screen
        if key in {"e", "v", "x"}:
            await until(pilot, lambda: table(app).keys, "the profiles")
        await pilot.press(key)
        await until(pilot, lambda before=before: app.screen is not before, f"the screen of {key}")
    await until(pilot, lambda: isinstance(app.screen, FrameScreen) and app.screen.is_mounted, "the screen")


@pytest.mark.parametrize("place", PLACES)
async def test_nothing_changes_on(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("the emulator was asked to do something")

    for module, name in ((servers, "admin_call"), (emulator, "start_server"), (servers, "stop_server")):
        monkeypatch.setattr(module, name, refuse)
    monkeypatch.chdir(tmp_path)
    mine = tmp_path / "profiles"
    mine.mkdir()
    (mine / "mine.yaml").write_text((shipped("profiles") / "local-2node.yaml").read_text())
    backend = MemoryBackend([*fleet(), job(77, "ended", JobState.FAILED)])
    state = tmp_path / "state"
    async with opened(
        backend, state, read_only=True, read_profiles=partial(entries, mine), profile_folder=mine
    ) as (app, pilot):
        await go(app, pilot, PLACES[place])
        screen = app.screen
        assert isinstance(screen, FrameScreen) and place in screen.scopes()
        before = world(mine, backend)
        changing = 0
        for found in [a for scope in screen.scopes() for a in actions(scope)]:
            if found.direct or found.id in LEAVES or found.method == "back":
                continue
            argument = {
                "NAME": "ended",
                "PROFILE": "mine",
                "THEME": app.theme,
                "COLUMN": "name",
                "FILTER": "none",
                "A B": "ended running",
            }.get(found.argument)
            reason = screen.blocked_reason(found)
            if found.mutates:
                changing += 1
                assert reason is not None and "is refused: vxtui is read-only" in reason, (found.id, reason)
            await screen.action_do(found.id, argument)
            await pilot.pause()
            await back_to(app, screen, pilot)
        assert changing >= 4
        assert world(mine, backend) == before
        assert not (state / "audit.jsonl").exists()
        assert not [event for event in app.journal.events if event.kind == "error"]
