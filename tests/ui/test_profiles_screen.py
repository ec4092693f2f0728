"""Profiles by keys: list, preview, launch exactly once, duplicate, edit."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from textual.widgets import Input

from tests.ui.double import MemoryBackend, MemoryJobs
from tests.ui.jobs_screen_support import footer, lines, opened, painted, said, table, until
from tests.ui.profiles_screen_support import choose, profiles, text
from tui.backends.interface import InvalidRequest, LaunchRequest, Unavailable
from tui.domain.core.job import Job
from tui.screens.dialogs.preview import PreviewScreen
from tui.screens.dialogs.prompt import PromptScreen
from tui.screens.jobs.screen import JobsScreen
from tui.screens.launch.form import LaunchForm
from tui.screens.launch.screen import LaunchScreen
from tui.screens.profile_form.screen import FormScreen
from tui.screens.profiles.screen import ProfilesScreen
from tui.store.profiles.entries import ProfileEntry
from tui.store.profiles.library import entries
from tui.widgets.filter_bar import FilterBar
from tui.widgets.notice import Notice


async def test_ready_made_profiles_are_listed_and_valid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with profiles(MemoryBackend(), tmp_path, monkeypatch) as (app, _, _):
        names = {e.name for e in app.profiles.entries}
        assert {"local-1node", "local-2node", "l4-1node", "a100-4node-spot"} <= names
        assert not [e.problem for e in app.profiles.entries if e.problem]
        rows = "\n".join(table(app).render_line(y).text for y in range(20))
        assert "local-2node" in rows and "ready-made" in rows


async def test_a_filter_puts_a_name_before_a_description(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with profiles(MemoryBackend(), tmp_path, monkeypatch) as (app, pilot, _):
        await pilot.press("slash", *"arr-coc-4x8-a100")
        # The description of arr-coc-2x8-a100 names it, and it sorts first.
        await until(pilot, lambda: len(table(app).keys) < 8, "the filter")
        assert isinstance(app.screen, ProfilesScreen) and app.screen.current is not None
        assert app.screen.current.name == "arr-coc-4x8-a100"
        await pilot.press("enter", "l")
        await until(pilot, lambda: isinstance(app.screen, LaunchScreen), "the launch")
        assert "arr-coc-4x8-a100" in lines(app)


async def test_an_invalid_profile_says_why_and_cant_be_launched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "profiles"
    folder.mkdir()
    (folder / "bad.yaml").write_text("displayName: x\njobSpec: {workerPoolSpcs: []}\n")
    (folder / "worse.yaml").write_text("a: [\x1b[2J")
    async with profiles(MemoryBackend(), tmp_path, monkeypatch) as (app, pilot, _):
        await choose(app, pilot, "bad")
        assert "2 not valid" in lines(app) and "launch" not in footer(app)
        assert "workerPoolSpcs" in str(app.screen.query_one(Notice).content)
        await pilot.press("l")
        await pilot.press("enter")
        assert isinstance(app.screen, ProfilesScreen) and "bad is not valid" in said(app)
        await choose(app, pilot, "worse")
        assert "\x1b" not in str(app.screen.query_one(Notice).content)
        await choose(app, pilot, "local-2node")
        assert not app.screen.query_one(Notice).display


REFUSED = """
displayName: spot [red]
region: us-central1
jobSpec:
  scheduling: {strategy: SPOT}
  workerPoolSpecs:
    - machineSpec: {machineType: a2-highgpu-8g, acceleratorType: NVIDIA_TESLA_A100, acceleratorCount: 3}
      replicaCount: 2
      containerSpec: {imageUri: "us-docker.pkg.dev/p/r/i:1"}
