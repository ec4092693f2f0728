"""The form of a pipeline's profile: its fields, and its parameters with types and defaults."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from textual.widgets import Static

from tests.ui.double import MemoryBackend, console
from tests.ui.form_screen_support import detail, drawn, form, row, screen, settled, to
from tests.ui.jobs_screen_support import until
from tests.unit.pipeline_body_support import profile, spec
from tui.app import VxtuiApp
from tui.config.paths import shipped
from tui.config.settings import Settings
from tui.domain.vertex.cost import Estimate, TaskPrice
from tui.domain.vertex.prices import Range
from tui.screens.profile_form.screen import FormScreen
from tui.store.profiles.draft import Draft
from tui.store.profiles.templates import PIPELINE_JOB, read_beside

TASK = TaskPrice("train", "e2-standard-4", Range(0.25, 0.5), 1)
PRICE = Estimate(None, None, 0.0, "2026-08-22", "a table of the test's", tasks=(TASK,))
VALUES = "pipelineJob.runtimeConfig.parameterValues"
HEAD = "parameters: {r: {type: number, default: 0.5, help: Rate}}\n"


def text(folder: Path) -> str:
    made = profile(folder, spec(), "{rate: '${r}', name: x}", head=HEAD)
    return Path(made.document.file).read_text()


def summary(app: VxtuiApp) -> str:
    return str(screen(app).query_one("#summary", Static).content)


async def test_parameters_have_their_type_default_and_help_and_are_edited(tmp_path: Path) -> None:
    folder = tmp_path / "profiles"
    folder.mkdir()
    async with form(tmp_path, text(folder), size=(120, 40)) as (app, pilot, path):
        assert "3 tasks" not in drawn(app) and "compiled file" in drawn(app)
        said = summary(app)
        assert "1 task   a" in said and "an hour a task" in said and "no problems" in said

        to(app, f"{VALUES}.steps")
        assert row(app, f"{VALUES}.steps").note == "5"
        await until(pilot, lambda: detail(app) == "integer. How many.", "its type and help")
        await pilot.press("enter", *"many")
        await until(pilot, lambda: "an integer" in detail(app), "what is expected")
        await pilot.press("ctrl+u", "7", "enter")
        await settled(pilot, app, "steps: 7")

        assert row(app, f"{VALUES}.rate").value == "${r} = 0.5"
        to(app, f"{VALUES}.sizes")
        await pilot.press("enter", *"[3, 4]", "enter")
        await settled(pilot, app, "sizes:")
        to(app, f"{VALUES}.more")
        await pilot.press("enter", *'{"a": 1}', "enter")
        await settled(pilot, app, "more:")
        to(app, f"{VALUES}.fast")
        await pilot.press("space")
        await settled(pilot, app, "fast: true")
        values = yaml.safe_load(screen(app).draft.text)["pipelineJob"]["runtimeConfig"]["parameterValues"]
        assert values == {
            "rate": "${r}", "name": "x", "steps": 7, "sizes": [3, 4], "more": {"a": 1}, "fast": True,
        }  # fmt: skip
        assert row(app, f"{VALUES}.sizes").value == "[3, 4]"

        to(app, "pipelineJob.runtimeConfig.gcsOutputDirectory")
        await pilot.press("enter", "ctrl+u", *"bucket", "enter")
        await until(pilot, lambda: "must be a folder of a bucket" in detail(app), "the rule's word")
        await pilot.press("u")
        await until(pilot, lambda: "no problems" in summary(app), "the undo")
        to(app, "pipelineJob.runtimeConfig.failurePolicy")
        await pilot.press("enter", "down", "enter")
        await settled(pilot, app, "failurePolicy: PIPELINE_FAILURE_POLICY_FAIL_FAST")
        await pilot.press("ctrl+s")
        await until(pilot, lambda: "FAIL_FAST" in path.read_text(), "saved")


async def test_what_is_wrong_in_the_compiled_file_is_at_its_field(tmp_path: Path) -> None:
    folder = tmp_path / "profiles"
    folder.mkdir()
    made = text(folder)
    (folder / "dag.yaml").write_text(yaml.safe_dump(spec(schemaVersion="1")))
    async with form(tmp_path, made) as (app, pilot, _):
        to(app, "pipelineJob.templatePath")
        await until(pilot, lambda: "schemaVersion is 1" in detail(app), "the problem of the file")


@pytest.mark.parametrize(
    ("size", "theme"), [((80, 24), "vxtui-dark"), ((120, 40), "vxtui-light")], ids=["80", "120-light"]
)
def test_the_form_of_a_pipeline(
    tmp_path: Path, snap_compare: Any, monkeypatch: pytest.MonkeyPatch, size: tuple[int, int], theme: str
) -> None:
    # Neither this machine's folders nor today's prices are in a picture.
    ready_made = shipped("profiles") / "local-pipeline.yaml"
    monkeypatch.setattr(PIPELINE_JOB, "_read", lambda _, named: read_beside(str(ready_made), named))
    monkeypatch.setattr("tui.screens.profile_form.estimates.estimate", lambda *_: PRICE)
    app = console(MemoryBackend(), tmp_path, settings=Settings(theme=theme))

    async def ready(pilot: Any) -> None:
        await until(pilot, lambda: app.live, "an answer")
        shown = FormScreen(
            Draft(Path("/home/ana/profiles/dag.yaml"), ready_made.read_text(), tmp_path / "drafts")
        )
        await app.push_screen(shown)
        await until(pilot, lambda: shown.view.rows, "rows")
        await pilot.press("right_square_bracket", "right_square_bracket", "right_square_bracket", "j")
        await pilot.pause()

    assert snap_compare(app, terminal_size=size, run_before=ready)
