"""What several tests share with test_form_screen."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import yaml
from textual.pilot import Pilot
from textual.widgets import Static

from tests.ui.double import MemoryBackend
from tests.ui.jobs_screen_support import opened, table, until
from tui.app import VxtuiApp
from tui.config.paths import shipped
from tui.screens.profile_form.screen import FormScreen
from tui.store.profiles.library import entries
from tui.widgets.form.view import FormView

READY = (shipped("profiles") / "a100-4node-spot.yaml").read_text()
A100 = READY.replace('"{profile}-{n}"', "a100-4node-spot")
POOL = "jobSpec.workerPoolSpecs"


@asynccontextmanager
async def form(
    where: Path, text: str = A100, *, size: tuple[int, int] = (80, 24), **more: Any
) -> AsyncIterator[tuple[VxtuiApp, Pilot[Any], Path]]:
    """The form on a file of the user's own."""
    folder = where / "profiles"
    folder.mkdir(exist_ok=True)
    path = folder / "mine.yaml"
    if not path.exists():
        path.write_text(text)
    backend = more.pop("backend", None) or MemoryBackend()
    async with opened(
        backend, where, size=size, read_profiles=partial(entries, folder), profile_folder=folder, **more
    ) as (app, pilot):
        await pilot.press("2")
        await until(pilot, lambda: table(app).keys, "the profiles")
        table(app).move_to(str(path))
        await pilot.press("e")
        await until(pilot, lambda: isinstance(app.screen, FormScreen) and ready(app), "the form")
        yield app, pilot, path


def screen(app: VxtuiApp) -> FormScreen:
    found = next(s for s in reversed(app.screen_stack) if isinstance(s, FormScreen))
    assert isinstance(found, FormScreen)
    return found


def ready(app: VxtuiApp) -> bool:
    return bool(screen(app).analysis.problems or screen(app).view.rows)


def view(app: VxtuiApp) -> FormView:
    return screen(app).view


def to(app: VxtuiApp, key: str) -> None:
    """Put the cursor on the row of a key, opening what it is in."""
    row = next(r for r in screen(app).body.all_rows() if r.key == key)
    screen(app).navigation.go_to(row.path, row.key)
    assert view(app).current is not None and view(app).current.key == key  # type: ignore[union-attr]


def row(app: VxtuiApp, key: str) -> Any:
    found = view(app).row(key)
    assert found is not None, [r.key for r in view(app).rows]
    return found


def drawn(app: VxtuiApp) -> str:
    return "\n".join(view(app).render_line(y).text for y in range(view(app).size.height))


def detail(app: VxtuiApp) -> str:
    return str(screen(app).query_one("#detail", Static).content)


def spec(app: VxtuiApp) -> Any:
    return yaml.safe_load(screen(app).draft.text)["jobSpec"]


async def settled(pilot: Pilot[Any], app: VxtuiApp, text: str) -> None:
    await until(pilot, lambda: text in screen(app).draft.text, text)
    await until(pilot, lambda: screen(app).analysis.text == screen(app).draft.text, "a look at it")