"""


MENDED = REFUSED.replace("replicaCount: 2", "replicaCount: 1").replace(": 3}", ": 8}")


async def test_what_only_the_rules_refuse_is_no_tick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "profiles"
    folder.mkdir()
    (folder / "refused.yaml").write_text(REFUSED)
    (folder / "open.yaml").write_text(MENDED)
    async with profiles(MemoryBackend(), tmp_path, monkeypatch) as (app, pilot, _):
        await until(pilot, lambda: "1 not valid" in lines(app), "the rules")

        def read() -> dict[str, str]:
            return {row.split()[1]: row for row in painted(app) if len(row.split()) > 1}

        await until(pilot, lambda: read()["refused"].split()[0] != "·", "the row after the header")
        rows = read()
        assert rows["refused"].split()[0] == "✗" and "primary pool" in rows["refused"]
        assert rows["open"].split()[0] == "!", "Spot without a place for checkpoints is a warning"
        assert rows["local-2node"].split()[0] == "✓" and rows["a100-4node-spot"].split()[0] == "✓"
        await choose(app, pilot, "refused")
        said_ = str(app.screen.query_one(Notice).content)
        assert "refused would be refused: 2 errors" in said_ and "Write 8." in said_ and "line 7" in said_
        # Fixed, it is checked again.
        (folder / "refused.yaml").write_text(MENDED)
        await pilot.press("ctrl+r")
        await until(pilot, lambda: "not valid" not in lines(app), "the fixed one")


async def test_keys_before_the_list_is_read_are_typed_nowhere(tmp_path: Path) -> None:
    read = threading.Event()

    def slowly() -> list[ProfileEntry]:
        read.wait(30)
        return entries(tmp_path / "profiles")

    async with opened(MemoryBackend(), tmp_path, read_profiles=slowly) as (app, pilot):
        await pilot.press("2", "j", "l", "j")
        assert isinstance(app.screen, ProfilesScreen)
        read.set()
        await until(pilot, lambda: table(app).keys, "the profiles")
        assert not app.screen.query_one(FilterBar).text and len(table(app).keys) == len(app.profiles.entries)
        first = table(app).cursor
        await pilot.press("j")
        assert table(app).cursor != first, "the list has the keys"


async def test_preview_shows_the_exact_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with profiles(MemoryBackend(), tmp_path, monkeypatch) as (app, pilot, _):
        await choose(app, pilot, "local-2node")
        await pilot.press("v")
        screen = app.screen
        assert isinstance(screen, PreviewScreen)
        assert "/v1/projects/p/locations/us-central1/customJobs" in lines(app)
        request = yaml.safe_load(screen.text)
        assert request["displayName"] == "local-2node-1"
        assert len(request["jobSpec"]["workerPoolSpecs"]) == 2 and "${" not in screen.text
        await pilot.press("j")
        assert yaml.safe_load(screen.text) == request and screen.text.startswith("{")
        await pilot.press("y")
        assert app.clipboard == screen.text
        await pilot.press("escape")
        assert isinstance(app.screen, ProfilesScreen)


async def test_launch_sends_what_was_typed_and_opens_the_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = MemoryBackend(regions=("us-central1", "europe-west4"))
    async with profiles(backend, tmp_path, monkeypatch) as (app, pilot, went):
        await choose(app, pilot, "local-2node")
        await pilot.press("l")
        assert isinstance(app.screen, LaunchScreen) and "Launch local-2node" in lines(app)
        assert "price" in text(app, "#shape") and "1 + 1 × n1-standard-4" in text(app, "#shape")
        app.screen.query(Input)[0].value = "mine-7"
        app.screen.query(Input)[1].value = "europe-west4"
        await pilot.press("tab", "tab", "tab", *"77", "escape", "enter")
        await until(pilot, lambda: went, "the job's screen")
        (request,) = backend.created
        assert request.region == "europe-west4"
        assert request.resource["displayName"] == "mine-7"
        assert "--steps=77" in str(request.resource) and "${" not in str(request.resource)
        assert went == [next(iter(backend.stored))] and isinstance(app.screen, JobsScreen)
        assert "Launched" in app.journal.events[-1].text


class SlowCreate(MemoryBackend):
    """Answers a create only when told to."""

    def __init__(self) -> None:
        super().__init__()
        self.go = asyncio.Event()
        self.asked = 0
        self.use(jobs={"custom_job": SlowJobs(self)})


class SlowJobs(MemoryJobs):
    backend: SlowCreate

    async def create(self, request: LaunchRequest) -> Job:
        self.backend.asked += 1
        request.on_send()
        await self.backend.go.wait()
        return await super().create(request)


async def test_a_held_key_launches_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = SlowCreate()
    async with profiles(backend, tmp_path, monkeypatch) as (app, pilot, went):
        await choose(app, pilot, "local-2node")
        await pilot.press("l")
        await pilot.press(*["enter"] * 12)
        await until(pilot, lambda: backend.asked, "the create")
        await pilot.press("escape", "enter")
        assert isinstance(app.screen, LaunchScreen) and "Launching" in text(app, "#answer")
        backend.go.set()
        await pilot.press("enter", "enter")
        await until(pilot, lambda: went, "the job's screen")
        await pilot.press("enter")
        assert backend.asked == 1 and len(backend.created) == 1


async def test_a_held_key_does_not_repeat_a_launch_that_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = MemoryBackend()
    async with profiles(backend, tmp_path, monkeypatch) as (app, pilot, went):
        tries: list[Mapping[str, Any]] = []

        async def refuse(request: LaunchRequest) -> Job:
            tries.append(request.resource)
            raise Unavailable("no answer; [/] whether it was created is not known", fix="look at the jobs")

        monkeypatch.setattr(backend.jobs["custom_job"], "create", refuse)
        clock = SimpleNamespace(now=100.0, monotonic=lambda: clock.now)
        monkeypatch.setattr("tui.screens.launch.screen.time", clock)
        await choose(app, pilot, "local-2node")
        await pilot.press("l", "enter")
        await until(pilot, lambda: "not known" in text(app, "#answer"), "the answer")
        for _ in range(6):
            clock.now += 0.5
            await pilot.press("enter")
        assert len(tries) == 1 and "look at the jobs" in text(app, "#answer") and not went
        clock.now += 1.1
        await pilot.press("enter")
        await until(pilot, lambda: len(tries) == 2, "a second try, asked for anew")


async def test_what_the_service_refuses_is_shown_by_field(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = MemoryBackend()
    async with profiles(backend, tmp_path, monkeypatch) as (app, pilot, _):
        await choose(app, pilot, "local-2node")
        await pilot.press("l")
        backend.error = InvalidRequest("not valid", fields={"job_spec.scheduling": "too long"})
        await pilot.press("enter")
        await until(pilot, lambda: "job_spec.scheduling: too long" in text(app, "#answer"), "the field")


async def test_a_wrong_value_is_said_at_once_and_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = MemoryBackend()
    async with profiles(backend, tmp_path, monkeypatch) as (app, pilot, _):
        await choose(app, pilot, "local-2node")
        await pilot.press("l", "tab", "tab", "tab", *"many")
        assert "an integer" in app.screen.query_one(LaunchForm).parameters["steps"].problem
        assert "not valid: steps" in text(app, "#problems")
        await pilot.press("escape", "enter")
        assert not backend.created and "Can't be launched: steps must be an integer" in said(app)
        assert isinstance(app.screen, LaunchScreen) and app.screen.focused is None
        await pilot.press("escape")
        assert isinstance(app.screen, ProfilesScreen)


async def test_read_only_launches_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = MemoryBackend()
    async with profiles(backend, tmp_path, monkeypatch, read_only=True) as (app, pilot, _):
        await choose(app, pilot, "local-2node")
        await pilot.press("l")
        assert isinstance(app.screen, ProfilesScreen) and "is refused: " in said(app)
        await pilot.press("colon", *"launch local-2node", "enter")
        assert not backend.created and not isinstance(app.screen, LaunchScreen)


async def test_launch_by_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with profiles(MemoryBackend(), tmp_path, monkeypatch) as (app, pilot, _):
        await pilot.press("1", "colon", *"launch local-1", "enter")
        await until(pilot, lambda: isinstance(app.screen, LaunchScreen), "the launch screen")
        assert "Launch local-1node" in lines(app)


async def test_duplicate_asks_the_name_and_writes_over_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with profiles(MemoryBackend(), tmp_path, monkeypatch) as (app, pilot, _):
        await choose(app, pilot, "local-1node")
        await pilot.press("d")
        assert isinstance(app.screen, PromptScreen)
        line = app.screen.query_one(Input)
        line.value = "../evil"
        await pilot.press("enter")
        assert isinstance(app.screen, PromptScreen) and "letters" in text(app, "#problem")
        line.value = "mine"
        await pilot.press("enter")
        copy = tmp_path / "profiles" / "mine.yaml"
        await until(pilot, copy.exists, "the copy")
        # Its jobs are told from those of the original: they are called mine-1, mine-2, …
        assert 'displayName: "{profile}-{n}"\n' in copy.read_text()
        await until(pilot, lambda: isinstance(app.screen, FormScreen), "the form on the copy")
        await pilot.press("escape")
        await until(pilot, lambda: table(app).cursor == str(copy), "the cursor on it")
        before = copy.read_text()
        await pilot.press("d")
        app.screen.query_one(Input).value = "mine"
        await pilot.press("enter")
        assert isinstance(app.screen, PromptScreen) and "already" in text(app, "#problem")
        assert copy.read_text() == before


async def test_the_editor_opens_the_users_own_file_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "profiles"
    folder.mkdir()
    async with profiles(MemoryBackend(), tmp_path, monkeypatch) as (app, pilot, _):
        await choose(app, pilot, "local-1node")
        await pilot.press("E")
        assert "d makes your own copy" in said(app)
        own = folder / "own.yaml"
        own.write_text(app.profiles.entries[0].path.read_text())
        await pilot.press("ctrl+r")
        await until(pilot, lambda: str(own) in table(app).keys, "the new file")
        await choose(app, pilot, "own")
        started: list[list[str]] = []
        monkeypatch.setenv("EDITOR", "my-editor -w")
        monkeypatch.delenv("VISUAL", raising=False)
        monkeypatch.setattr("subprocess.run", lambda argv, **_: started.append(argv))
        # The pilot's terminal can't be suspended; the real one is driven in the test of the main job.
        monkeypatch.setattr(app, "suspend", _nothing)
        await pilot.press("E")
        assert started == [["my-editor", "-w", str(own)]]


class _nothing:
    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...
