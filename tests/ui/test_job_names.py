"""Jobs can be told apart: a name at launch, templates, suffixes, an id column, and a choice of several."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

from textual.widgets import Input

from tests.ui.double import NOON, MemoryBackend, job
from tests.ui.jobs_screen_support import opened, painted, table, until
from tui.config.settings import Context
from tui.domain.core.states import JobState
from tui.domain.interchange import FORMS
from tui.screens.dialogs.pick import PickScreen
from tui.screens.dialogs.preview import PreviewScreen
from tui.screens.launch.form import LaunchForm
from tui.screens.launch.screen import LaunchScreen
from tui.screens.profile_form.screen import FormScreen
from tui.screens.profiles.export import ExportScreen
from tui.store.journal import AuditEntry, Journal
from tui.store.profiles.library import entries

PROFILE = """
displayName: "{profile}-{n}"
parameters:
  steps: {default: 10}
jobSpec:
  workerPoolSpecs:
    - machineSpec: {machineType: n1-standard-4}
      replicaCount: 1
      containerSpec: {imageUri: "python:3.11", command: [python], args: ["--steps=${steps}"]}
"""
THREE = [job(number, "tiny", JobState.SUCCEEDED, age=60 + number) for number in (71234, 82345, 93456)]


async def test_the_name_is_a_field_that_a_template_fills_in(tmp_path: Path) -> None:
    folder = tmp_path / "profiles"
    folder.mkdir()
    (folder / "sweep.yaml").write_text(PROFILE)
    backend = MemoryBackend([job(1, "sweep-4", JobState.SUCCEEDED)])
    reader = partial(entries, folder)
    async with opened(backend, tmp_path, read_profiles=reader) as (app, pilot):
        await app.action_launch("sweep")
        await until(pilot, lambda: isinstance(app.screen, LaunchScreen), "the form")
        field = app.screen.query(Input).first()
        # At once: enter right after the key that opened it launches.
        assert field.value == "sweep-5"
        field.value = "x" * 129
        await pilot.pause()
        assert "the maximum is 128" in app.screen.query_one(LaunchForm).name_field.problem
        field.value = "sweep-lr3"
        await pilot.pause()
        await pilot.press("enter")
        await until(pilot, lambda: backend.created, "the launch")
        assert backend.created[0].resource["displayName"] == "sweep-lr3"


async def test_the_name_of_a_job_that_was_launched_before_is_not_used_again(tmp_path: Path) -> None:
    """By this console or by a verb beside it, and deleted since."""
    folder = tmp_path / "profiles"
    folder.mkdir()
    (folder / "sweep.yaml").write_text(PROFILE)
    backend = MemoryBackend([job(1, "sweep-4", JobState.SUCCEEDED)])
    verbs = Journal(tmp_path / "audit.jsonl", lambda: NOON)
    here = AuditEntry("verb", "test", "p", "us-central1", "job.launch", "sweep-7")
    verbs.audit(here, "asked")
    verbs.audit(replace(here, context="elsewhere", target="sweep-90"), "asked")
    async with opened(backend, tmp_path, read_profiles=partial(entries, folder)) as (app, pilot):

        async def name() -> str:
            await app.action_launch("sweep")
            await until(pilot, lambda: isinstance(app.screen, LaunchScreen), "the form")
            return app.screen.query(Input).first().value

        assert await name() == "sweep-8"
        await pilot.press("enter")
        await until(pilot, lambda: backend.created, "the launch")
        await until(pilot, lambda: not isinstance(app.screen, LaunchScreen), "the job")
        (made,) = [name for name, each in backend.stored.items() if each.display_name == "sweep-8"]
        del backend.stored[made]
        verbs.audit(replace(here, target="sweep-9"), "asked")
        assert await name() in {"sweep-9", "sweep-10"}
        await until(pilot, lambda: app.screen.query(Input).first().value == "sweep-10", "the verb's launch")


async def test_each_request_that_is_shown_has_the_name_of_the_next_launch(tmp_path: Path) -> None:
    folder = tmp_path / "profiles"
    folder.mkdir()
    (folder / "sweep.yaml").write_text(PROFILE)
    backend = MemoryBackend([job(1, "sweep-4", JobState.SUCCEEDED)])
    async with opened(backend, tmp_path, read_profiles=partial(entries, folder)) as (app, pilot):
        await pilot.press("2")
        await until(pilot, lambda: table(app).keys, "the profiles")
        table(app).move_to(str(folder / "sweep.yaml"))
        await pilot.press("v")
        await until(pilot, lambda: isinstance(app.screen, PreviewScreen), "the request")
        assert "displayName: sweep-5" in app.screen.text
        await pilot.press("escape", "x")
        await until(pilot, lambda: isinstance(app.screen, ExportScreen), "the export")
        for _ in FORMS:
            assert "sweep-5" in app.screen.text and "{profile}" not in app.screen.text
            assert "fills in {n} again" in " ".join(app.screen.text.replace("#", "").split())
            await pilot.press("j")
        await pilot.press("escape", "e")
        await until(pilot, lambda: isinstance(app.screen, FormScreen), "the form")
        await until(pilot, lambda: app.screen.analysis.job is not None, "a look at it")
        await pilot.press("v")
        await until(pilot, lambda: isinstance(app.screen, PreviewScreen), "the form's request")
        assert "displayName: sweep-5" in app.screen.text


async def test_names_that_repeat_have_a_short_suffix(tmp_path: Path) -> None:
    async with opened(MemoryBackend([*THREE, job(5, "other")]), tmp_path) as (app, _):
        rows = "\n".join(painted(app))
        for ending in ("tiny #234", "tiny #345", "tiny #456"):
            assert ending in rows
        assert "other #" not in rows


async def test_wide_screens_have_an_id_column(tmp_path: Path) -> None:
    for width, there in ((120, False), (160, True)):
        async with opened(MemoryBackend(THREE), tmp_path / str(width), size=(width, 40)) as (app, _):
            head, *rows = painted(app)
            assert (" ID " in head) is there
            assert any("82345" in row for row in rows) is there


async def test_a_name_of_several_jobs_offers_a_choice(tmp_path: Path) -> None:
    async with opened(MemoryBackend(THREE), tmp_path) as (app, pilot):
        app.action_job("tiny")
        await until(pilot, lambda: isinstance(app.screen, PickScreen), "the choice")
        went: list[str] = []
        app.open_job = went.append  # type: ignore[method-assign, assignment]
        await pilot.press(*"82345", "enter")
        await until(pilot, lambda: went, "the job")
        assert went == [THREE[1].name]


async def test_on_this_machine_what_runs_here_comes_first_then_what_was_launched_last(tmp_path: Path) -> None:
    here = Context("test", kind="local", project="p")
    reader = partial(entries, tmp_path / "profiles")
    async with opened(MemoryBackend(), tmp_path, context=here, read_profiles=reader) as (app, pilot):
        await pilot.press("l")
        await until(pilot, lambda: table(app).keys, "the profiles")
        by_key = {entry.key: entry for entry in app.profiles.entries}
        order = [by_key[key] for key in table(app).keys]
        runs = [entry.runs_here and entry.family == "vertex" for entry in order]
        assert runs == sorted(runs, reverse=True) and True in runs and False in runs
        assert order[0].name == "local-1node" and table(app).cursor == order[0].key
        app.profiles.preferences.note_launch(
            next(entry for entry in order if entry.name == "local-2node"), "test"
        )
        await app.load_profiles()
        assert [entry.name for entry in app.profiles.entries][:2] == ["local-2node", "local-1node"]


async def test_a_favourite_is_marked_by_a_key_and_stays_at_the_next_start(tmp_path: Path) -> None:
    reader = partial(entries, tmp_path / "profiles")
    for _ in range(2):
        async with opened(MemoryBackend(), tmp_path, read_profiles=reader) as (app, pilot):
            await pilot.press("2")
            await until(pilot, lambda: table(app).keys, "the profiles")
            if not any("★" in row for row in painted(app)):
                table(app).move_to(next(e.key for e in app.profiles.entries if e.name == "local-2node"))
                await pilot.press("space")
            await until(pilot, lambda: "local-2node ★" in painted(app)[1], "the favourite on top")
