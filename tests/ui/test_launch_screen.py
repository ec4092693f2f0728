"""The launch screen's checks: live, of the request as it is now, and fixed by a key."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from typing import Any

import pytest
from textual.widgets import Input, Static

from tests.ui.double import MemoryBackend
from tests.ui.jobs_screen_support import footer, said, until
from tests.ui.profiles_screen_support import choose, launch_screen, profiles, text
from tui.backends.interface import PreflightService
from tui.domain.document.document_edit import Edit
from tui.domain.vertex.preflight import Check, CheckStatus, RunningJobs, buckets_of, ok
from tui.screens.dialogs.choice import ChoiceScreen
from tui.screens.dialogs.preview import PreviewScreen
from tui.screens.launch.field import LaunchField
from tui.screens.launch.form import LaunchForm
from tui.screens.launch.screen import LaunchScreen

PROFILE = """\
displayName: far
region: us-central1
parameters:
  output: {default: gs://arr-coc-eu/run}
jobSpec:
  baseOutputDirectory: {outputUriPrefix: "${output}/4x8"}
  workerPoolSpecs:
    - machineSpec: {machineType: n1-standard-4}
      replicaCount: 1
      containerSpec: {imageUri: "python:3.11"}
"""


class CheckedBackend(MemoryBackend):
    """Finds a bucket that is far, and a quota that is short in one region; the account waits for `go`."""

    def __init__(self) -> None:
        super().__init__(regions=("us-central1", "us-east1"))
        self.asked: list[str] = []
        """Regions."""
        self.go = asyncio.Event()
        self.stops = True
        self.use(preflight=Checks(self))


class Checks(PreflightService):
    def __init__(self, backend: CheckedBackend) -> None:
        self._backend = backend

    async def run(
        self, region: str, job: Mapping[str, Any], running: RunningJobs
    ) -> AsyncGenerator[Check, None]:
        self._backend.asked.append(region)
        yield ok("credentials", "the service accepts the credentials")
        for name, paths in buckets_of(job).items():
            if name == "arr-coc-eu":
                new = Edit(paths[0], "gs://arr-coc-us/run/4x8")
                yield Check(
                    f"bucket:{name}",
                    CheckStatus.PROBLEM,
                    "is far",
                    "Use gs://arr-coc-us.",
                    (new,),
                    stops=False,
                )
            else:
                yield ok(f"bucket:{name}", "is near")
        if region == "us-central1":
            yield Check("quota", CheckStatus.PROBLEM, "short by 16", "Use us-east1.", region="us-east1")
        await self._backend.go.wait()
        yield Check("account", CheckStatus.PROBLEM, "may not act", "Ask for a role.")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles/far.yaml").write_text(PROFILE)
    return tmp_path


async def test_checks_come_live_and_are_fixed_by_a_key(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = CheckedBackend()
    async with profiles(backend, folder, monkeypatch) as (app, pilot, _):
        await launch_screen(app, pilot, "far")
        await until(pilot, lambda: "short by 16" in text(app, "#checks"), "the quota's line")
        assert "… checking" in text(app, "#checks") and "may not act" not in text(app, "#checks")
        assert "F  Use us-east1" in text(app, "#checks") and "fix" in footer(app)
        fields = {field.field: field for field in app.screen.query(LaunchField)}
        await pilot.press("F")
        assert fields["region"].value == "us-east1"
        # What was found before is of the past until it is found again.
        assert "short by 16" in text(app, "#checks")
        await until(pilot, lambda: "is far" in text(app, "#checks") and backend.asked[-1] == "us-east1", "F")
        await until(
            pilot, lambda: "✓ quota" in text(app, "#checks") or "! bucket" in text(app, "#checks"), "anew"
        )
        await pilot.press("F")
        assert fields["output"].value == "gs://arr-coc-us/run", "the parameter that it comes from"
        await until(pilot, lambda: "is near" in text(app, "#checks"), "the other bucket")
        backend.go.set()
        await until(pilot, lambda: "may not act" in text(app, "#checks"), "the last one")
        assert "looking" not in text(app, "#checks") and "short by 16" not in text(app, "#checks")
        await pilot.press("F")
        await until(pilot, lambda: "Ask for a role" in said(app), "how it is fixed")


async def test_a_mend_without_a_parameter_is_of_this_launch_alone(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = folder / "profiles/far.yaml"
    own = PROFILE.replace("{default: gs://arr-coc-eu/run}", "{default: gs://other/x}")
    path.write_text(own.replace("${output}/4x8", "gs://arr-coc-eu/run/4x8"))
    before = path.read_text()
    backend = CheckedBackend()
    backend.go.set()
    async with profiles(backend, folder, monkeypatch) as (app, pilot, went):
        await launch_screen(app, pilot, "far")
        app.screen.query(Input)[1].value = "us-east1"
        await until(pilot, lambda: "F  Use gs://arr-coc-us" in text(app, "#checks"), "the bucket's line")
        await until(pilot, lambda: "short by 16" not in text(app, "#checks"), "the other region's checks")
        await pilot.press("F")
        assert "is gs://arr-coc-us/run/4x8 for this launch" in text(app, "#problems")
        await until(pilot, lambda: "is near" in text(app, "#checks"), "the other bucket")
        await pilot.press("d")
        assert isinstance(app.screen, PreviewScreen)
        shown = json.loads(app.screen.text)
        assert set(shown) == {"request", "price", "preflight", "problems"}
        assert "gs://arr-coc-us/run/4x8" in str(shown["request"])
        await pilot.press("escape", "enter")
        await until(pilot, lambda: isinstance(app.screen, ChoiceScreen), "the account's check")
        await pilot.press("y")
        await until(pilot, lambda: went, "the job's screen")
        (request,) = backend.created
        assert "arr-coc-us" in str(request.resource) and path.read_text() == before


async def test_what_would_fail_is_asked_once_more_and_a_held_key_is_no_answer(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = CheckedBackend()
    async with profiles(backend, folder, monkeypatch) as (app, pilot, went):
        await choose(app, pilot, "far")
        await pilot.press("l", "enter")
        await until(pilot, lambda: "Waiting for the checks" in text(app, "#answer"), "what it waits for")
        # The name that the screen has filled in itself may be reported after the key.
        screen = app.screen
        assert isinstance(screen, LaunchScreen)
        screen._form.post_message(LaunchForm.Changed())
        await pilot.pause()
        assert "Waiting for the checks" in text(app, "#answer")
        await pilot.press("escape")
        assert isinstance(app.screen, LaunchScreen) and "Not launched" in text(app, "#answer")
        await pilot.press("enter")
        backend.go.set()
        await until(pilot, lambda: isinstance(app.screen, ChoiceScreen), "the question")
        await pilot.press(*["enter"] * 12)
        assert isinstance(app.screen, ChoiceScreen) and not backend.created
        asked = "\n".join(str(line.content) for line in app.screen.query(Static))
        assert "Launch far anyway?" in asked and 'The check "quota" reports: short by 16' in asked
        assert 'The check "account" reports: may not act' in asked and "is far" not in asked
        for no in ("n", "escape"):
            await pilot.press(no)
            assert isinstance(app.screen, LaunchScreen) and "Not launched" in text(app, "#answer")
            await pilot.press("enter")
            await until(pilot, lambda: isinstance(app.screen, ChoiceScreen), "the question again")
        assert not backend.created
        await pilot.press("y")
        await until(pilot, lambda: went, "the job's screen")
        assert len(backend.created) == 1


async def test_checks_that_do_not_answer_hold_a_launch_up_for_a_while_only(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tui.screens.launch.screen.CHECK_SECONDS", 0.2)
    backend = CheckedBackend()
    async with profiles(backend, folder, monkeypatch) as (app, pilot, went):
        await choose(app, pilot, "far")
        await pilot.press("l")
        app.screen.query(Input)[1].value = "us-east1"
        await pilot.pause()
        await pilot.press("enter")
        await until(pilot, lambda: went, "the job's screen")
        assert backend.created[0].region == "us-east1"


async def test_leaving_ends_the_looks(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = CheckedBackend()
    async with profiles(backend, folder, monkeypatch) as (app, pilot, _):
        await choose(app, pilot, "far")
        await pilot.press("l")
        await until(pilot, lambda: backend.asked, "the first look")
        await pilot.press("escape")
        await until(pilot, lambda: not [w for w in app.workers if w.group == "preflight"], "its end")
