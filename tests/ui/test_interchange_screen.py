"""Clone a job and export a profile by keys."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from textual.widgets import Input

from tests.ui.double import MemoryBackend, MemoryJobs, job
from tests.ui.job_double import JobBackend
from tests.ui.jobs_screen_support import lines, opened, said, table, until
from tests.ui.profiles_screen_support import choose, profiles, text
from tui.config.settings import Context
from tui.domain.core.states import JobState
from tui.domain.profile import load
from tui.screens.dialogs.prompt import PromptScreen
from tui.screens.job.screen import JobScreen
from tui.screens.jobs.screen import JobsScreen
from tui.screens.launch.screen import LaunchScreen
from tui.screens.profiles.export import ExportScreen
from tui.screens.profiles.screen import ProfilesScreen
from tui.store.profiles.library import entries

SPEC = {
    "workerPoolSpecs": [
        {
            "machineSpec": {"machineType": "n1-standard-4"},
            "replicaCount": "1",
            "containerSpec": {"imageUri": "python", "args": ["${HOME}"]},
        }
    ]
}


class WithSpec(MemoryBackend):
    """Has the specification of every job."""

    def __init__(self) -> None:
        super().__init__()
        self.use(jobs={"custom_job": SpecifiedJobs(self)})


class SpecifiedJobs(MemoryJobs):
    async def spec(self, name: str) -> dict[str, Any]:
        found = await self.get(name)
        labels = {"team": "nlp", "vxtui-launch": "x"}
        return {"name": name, "displayName": found.display_name, "labels": labels, "jobSpec": SPEC}


async def test_a_group_of_contexts_has_no_project_and_region_to_export(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "profiles").mkdir()
    group = Context("all", kind="group", members=["one", "two"])
    async with profiles(WithSpec(), tmp_path, monkeypatch, context=group) as (app, pilot, _):
        await choose(app, pilot, "local-2node")
        await app.screen.action_do("profiles.export")  # type: ignore[attr-defined]
        words = "all is a group. Choose one context: one, two. :context opens it."
        await until(pilot, lambda: words in said(app), "the refusal")
        assert isinstance(app.screen, ProfilesScreen)


async def test_a_job_is_saved_as_a_profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = job(7, "Big Run", JobState.RUNNING)
    backend = WithSpec()
    backend.stored[made.name] = made
    (tmp_path / "profiles").mkdir()
    (tmp_path / "profiles" / "big-run.yaml").write_text("displayName: mine\njobSpec: {}\n")
    async with profiles(backend, tmp_path, monkeypatch) as (app, pilot, _):
        await pilot.press("1")
        await until(pilot, lambda: isinstance(app.screen, JobsScreen) and app.screen.current, "the job")
        await pilot.press("C")
        await until(pilot, lambda: isinstance(app.screen, PromptScreen), "the question")
        line = app.screen.query_one(Input)
        assert line.value == "big-run-2"
        line.value = "big-run"
        await pilot.press("enter")
        assert isinstance(app.screen, PromptScreen) and "already" in text(app, "#problem")
        line.value = "again"
        await pilot.press("enter")
        path = tmp_path / "profiles" / "again.yaml"
        await until(pilot, lambda: "Saved as" in said(app), "the word")
        request = load(path.read_text(), str(path), "again").render()
        assert request.region == made.region and request.resource["labels"] == {"team": "nlp"}
        (pool,) = request.resource["jobSpec"]["workerPoolSpecs"]
        assert pool["replicaCount"] == 1 and pool["containerSpec"]["args"] == ["${HOME}"]
        assert any(e.name == "again" for e in app.profiles.entries)


async def test_a_job_is_saved_as_a_profile_from_its_own_screen(tmp_path: Path) -> None:
    """And the profile made is one that opens, and launches the very same job."""
    backend = JobBackend(job(7, "Big Run", JobState.RUNNING))
    backend.spec = {"displayName": "Big Run", "labels": {"vxtui-launch": "x"}, "jobSpec": SPEC}
    folder = tmp_path / "profiles"
    async with opened(backend, tmp_path, read_profiles=partial(entries, folder), profile_folder=folder) as (
        app,
        pilot,
    ):
        await until(pilot, lambda: table(app).keys, "the job")
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, JobScreen) and app.screen.job, "its screen")
        await pilot.press("C")
        await until(pilot, lambda: isinstance(app.screen, PromptScreen), "the question")
        assert app.screen.query_one(Input).value == "big-run"
        await pilot.press("escape")
        assert isinstance(app.screen, JobScreen) and not folder.exists()
        await pilot.press("C")
        await until(pilot, lambda: isinstance(app.screen, PromptScreen), "the question")
        await pilot.press(*"-again", "enter")
        assert isinstance(app.screen, PromptScreen) and "letters, digits" in text(app, "#problem")
        await pilot.press("ctrl+u", *"big-run-again", "enter")
        path = folder / "big-run-again.yaml"
        await until(pilot, lambda: f"Saved as {path}" in said(app), "the word")
        assert isinstance(app.screen, JobScreen)
        await pilot.press("2")
        await until(pilot, lambda: isinstance(app.screen, ProfilesScreen) and table(app).keys, "the profiles")
        table(app).move_to(str(path))
        await pilot.press("l")
        await until(pilot, lambda: isinstance(app.screen, LaunchScreen), "its launch")
        await pilot.press("enter")
        await until(pilot, lambda: backend.created, "the launch")
        (sent,) = backend.created
        (pool,) = sent.resource["jobSpec"]["workerPoolSpecs"]
        assert sent.region == "us-central1" and pool["containerSpec"]["args"] == ["${HOME}"]
        assert pool["machineSpec"] == SPEC["workerPoolSpecs"][0]["machineSpec"]


async def test_a_job_whose_specification_cant_be_read_says_why_on_its_own_screen(tmp_path: Path) -> None:
    backend = JobBackend(job(7, "odd", JobState.RUNNING))
    async with opened(backend, tmp_path) as (app, pilot):
        await until(pilot, lambda: table(app).keys, "the job")
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, JobScreen) and app.screen.job, "its screen")
        await pilot.press("C")
        await until(pilot, lambda: "odd can't be saved" in said(app), "the reason")
        assert isinstance(app.screen, JobScreen)


async def test_a_job_without_a_specification_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = MemoryBackend()
    made = job(7, "odd", JobState.RUNNING)
    backend.stored[made.name] = made
    async with profiles(backend, tmp_path, monkeypatch) as (app, pilot, _):
        await pilot.press("1")
        await until(pilot, lambda: isinstance(app.screen, JobsScreen) and app.screen.current, "the job")
        await pilot.press("C")
        await until(pilot, lambda: "odd can't be saved" in said(app), "the reason")
        assert isinstance(app.screen, JobsScreen)


async def test_the_gcloud_command_of_a_job_is_copied(tmp_path: Path) -> None:
    backend = WithSpec()
    for number, name in ((7, "seven"), (8, "eight")):
        made = job(number, name, JobState.SUCCEEDED)
        backend.stored[made.name] = made
    async with opened(backend, tmp_path) as (app, pilot):
        await until(pilot, lambda: len(table(app).keys) == 2, "the jobs")
        await pilot.press("y")
        await until(pilot, lambda: "Sent the gcloud command" in said(app), "the copy")
        current = app.screen.current  # type: ignore[attr-defined]
        assert app.clipboard.startswith("gcloud ai custom-jobs create \\\n")
        assert (
            f"--display-name={current.display_name}" in app.clipboard and 'args: ["${HOME}"]' in app.clipboard
        )
        assert "vxtui-launch" not in app.clipboard
        await pilot.press("asterisk", "y")
        await until(pilot, lambda: "Sent 2 gcloud commands" in said(app), "the copy of both")
        assert app.clipboard.count("gcloud ai custom-jobs create") == 2
        await pilot.press("asterisk", "Y")
        assert app.clipboard == current.name
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, JobScreen) and app.screen.job, "its screen")
        app.screen.action_tab_overview()  # type: ignore[attr-defined]
        await pilot.press("y")
        await until(
            pilot, lambda: f"--display-name={current.display_name}" in app.clipboard, "the copy there"
        )


async def test_a_job_whose_command_cant_be_made_says_why(tmp_path: Path) -> None:
    backend = MemoryBackend()
    made = job(7, "odd", JobState.RUNNING)
    backend.stored[made.name] = made
    async with opened(backend, tmp_path) as (app, pilot):
        await until(pilot, lambda: table(app).keys, "the job")
        await pilot.press("y")
        await until(pilot, lambda: "The command of odd can't be copied" in said(app), "the reason")


async def test_a_profile_is_shown_in_every_form(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    async with profiles(MemoryBackend(), tmp_path, monkeypatch) as (app, pilot, _):
        await choose(app, pilot, "local-2node")
        await pilot.press("x")
        await until(pilot, lambda: isinstance(app.screen, ExportScreen), "the forms")
        screen = app.screen
        assert isinstance(screen, ExportScreen) and "Export of local-2node" in lines(app)
        assert screen.text.startswith("gcloud ai custom-jobs create \\\n") and "not exported" in lines(app)
        config = screen.text.partition("<<'YAML'\n")[2].removesuffix("YAML\n")
        assert len(yaml.safe_load(config)["workerPoolSpecs"]) == 2
        await pilot.press("j")
        assert screen.text.startswith("#!/bin/sh") and "curl" in screen.text
        await pilot.press("tab", "y")
        assert "JobServiceClient" in screen.text and app.clipboard == screen.text
        await pilot.press("ctrl+s")
        assert isinstance(app.screen, PromptScreen)
        await pilot.press("enter")
        saved = tmp_path / "local-2node.py"
        await until(pilot, lambda: "Saved to" in said(app), "the file")
        assert saved.read_text() == screen.text
        await pilot.press("ctrl+s", "enter")
        assert isinstance(app.screen, PromptScreen) and "A file of that name" in text(app, "#problem")
        await pilot.press("escape", "escape")
        assert isinstance(app.screen, ProfilesScreen)
