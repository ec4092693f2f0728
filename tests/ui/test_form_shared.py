"""The form asks where pools share a changed value: this pool, or all that share it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from textual.pilot import Pilot
from textual.widgets import Static

from tests.ui.form_screen_support import A100, POOL, form, row, screen, settled, spec, to, view
from tests.ui.jobs_screen_support import footer, said, until
from tests.unit.profile_sharing_support import FIVE
from tui.app import VxtuiApp
from tui.screens.dialogs.choice import ChoiceScreen
from tui.screens.profile_form.screen import FormScreen

SECRET = "hf_" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZ"


async def asked(pilot: Pilot[Any], app: VxtuiApp) -> str:
    """The text of the question once it is there."""
    await until(pilot, lambda: isinstance(app.screen, ChoiceScreen), "the question")
    await pilot.pause()
    return "\n".join(str(part.content) for part in app.screen.query(Static))


def containers(app: VxtuiApp) -> list[Any]:
    return [each["containerSpec"] for each in spec(app)["workerPoolSpecs"]]


async def test_a_variable_of_one_pool_or_of_all_that_share_the_task(tmp_path: Path) -> None:
    async with form(tmp_path) as (app, pilot, path):
        to(app, f"{POOL}[1].containerSpec.env")
        await pilot.press("a", *"A=b", "enter")
        words = await asked(pilot, app)
        assert "Pools 0 and 1 share this value" in words
        assert "all 2 pools that share it" in words and "2 lines change" in words
        assert "{name: A, value: b}]" in words and "<<: *trainer" in words
        await pilot.press("enter")
        assert isinstance(app.screen, ChoiceScreen) and screen(app).draft.text == A100
        await pilot.press("a")
        await settled(pilot, app, "value: b")
        assert all(each["env"][-1] == {"name": "A", "value": "b"} for each in containers(app))
        (added,) = [x for x in screen(app).draft.text.splitlines() if x not in A100.splitlines()]
        assert added.endswith(", {name: A, value: b}]")
        assert view(app).current.key == f"{POOL}[1].containerSpec.env[1]"  # type: ignore[union-attr]
        await pilot.press("u")
        await until(pilot, lambda: screen(app).draft.text == A100, "one undo for all pools")
        assert "everywhere" in said(app)
        to(app, f"{POOL}[1].containerSpec.env")
        await pilot.press("a", *"A=b", "enter")
        await asked(pilot, app)
        await pilot.press("t")
        await settled(pilot, app, "value: b")
        first, second = containers(app)
        assert len(second["env"]) == len(first["env"]) + 1 and path.read_text() == A100


async def test_esc_on_the_question_leaves_file_and_form_as_they_were(tmp_path: Path) -> None:
    async with form(tmp_path) as (app, pilot, path):
        to(app, f"{POOL}[1].containerSpec.args")
        if row(app, f"{POOL}[1].containerSpec.args").open:
            await pilot.press("z")
        before = [(r.key, r.value, r.open) for r in view(app).rows]
        for keys in (("a", *"--new", "enter"), ("D",)):
            await pilot.press(*keys)
            await asked(pilot, app)
            await pilot.press("escape")
            await until(pilot, lambda: isinstance(app.screen, FormScreen), "the form")
            await until(pilot, lambda: view(app).has_focus, "the focus")
            assert [(r.key, r.value, r.open) for r in view(app).rows] == before
            assert view(app).current.key == f"{POOL}[1].containerSpec.args"  # type: ignore[union-attr]
            assert screen(app).draft.text == A100 == path.read_text() and not screen(app).draft.can_undo


async def test_a_machine_is_changed_for_all_of_five_pools_that_have_it(tmp_path: Path) -> None:
    text = FIVE.replace("    - replicaCount: 2\n      containerSpec: *task\n", "")
    async with form(tmp_path, text) as (app, pilot, _):
        to(app, f"{POOL}[2].machineSpec.machineType")
        await pilot.press("enter", *"mega", "enter")
        words = await asked(pilot, app)
        assert "Pools 0, 1 and 2 share this value" in words
        await pilot.press("a")
        await settled(pilot, app, "a2-megagpu-16g")
        machines = [each["machineSpec"] for each in spec(app)["workerPoolSpecs"]]
        assert [m["machineType"] for m in machines] == ["a2-megagpu-16g"] * 3 + ["n1-standard-4"]
        assert screen(app).draft.text.count("*big") == 2


async def test_tab_goes_on_to_the_next_field_after_the_answer(tmp_path: Path) -> None:
    async with form(tmp_path) as (app, pilot, _):
        to(app, f"{POOL}[1].diskSpec.bootDiskSizeGb")
        below = view(app).rows[[r.key for r in view(app).rows].index(view(app).current.key) + 1].key  # type: ignore[union-attr]
        await pilot.press("enter", "ctrl+u", *"300", "tab")
        await asked(pilot, app)
        await pilot.press("a")
        await settled(pilot, app, "bootDiskSizeGb: 300")
        await until(pilot, lambda: view(app).has_focus, "the focus")
        assert view(app).current.key == below  # type: ignore[union-attr]


async def test_places_that_are_not_one_of_each_pool_are_not_counted_as_pools(tmp_path: Path) -> None:
    text = A100.replace("labels:\n  workload: gpt\n", "labels: {workload: &word gpt}\n").replace(
        "machineType: a2-highgpu-8g", "machineType: *word"
    )
    assert text.count("*word") == 1
    async with form(tmp_path, text) as (app, pilot, _):
        to(app, "labels.workload")
        await pilot.press("enter", "ctrl+u", *"workload=bert", "enter")
        words = await asked(pilot, app)
        assert "Other places share this value" in words and "only here" in words
        await pilot.press("t")
        await settled(pilot, app, "bert")
        assert spec(app)["workerPoolSpecs"][1]["machineSpec"]["machineType"] == "gpt"


async def test_what_a_pool_has_alone_is_no_question(tmp_path: Path) -> None:
    async with form(tmp_path) as (app, pilot, _):
        to(app, f"{POOL}[1].replicaCount")
        await pilot.press("enter", "ctrl+u", "5", "enter")
        await settled(pilot, app, "replicaCount: 5")
        assert isinstance(app.screen, FormScreen) and "u undo" in footer(app)


async def test_the_preview_masks_secrets(tmp_path: Path) -> None:
    async with form(tmp_path) as (app, pilot, _):
        to(app, f"{POOL}[0].containerSpec.env")
        await pilot.press("a", *f"HF_TOKEN={SECRET}", "enter")
        words = await asked(pilot, app)
        assert "HF_TOKEN" in words and SECRET not in words
