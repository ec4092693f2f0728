"""How an exported profile looks."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from tests.ui.app_snapshots_support import PROFILE
from tests.ui.double import MemoryBackend, console
from tests.ui.jobs_screen_support import until
from tui.app import VxtuiApp
from tui.config.settings import Settings
from tui.domain.interchange import FORMS, export
from tui.domain.profile import load
from tui.screens.profiles.export import ExportScreen
from tui.store.jobs.connection_state import ConnectionState


async def _ready(pilot: Pilot[Any], *, app: VxtuiApp, presses: int) -> None:
    await until(pilot, lambda: app.connection.status.state is ConnectionState.LIVE, "an answer")
    profile = load(PROFILE, "arr-coc.yaml", "arr-coc")
    where = {"project": "research", "region": "us-central1"}
    request = profile.render()
    app.push_screen(ExportScreen(profile, {form: export(profile, request, form, **where) for form in FORMS}))
    await pilot.pause()
    for _ in range(presses):
        await pilot.press("j")
    await pilot.pause()
    await pilot.wait_for_scheduled_animations()


@pytest.mark.parametrize(
    ("size", "theme", "presses"),
    [((80, 24), "vxtui-dark", 0), ((120, 40), "vxtui-light", 1), ((200, 60), "vxtui-dark", 2)],
    ids=["80-gcloud", "120-rest", "200-python"],
)
def test_export(snap_compare: Any, tmp_path: Path, size: tuple[int, int], theme: str, presses: int) -> None:
    app = console(MemoryBackend(), tmp_path, settings=Settings(theme=theme))
    ready = partial(_ready, app=app, presses=presses)
    assert snap_compare(app, terminal_size=size, run_before=ready)
