"""The launch of a pipeline: its parameters as values with their types, checked as they are typed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.ui.daily_use_snapshots_support import LOCAL, look
from tests.ui.double import MemoryBackend
from tests.ui.jobs_screen_support import footer, until
from tests.ui.launch_form_support import go_to, value, words
from tests.ui.profiles_screen_support import launch_screen, profiles
from tests.unit.pipeline_body_support import profile, spec
from tui.app import VxtuiApp
from tui.screens.launch.field import LaunchField
from tui.screens.launch.screen import LaunchScreen

__all__ = ["look"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A profile of a pipeline with a parameter of each type; one of the header fills `rate`."""
    own = tmp_path / "profiles"
    own.mkdir()
    head = "parameters: {r: 0.5}\nregion: us-central1\n"
    made = profile(own, spec(), "{rate: '${r}'}", head=head)
    assert [each.required for each in made.inputs if each.name == "name"] == [True]
    return tmp_path


def problem(app: VxtuiApp, name: str) -> str:
    return next(f.problem for f in app.screen.query(LaunchField) if f.field == name)


async def test_a_pipelines_parameters_are_typed_in_and_sent(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = MemoryBackend()
    backend.use(jobs={**backend.jobs, "pipeline_job": backend.jobs["custom_job"]})
    async with profiles(backend, folder, monkeypatch) as (app, pilot, _):
        await launch_screen(app, pilot, "p")
        names = [f.field for f in app.screen.query(LaunchField)]
        assert names == ["job name", "region", "r", "fast", "more", "name", "sizes", "steps"]
        assert (value(app, "steps"), value(app, "sizes"), value(app, "name")) == ("5", "[1, 2]", "")
        assert "integer. How many." in words(app)
        await until(pilot, lambda: problem(app, "name"), "the parameter that has no value")
        assert "no default and no value" in problem(app, "name")
        assert not app.screen.query_one("#shape").display, "the values have its room"
        await go_to(app, pilot, "name")
        await pilot.press("h", "i")
        await until(pilot, lambda: not problem(app, "name"), "its value")
        assert app.screen.query_one("#shape").display
        for name, wrong, right, said in (
            ("steps", "x", "12", "an integer"),
            ("sizes", "[", "[3]", "a list in JSON"),
            ("more", "[]", '{"a": 1}', "fields in JSON"),
        ):
            field = next(f for f in app.screen.query(LaunchField) if f.field == name)
            field.line.value = wrong
            await until(pilot, lambda name=name, said=said: said in problem(app, name), f"{name} is wrong")
            field.line.value = right
            await until(pilot, lambda name=name: not problem(app, name), f"{name} is right")
        screen = app.screen
        assert isinstance(screen, LaunchScreen) and screen._prepared is not None
        runtime = screen._prepared.request.resource["runtimeConfig"]
        assert runtime["parameterValues"] == {
            "rate": 0.5, "name": "hi", "steps": 12, "sizes": [3], "more": {"a": 1},
        }  # fmt: skip
        await go_to(app, pilot, "fast")
        assert "enter choose" in footer(app), "a boolean is picked"
        await pilot.press("escape", "enter")
        await until(pilot, lambda: bool(backend.created), "the launch")
        (sent,) = backend.created
        assert sent.resource["runtimeConfig"] == runtime and sent.resource["pipelineSpec"] == spec()


@pytest.mark.parametrize(
    ("size", "theme"), [((80, 24), "vxtui-dark"), ((120, 40), "vxtui-light")], ids=["80", "120-light"]
)
def test_the_launch_of_a_pipeline(look: Any, size: tuple[int, int], theme: str) -> None:
    async def launch(app: VxtuiApp, pilot: Any) -> None:
        await app.action_launch("local-pipeline")
        await until(pilot, lambda: isinstance(app.screen, LaunchScreen), "the launch screen")
        field = next(f for f in app.screen.query(LaunchField) if f.field == "learning_rates")
        field.line.value = "0.001, 0.003"
        await until(pilot, lambda: bool(field.problem), "the wrong list")

    look(MemoryBackend(), size, theme, launch, context=LOCAL)
