"""How models and endpoints look, at three sizes, dark and light. Time stands still."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from tests.ui.double import console
from tests.ui.job_snapshots_support import _utc  # noqa: F401 - times of the pictures
from tests.ui.jobs_screen_support import lines, painted, until
from tests.ui.serving_double import backend
from tui.config.settings import Settings

LOOKS = {
    "endpoints small": ((80, 24), "vxtui-dark", ("8", "j", "j")),
    "endpoints": ((120, 40), "vxtui-light", ("8", "j", "j")),
    "endpoints large": ((200, 60), "vxtui-dark", ("8", "j")),
    "models small": ((80, 24), "vxtui-light", ("7",)),
    "models": ((120, 40), "vxtui-dark", ("7",)),
}


@pytest.mark.parametrize("name", LOOKS)
def test_models_and_endpoints(name: str, tmp_path: Path, snap_compare: Any) -> None:
    size, theme, keys = LOOKS[name]
    app = console(backend(), tmp_path, settings=Settings(theme=theme))

    async def ready(pilot: Pilot[Any]) -> None:
        await until(pilot, lambda: app.store.read_at is not None, "the jobs")
        await until(pilot, lambda: app.costs.prices is not None, "the prices")
        await pilot.press(keys[0])
        what = "3 endpoints" if keys[0] == "8" else "5 versions"
        await until(pilot, lambda: what in lines(app), "the list")
        if keys[0] == "8":
            await until(pilot, lambda: any("1.3 s" in line for line in painted(app)), "the figures")
        else:
            await until(pilot, lambda: any("  vit-abl" in line for line in painted(app)), "the job")
        await pilot.press(*keys[1:])
        app.clear_notifications()
        await pilot.pause()

    assert snap_compare(app, terminal_size=size, run_before=ready)
