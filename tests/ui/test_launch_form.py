"""The values of a launch: lists to choose from, what is wrong at each value, and the keys that move."""

from __future__ import annotations

from datetime import UTC
from pathlib import Path

import pytest
from textual import events
from textual.content import Content

from tests.ui.app_typeahead_support import packet
from tests.ui.double import MemoryBackend
from tests.ui.jobs_screen_support import footer, until
from tests.ui.launch_form_support import go_to, value, words
from tests.ui.profiles_screen_support import choose, launch_screen, profiles, text
from tui.app import VxtuiApp
from tui.screens.dialogs.pick import PickScreen
from tui.screens.launch.field import LaunchField, ValueInput
from tui.screens.launch.form import LaunchForm
from tui.screens.launch.screen import LaunchScreen
from tui.widgets.checks import Checks
from tui.widgets.key_footer import KeyFooter

LONG = "Weights to start with, as gs://bucket/folder/checkpoints/JOB of the stage before this one"
SPOT = "SPOT can be preempted, and it starts again"
PROFILE = f"""\
displayName: closed
parameters:
  steps: {{type: integer, default: 10, help: Optimizer steps in all}}
  strategy: {{default: STANDARD, choices: [STANDARD, SPOT], help: "{SPOT}"}}
  kind: {{default: SPOT}}
  machine: {{default: n1-standard-4}}
  eager: {{default: false}}
  weights: {{default: "", help: "{LONG}"}}
jobSpec:
  scheduling: {{strategy: "${{kind}}"}}
  workerPoolSpecs:
    - machineSpec: {{machineType: "${{machine}}"}}
      replicaCount: 1
      containerSpec:
        imageUri: python:3.11
        args: ["${{steps}}", "${{strategy}}", "${{eager}}", "${{weights}}"]
"""
ORDER = ["job name", "region", "steps", "strategy", "kind", "machine", "eager", "weights"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles/closed.yaml").write_text(PROFILE)
    return tmp_path


def current(app: VxtuiApp) -> str:
    """Name of the field with the focus."""
    return next((f.field for f in app.screen.query(LaunchField) if f.line is app.screen.focused), "")


async def test_tab_and_enter_go_through_the_values_in_order(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = MemoryBackend()
    async with profiles(backend, folder, monkeypatch) as (app, pilot, went):
        await launch_screen(app, pilot, "closed")
        for key, order in (("tab", ORDER), ("shift+tab", ORDER[::-1])):
            seen = []
            for _ in ORDER:
                await pilot.press(key)
                seen.append(current(app))
            assert seen == order, key
            await pilot.press(key)
            assert current(app) == "", "beyond the last one the keys are the screen's"
        await pilot.press("tab", "enter")
        assert current(app) == "region", "enter goes on"
        await pilot.press("up", "down")
        assert current(app) == "region", "down too"
        assert "enter choose" in footer(app) and "launch" not in footer(app) and "view" not in footer(app)
        await go_to(app, pilot, "weights")
        assert "enter next value" in footer(app)
        await pilot.press("enter")
        assert current(app) == "" and not backend.created and "enter launch" in footer(app)
        await pilot.press("enter")
        await until(pilot, lambda: went, "the job's screen")


async def test_a_value_with_choices_is_picked(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with profiles(MemoryBackend(), folder, monkeypatch) as (app, pilot, _):
        await launch_screen(app, pilot, "closed")
        await go_to(app, pilot, "strategy")
        await pilot.press("enter")
        assert isinstance(app.screen, PickScreen) and "keeps its machines" in words(app)
        await pilot.press("down", "enter")
        assert value(app, "strategy") == "SPOT" and current(app) == "kind", "the next value has its turn"
        await pilot.press("up", "down")
        assert isinstance(app.screen, PickScreen), "down opens the list"
        await pilot.press("escape")
        assert current(app) == "strategy"
        # A letter opens the list and narrows it; keys that come in one packet lose none.
        await packet(app, pilot, [*"STAN", "enter", "enter"])
        assert value(app, "strategy") == "STANDARD" and isinstance(app.screen, PickScreen)
        await packet(app, pilot, ["escape", "up", *"SPOOT", "enter"])
        assert isinstance(app.screen, PickScreen), "nothing of it can be chosen"
        assert "Nothing matches. The value must be one of STANDARD, SPOT." in words(app)
        await pilot.press("escape")
        # Choices come from the field that a parameter is the value of, and from its type.
        for name, typed, chosen in (
            ("kind", "FLEX", "FLEX_START"),
            ("eager", "tr", "true"),
            ("machine", "n1-standard-8", "n1-standard-8"),
        ):  # fmt: skip
            await go_to(app, pilot, name)
            await packet(app, pilot, [*typed, "enter"])
            assert value(app, name) == chosen
        # The catalogue of machines and regions may be older than the service.
        await go_to(app, pilot, "region")
        await packet(app, pilot, [*"mars-north9", "enter"])
        assert value(app, "region") == "mars-north9"


async def test_an_unknown_value_is_said_at_its_field(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with profiles(MemoryBackend(), folder, monkeypatch) as (app, pilot, _):
        await launch_screen(app, pilot, "closed")
        fields = {f.field: f for f in app.screen.query(LaunchField)}
        for name, sentence in (
            ("strategy", "strategy must be one of STANDARD, SPOT, not 'SPOOT'."),
            ("kind", "'SPOOT' must be one of STANDARD, SPOT, FLEX_START"),
        ):
            await go_to(app, pilot, name)
            app.screen.query_one(LaunchForm).screen.focused.post_message(events.Paste("SPOOT"))  # type: ignore[union-attr]
            await until(pilot, lambda name=name: fields[name].problem, "what is wrong")  # type: ignore[misc]
            assert sentence in fields[name].problem
            assert sentence[-20:] in words(app).replace("✗ ", "")
            assert f"not valid: {name}" in text(app, "#problems")
            assert ".yaml" not in words(app), "a typed value is in no file"
            fields[name].line.value = "SPOT"
            await until(pilot, lambda name=name: not fields[name].problem, "the value is allowed")  # type: ignore[misc]
        assert "not valid" not in text(app, "#problems")


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)])
async def test_an_explanation_is_never_cut(
    folder: Path, monkeypatch: pytest.MonkeyPatch, size: tuple[int, int]
) -> None:
    async with profiles(MemoryBackend(), folder, monkeypatch, size=size) as (app, pilot, _):
        await choose(app, pilot, "closed")
        await pilot.press("l")
        await until(pilot, lambda: isinstance(app.screen, LaunchScreen), "the launch screen")
        for hint in ("name in the list", "where it runs", "Optimizer steps in all",
                     SPOT, LONG):  # fmt: skip
            field = next(f for f in app.screen.query(LaunchField) if f._hint.plain == hint)
            field.query_one(ValueInput).focus()
            await pilot.pause()
            left = next(note.region.x for note in field.query(".hint, .below") if note.region.width)
            right = app.screen.query_one("#shape").region.x
            wanted = hint.replace(" ", "")

            def is_painted(wanted: str = wanted, left: int = left, right: int = right) -> bool:
                return wanted in words(app, left, right).replace(" ", "")

            await until(pilot, is_painted, hint)


async def test_a_launch_fills_in_what_it_finds_out(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stamped = PROFILE.replace("eager: {default: false}", "eager: {at_launch: date -u +%Y}")
    stamped = stamped.replace('weights: {default: "",', "weights: {at_launch: date -u +%j,")
    (folder / "profiles/closed.yaml").write_text(stamped)
    async with profiles(MemoryBackend(), folder, monkeypatch) as (app, pilot, _):
        await launch_screen(app, pilot, "closed")
        year, day = (f"{app.clock().astimezone(UTC):{form}}" for form in ("%Y", "%j"))
        await until(pilot, lambda: (value(app, "eager"), value(app, "weights")) == (year, day), "the values")


@pytest.mark.parametrize(("lines", "least"), [(2, 14), (14, 9)])
async def test_the_values_get_the_rows_that_the_checks_leave(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: int, least: int
) -> None:
    (tmp_path / "profiles").mkdir()
    names = [f"value{n}" for n in range(14)]
    head = "".join(f"  {name}: 1\n" for name in names)
    args = ", ".join(f"'${{{name}}}'" for name in names)
    machine = "machineSpec: {machineType: n1-standard-4}, replicaCount: 1"
    pool = f"{machine}, containerSpec: {{imageUri: i, args: [{args}]}}"
    spec = f"jobSpec: {{workerPoolSpecs: [{{{pool}}}]}}\n"
    text = f"displayName: many\nparameters:\n{head}{spec}"
    (tmp_path / "profiles" / "many.yaml").write_text(text)
    async with profiles(MemoryBackend(), tmp_path, monkeypatch) as (app, pilot, _):
        await pilot.resize_terminal(80, 24)
        await launch_screen(app, pilot, "many")
        screen = app.screen
        checks = screen.query_one(Checks)
        await until(pilot, lambda: checks.checks and not checks.running, "the checks")
        checks.show([(Content("? "), Content(f"known {n}")) for n in range(lines)])
        form, ahead = screen.query_one("#form"), screen.query_one("#ahead")
        await until(pilot, lambda: form.size.height == least, "the rows")
        assert form.region.bottom <= ahead.region.y
        assert ahead.region.bottom <= screen.query_one(KeyFooter).region.y
        await pilot.press(*["tab"] * 15)
        assert screen.focused is not None
        assert form.region.contains_region(screen.focused.region), "the value with the focus is in view"
