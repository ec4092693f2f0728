"""Secrets of a profile and of a job appear on no screen until the user asks for them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from textual.widgets import Input

from tests.secret_places import SHAPES, leaks, profile
from tests.ui.double import MemoryBackend, MemoryJobs
from tests.ui.form_screen_support import form
from tests.ui.job_screen_support import backend_of
from tests.ui.job_screen_support import opened as opened_job
from tests.ui.jobs_screen_support import on_screen, until
from tests.ui.profiles_screen_support import choose, profiles, text
from tui.backends.interface import Job, LaunchRequest, Unavailable
from tui.domain.masking import MASK
from tui.domain.profile import load
from tui.screens.dialogs.preview import PreviewScreen
from tui.screens.job.spec import SpecPane
from tui.screens.launch.screen import LaunchScreen
from tui.screens.profile_form.diff import DiffScreen
from tui.screens.profiles.export import ExportScreen
from tui.widgets.form.view import FormView

TEXT = yaml.safe_dump(profile(), sort_keys=False)
TALL = (140, 100)


class Quoting(MemoryJobs):
    async def create(self, request: LaunchRequest) -> Job:
        raise Unavailable(f"can't read {json.dumps(request.resource)}", fix=str(request.resource))


async def test_previews_exports_and_a_failed_launch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles" / "mine.yaml").write_text(TEXT)
    backend = MemoryBackend()
    backend.use(jobs={"custom_job": Quoting(backend)})
    async with profiles(backend, tmp_path, monkeypatch, size=TALL) as (app, pilot, _):
        await choose(app, pilot, "mine")
        assert leaks(on_screen(app)) == []
        await pilot.press("v")
        await until(pilot, lambda: isinstance(app.screen, PreviewScreen), "the request")
        assert isinstance(app.screen, PreviewScreen)
        assert leaks(on_screen(app)) == [] and leaks(app.screen.text) == [] and MASK in app.screen.text
        await pilot.press("u")
        assert len(leaks(app.screen.text)) == len(SHAPES)
        await pilot.press("escape", "x")
        await until(pilot, lambda: isinstance(app.screen, ExportScreen), "the export")
        for _form in range(3):
            assert isinstance(app.screen, ExportScreen) and leaks(app.screen.text) == []
            await pilot.press("j")
        await pilot.press("escape", "l")
        await until(pilot, lambda: isinstance(app.screen, LaunchScreen), "the launch screen")
        await until(pilot, lambda: app.screen.query(Input), "the parameters")
        assert leaks(on_screen(app)) == []
        await pilot.press("d")
        await until(pilot, lambda: isinstance(app.screen, PreviewScreen), "the dry run")
        assert isinstance(app.screen, PreviewScreen) and leaks(app.screen.text) == []
        await pilot.press("escape", "enter")
        await until(pilot, lambda: "can't read" in text(app, "#answer"), "the failure")
        assert leaks(text(app, "#answer")) == [] and leaks(on_screen(app)) == []


async def test_the_form_and_its_diff(tmp_path: Path) -> None:
    async with form(tmp_path, TEXT, size=TALL) as (app, pilot, path):
        view = app.screen.query_one(FormView)
        for row in list(view.rows):
            if row.open is False:
                view.move_to(row.key)
                await pilot.press("z")
        assert leaks("\n".join(f"{r.label} {r.value} {r.note} {r.help}" for r in view.rows)) == []
        assert leaks(on_screen(app)) == []
        view.move_to("parameters.declared0")
        await pilot.press("enter")
        await until(pilot, lambda: app.screen.query_one("#edit", Input).display, "the line")
        assert app.screen.query_one("#edit", Input).password and leaks(on_screen(app)) == []
        await pilot.press(*"more", "enter")
        await until(pilot, lambda: "•" in on_screen(app), "the row")
        await pilot.press("d")
        await until(pilot, lambda: isinstance(app.screen, DiffScreen), "the diff")
        assert leaks(on_screen(app)) == [] and "more" not in on_screen(app).replace("more context", "")
    assert path.read_text() == TEXT


async def test_the_specification_of_a_job(tmp_path: Path) -> None:
    """The service knows no declaration: the job itself names what its profile declared."""
    document = profile()
    document["parameters"]["declared0"]["default"] = "plain-words"
    request = load(yaml.safe_dump(document), "p.yaml", "p").render()
    backend = backend_of()

    class Specified(type(backend.jobs["custom_job"])):  # type: ignore[misc]
        async def spec(self, name: str) -> dict[str, object]:
            return dict(request.resource)

    backend.use(jobs={"custom_job": Specified(backend)})
    async with opened_job(backend, tmp_path, size=TALL, ready=False) as (screen, pilot):
        await pilot.press("d")
        pane = screen.query_one(SpecPane)
        await until(pilot, lambda: pane.spec_view.text, "the specification")
        assert leaks(pane.spec_view.text) == [] and "plain-words" not in pane.spec_view.text
        assert leaks(on_screen(screen.app)) == []  # type: ignore[arg-type]
        await pilot.press("u")
        assert len(leaks(pane.spec_view.text)) == len(SHAPES) and "plain-words" in pane.spec_view.text
