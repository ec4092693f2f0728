"""How the screens look: a few sizes, dark, light and sixteen colours. Time stands still."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from tests.ui.app_snapshots_support import PROFILE, SIZES_AND_THEMES, SMALL, USUAL
from tests.ui.double import NOON, MemoryBackend, console, fleet, job, progress_is_known
from tests.ui.jobs_screen_support import painted, table, until
from tui.app import VxtuiApp
from tui.backends.interface import PermissionDenied, Unavailable
from tui.config.settings import Settings
from tui.domain.core.formatting import NOT_MEASURED
from tui.screens.dialogs.help import HelpScreen
from tui.store.jobs.connection_state import ConnectionState
from tui.store.jobs.snapshot import SnapshotFile
from tui.store.profiles.library import entry

Step = Callable[[Pilot[Any]], Awaitable[None]]


@pytest.fixture
def look(tmp_path: Path, snap_compare: Any) -> Callable[..., None]:
    """Compare the console after `keys`, on `backend`, with its picture."""
    files = {"arr-coc": PROFILE, "broken": PROFILE.replace("replicaCount", "replicaCuont")}
    for name, text in files.items():
        (tmp_path / f"{name}.yaml").write_text(text)

    def profiles() -> list[Any]:
        return [entry(tmp_path / f"{name}.yaml", mine=True) for name in files]

    def compare(
        size: tuple[int, int], theme: str, *keys: str, backend: MemoryBackend | None = None, **more: Any
    ) -> None:
        used = backend or MemoryBackend(fleet(), regions=("us-central1", "europe-west4"))
        app = console(
            used,
            tmp_path,
            settings=Settings(theme=theme),
            read_profiles=profiles,
            profile_folder=Path("/home/ana/profiles"),
            **more,
        )
        assert snap_compare(app, terminal_size=size, run_before=partial(_ready, app=app, keys=keys))

    return compare


async def _ready(pilot: Pilot[Any], *, app: VxtuiApp, keys: tuple[str, ...]) -> None:
    await until(
        pilot,
        lambda: app.connection.status.state in {ConnectionState.LIVE, ConnectionState.FAILED},
        "an answer",
    )
    await until(pilot, lambda: progress_is_known(app), "the progress of what runs")
    await pilot.pause()
    for key in keys:
        await pilot.press(key)
        await pilot.pause()
    if "2" in keys:
        await until(pilot, lambda: app.profiles.entries, "the profiles")
        await until(pilot, lambda: NOT_MEASURED not in "".join(painted(app)), "what the rules say of them")
    await pilot.pause()
    if isinstance(app.screen, HelpScreen):
        # On a busy machine its first layout may come before its styles.
        panel = app.screen.query_one("#help")
        await until(pilot, lambda: panel.region.x > 0, "the dialog to be in the middle")
    await pilot.wait_for_scheduled_animations()


@SIZES_AND_THEMES
def test_jobs(look: Callable[..., None], size: tuple[int, int], theme: str) -> None:
    look(size, theme, "j", "j", "space")


def test_jobs_filtered_with_a_broken_region(look: Callable[..., None]) -> None:
    backend = MemoryBackend(fleet(), regions=("us-central1", "europe-west4"))
    backend.broken["europe-west4"] = PermissionDenied("permission aiplatform.customJobs.list is missing")
    look(USUAL, "vxtui-dark", "slash", *"gpu:a100", backend=backend)


def test_ghosts_of_a_snapshot(look: Callable[..., None], tmp_path: Path) -> None:
    """Jobs that were deleted since are gone; those of a region that can't be read are dim."""
    ghosts = [job(800 + n, f"deleted-{n}") for n in range(3)]
    away = [job(900 + n, f"away-{n}", region="europe-west4") for n in range(2)]
    SnapshotFile(tmp_path, "test").save([*fleet()[:3], *ghosts, *away], NOON)
    backend = MemoryBackend(fleet()[:3], regions=("us-central1", "europe-west4"))
    backend.broken["europe-west4"] = PermissionDenied("permission aiplatform.customJobs.list is missing")
    look(USUAL, "vxtui-dark", backend=backend, snapshot=SnapshotFile(tmp_path, "test").load())


@SIZES_AND_THEMES
def test_saved_filters_and_columns(look: Callable[..., None], size: tuple[int, int], theme: str) -> None:
    look(size, theme, "slash", *"gpu:a100", "enter", "F", *"big", "enter", "v", "j", "j", "space")


@pytest.mark.parametrize("size", [SMALL, USUAL], ids=["80", "120"])
def test_values_of_a_term(look: Callable[..., None], size: tuple[int, int]) -> None:
    look(size, "vxtui-dark", "slash", *"state:")


def test_cancel_dialog(look: Callable[..., None]) -> None:
    look(USUAL, "vxtui-light", "j", "j", "c")


def test_nothing_can_be_reached(look: Callable[..., None]) -> None:
    backend = MemoryBackend()
    backend.error = Unavailable("the emulator does not answer on its socket", fix="vxtui emulator start")
    look(SMALL, "vxtui-dark", backend=backend)


def test_first_run(look: Callable[..., None]) -> None:
    look(SMALL, "vxtui-light", backend=MemoryBackend(), read_only=True)


@pytest.mark.parametrize("size", [SMALL, USUAL], ids=["80", "120"])
def test_help(look: Callable[..., None], size: tuple[int, int]) -> None:
    look(size, "vxtui-dark", "question_mark")


def test_command_line(look: Callable[..., None]) -> None:
    look(SMALL, "vxtui-dark", "colon", *"th")


def test_profiles(look: Callable[..., None]) -> None:
    look(USUAL, "vxtui-light", "2")


async def test_launch_screen_is_usable_at_80_columns(tmp_path: Path) -> None:
    """The launch screen as text, since its focus and its answer change what is drawn."""
    (tmp_path / "arr-coc.yaml").write_text(PROFILE)
    app = console(
        MemoryBackend(fleet()), tmp_path, read_profiles=lambda: [entry(tmp_path / "arr-coc.yaml", mine=True)]
    )
    async with app.run_test(size=SMALL) as pilot:
        await _ready(pilot, app=app, keys=("2",))
        await until(pilot, lambda: table(app).keys, "the profile")
        await pilot.press("l")
        fields = ("region", "us-central1", "size", "steps", "100000")

        def missing() -> list[str]:
            picture = app.export_screenshot().replace("&#160;", " ")
            return [w for w in (*fields, "1 + 3", "32 A100", "spot, 48 h", "estimate") if w not in picture]

        await until(pilot, lambda: not missing(), "the profile's values")
