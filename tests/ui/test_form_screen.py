"""The profile form by keys, on real files."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from textual.pilot import Pilot
from textual.widgets import Static

from tests.ui.double import NOON, MemoryBackend
from tests.ui.form_screen_support import (
    A100,
    POOL,
    detail,
    drawn,
    form,
    ready,
    row,
    screen,
    settled,
    spec,
    to,
    view,
)
from tests.ui.jobs_screen_support import footer, lines, opened, said, table, until
from tui.app import VxtuiApp
from tui.domain.core.quota import Quota
from tui.screens.dialogs.choice import ChoiceScreen
from tui.screens.dialogs.help import HelpScreen
from tui.screens.dialogs.message import MessageScreen
from tui.screens.dialogs.pick import PickScreen
from tui.screens.dialogs.preview import PreviewScreen
from tui.screens.dialogs.prompt import PromptScreen
from tui.screens.launch.screen import LaunchScreen
from tui.screens.profile_form.diff import DiffScreen
from tui.screens.profile_form.field_actions import folds
from tui.screens.profile_form.screen import FormScreen
from tui.screens.profiles.screen import ProfilesScreen
from tui.store.profiles.library import entries
from tui.widgets.notice import Notice


async def answer(pilot: Pilot[Any], app: VxtuiApp, key: str) -> None:
    """Answer the question whether this pool changes or all that share the value."""
    await until(pilot, lambda: isinstance(app.screen, ChoiceScreen), "the question")
    await pilot.press(key)


async def test_a_value_is_edited_in_place_and_saved_with_its_comments(tmp_path: Path) -> None:
    async with form(tmp_path) as (app, pilot, path):
        to(app, "description")
        await pilot.press("enter", "ctrl+u", *"short", "enter")
        await settled(pilot, app, "description: short")
        assert "not saved" in lines(app) and "~" in drawn(app)
        assert path.read_text() == A100
        await pilot.press("d")
        assert isinstance(app.screen, DiffScreen) and "+1" in lines(app)
        await pilot.press("escape", "ctrl+s")
        await until(pilot, lambda: "not saved" not in lines(app), "saved")
        after = path.read_text()
        assert after.splitlines()[0] == A100.splitlines()[0] and "description: short" in after
        assert [a for a in after.splitlines() if a not in A100.splitlines()] == ["description: short"]


async def test_esc_leaves_a_value_as_it_was(tmp_path: Path) -> None:
    async with form(tmp_path) as (app, pilot, _):
        to(app, "description")
        await pilot.press("enter", *"abc", "escape")
        assert isinstance(app.screen, FormScreen) and not screen(app).draft.changed
        await pilot.press("escape")
        assert isinstance(app.screen, ProfilesScreen)


async def test_tab_takes_the_value_and_goes_on(tmp_path: Path) -> None:
    async with form(tmp_path) as (app, pilot, _):
        to(app, "displayName")
        await pilot.press("enter", "ctrl+u", *"a-name", "tab")
        await settled(pilot, app, "displayName: a-name")
        await until(pilot, lambda: view(app).current.key == "description", "the next row")  # type: ignore[union-attr]
        assert view(app).has_focus


async def test_what_is_wrong_is_said_while_it_is_typed(tmp_path: Path) -> None:
    async with form(tmp_path) as (app, pilot, _):
        to(app, f"{POOL}[1].replicaCount")
        await pilot.press("enter", "ctrl+u", *"many")
        await until(pilot, lambda: "an integer" in detail(app), "what is expected")
        await pilot.press("enter")
        assert not screen(app).draft.changed and screen(app).line.has_focus
        await pilot.press("ctrl+u", "0")
        await until(pilot, lambda: row(app, f"{POOL}[1].replicaCount").problems, "the rule's word")
        assert not screen(app).draft.changed
        await pilot.press("ctrl+u", "5", "enter")
        await settled(pilot, app, "replicaCount: 5")
        assert not row(app, f"{POOL}[1].replicaCount").problems
        assert "48 A100" in str(screen(app).query_one("#summary", Static).content)


async def test_machines_are_those_of_the_accelerator_and_bring_theirs(tmp_path: Path) -> None:
    async with form(tmp_path) as (app, pilot, _):
        to(app, f"{POOL}[1].machineSpec.machineType")
        await pilot.press("enter")
        assert isinstance(app.screen, PickScreen)
        assert "a2-megagpu-16g" in app.screen._shown and "n1-standard-4" not in app.screen._shown
        await pilot.press(*"mega", "enter")
        await answer(pilot, app, "t")
        await settled(pilot, app, "a2-megagpu-16g")
        machine = spec(app)["workerPoolSpecs"][1]["machineSpec"]
        assert machine["acceleratorCount"] == 16
        assert spec(app)["workerPoolSpecs"][0]["machineSpec"]["machineType"] == "a2-highgpu-8g"


async def test_another_accelerator_asks_for_a_machine_that_takes_it(tmp_path: Path) -> None:
    async with form(tmp_path) as (app, pilot, _):
        to(app, f"{POOL}[0].machineSpec.acceleratorType")
        await pilot.press("enter")
        assert isinstance(app.screen, PickScreen) and "NVIDIA_L4" in app.screen._shown
        await pilot.press(*"_L4", "enter")
        await until(pilot, lambda: isinstance(app.screen, PickScreen), "the machines")
        assert isinstance(app.screen, PickScreen)
        assert all(name.startswith("g2-") for name in app.screen._shown)
        await pilot.press(*"48", "enter")
        await answer(pilot, app, "t")
        await settled(pilot, app, "g2-standard-48")
        machine = spec(app)["workerPoolSpecs"][0]["machineSpec"]
        assert machine["acceleratorType"] == "NVIDIA_L4" and machine["acceleratorCount"] == 4
        await pilot.press("u")
        await until(pilot, lambda: screen(app).draft.text == A100, "one undo for all of it")


async def test_a_problem_is_found_and_fixed_by_keys(tmp_path: Path) -> None:
    wrong = A100.replace("      replicaCount: 3", "      replicaCuont: 3").replace("SPOT", "SPOTT")
    async with form(tmp_path, wrong) as (app, pilot, _):
        await pilot.press("n")
        assert view(app).current is not None and view(app).current.problems  # type: ignore[union-attr]
        while "replicaCuont" not in view(app).current.key:  # type: ignore[union-attr]
            await pilot.press("n")
        assert "Did you mean replicaCount" in detail(app) and "F fix" in footer(app)
        await pilot.press("F")
        await until(pilot, lambda: "replicaCuont" not in screen(app).draft.text, "fixed")
        assert spec(app)["workerPoolSpecs"][1]["replicaCount"] == 3
        await pilot.press("i")
        assert isinstance(app.screen, MessageScreen)
        await pilot.press("escape")


async def test_n_opens_what_hides_the_problem(tmp_path: Path) -> None:
    wrong = A100.replace("acceleratorCount: 8", "acceleratorCount: 3")
    async with form(tmp_path, wrong) as (app, pilot, _):
        await pilot.press("Z")
        assert f"{POOL}[0].replicaCount" not in [r.key for r in view(app).rows]
        await pilot.press("n")
        assert view(app).current.key == f"{POOL}[0].machineSpec.acceleratorCount"  # type: ignore[union-attr]


async def test_adding_and_taking_away(tmp_path: Path) -> None:
    async with form(tmp_path) as (app, pilot, _):
        to(app, f"{POOL}[0].containerSpec.env")
        await pilot.press("a", *"A=b=c", "enter")
        await answer(pilot, app, "t")
        await settled(pilot, app, "b=c")
        assert spec(app)["workerPoolSpecs"][0]["containerSpec"]["env"][1] == {"name": "A", "value": "b=c"}
        assert view(app).current.key == f"{POOL}[0].containerSpec.env[1]"  # type: ignore[union-attr]
        await pilot.press("D")
        await until(pilot, lambda: "b=c" not in screen(app).draft.text, "gone")
        to(app, "labels")
        await pilot.press("a", *"noequals", "enter")
        assert "NAME=VALUE" in detail(app)
        await pilot.press("escape")
        to(app, f"{POOL}[1].containerSpec.args")
        await pilot.press("a", *"--new", "enter")
        await answer(pilot, app, "t")
        await settled(pilot, app, "--new")
        assert "--new" not in spec(app)["workerPoolSpecs"][0]["containerSpec"]["args"]
        to(app, f"{POOL}[0].nfsMounts")
        await pilot.press("a")
        await settled(pilot, app, "nfsMounts")
        to(app, f"{POOL}[0].nfsMounts[0].path")
        await pilot.press("enter", *"/data", "enter")
        await settled(pilot, app, "/data")
        to(app, "pool:new")
        await pilot.press("enter", "down", "enter")
        await until(pilot, lambda: len(spec(app)["workerPoolSpecs"]) == 4, "a pool of evaluators")
        assert spec(app)["workerPoolSpecs"][2] == {}
        assert view(app).current.key == f"{POOL}[3].replicaCount"  # type: ignore[union-attr]
        for _ in range(6):
            await pilot.press("u")
        await until(pilot, lambda: screen(app).draft.text == A100, "everything undone")


async def test_parameters_are_made_edited_and_put_back(tmp_path: Path) -> None:
    async with form(tmp_path) as (app, pilot, _):
        to(app, f"{POOL}[0].diskSpec.bootDiskSizeGb")
        await pilot.press("p")
        assert isinstance(app.screen, PromptScreen)
        await pilot.press("ctrl+u", *"disk", "enter")
        await answer(pilot, app, "t")
        await settled(pilot, app, "${disk}")
        here = row(app, f"{POOL}[0].diskSpec.bootDiskSizeGb")
        assert here.value == "${disk} = 200" and "Parameter disk" in detail(app)
        await pilot.press("enter", "ctrl+u", *"300", "enter")
        await settled(pilot, app, "300")
        assert yaml.safe_load(screen(app).draft.text)["parameters"]["disk"]["default"] == 300
        await pilot.press("P")
        await until(pilot, lambda: "${disk}" not in screen(app).draft.text, "a plain value")
        assert spec(app)["workerPoolSpecs"][0]["diskSpec"]["bootDiskSizeGb"] == 300
        to(app, "parameters.steps")
        await pilot.press("D")
        assert "is used by" in said(app)


async def test_find_opens_the_group_of_a_field(tmp_path: Path) -> None:
    async with form(tmp_path) as (app, pilot, _):
        await pilot.press("slash", *"lustre")
        assert view(app).current.key == f"{POOL}[0].lustreMounts"  # type: ignore[union-attr]
        await pilot.press("enter")
        assert view(app).has_focus and "Lustre mounts" in drawn(app)


async def test_find_prefers_the_name_itself_to_a_part_of_one(tmp_path: Path) -> None:
    async with form(tmp_path) as (app, pilot, _):
        await pilot.press("slash", *"count")
        found = view(app).current
        assert found is not None and found.label == "count"
        assert found.key == f"{POOL}[0].machineSpec.acceleratorCount"


async def test_a_file_changed_meanwhile_is_not_written_over(tmp_path: Path) -> None:
    async with form(tmp_path) as (app, pilot, path):
        to(app, "displayName")
        await pilot.press("enter", "ctrl+u", *"mine", "enter")
        await settled(pilot, app, "displayName: mine")
        theirs = A100.replace("a100-4node-spot", "theirs")
        path.write_text(theirs)
        await pilot.press("ctrl+s")
        await until(pilot, lambda: isinstance(app.screen, ChoiceScreen), "the question")
        assert path.read_text() == theirs
        await pilot.press("r")
        await until(pilot, lambda: screen(app).draft.text == theirs, "theirs")
        await pilot.press("u")
        await settled(pilot, app, "displayName: mine")
        await pilot.press("ctrl+s")
        await until(
            pilot, lambda: "displayName: mine" in path.read_text(), "saved over theirs, which was read"
        )


async def test_text_that_is_no_yaml_says_where(tmp_path: Path) -> None:
    async with form(tmp_path, "displayName: a\njobSpec: [\n") as (app, pilot, path):
        notice = screen(app).query_one(Notice)
        assert notice.display and "line 2" in str(notice.content) and "E opens" in str(notice.content)
        await pilot.press("enter", "a", "D", "n", "F", "p", "space", "v", "l", "z")
        assert isinstance(app.screen, FormScreen) and not screen(app).draft.changed
        path.write_text(A100)
        await pilot.press("ctrl+r")
        await until(pilot, lambda: screen(app).analysis.readable and not notice.display, "the fixed file")


async def test_a_ready_made_profile_is_saved_as_a_copy(tmp_path: Path) -> None:
    (tmp_path / "profiles").mkdir()
    async with opened(
        MemoryBackend(), tmp_path, size=(80, 24),
        read_profiles=partial(entries, tmp_path / "profiles"), profile_folder=tmp_path / "profiles",
    ) as (app, pilot):  # fmt: skip
        await pilot.press("2")
        await until(pilot, lambda: table(app).keys, "the profiles")
        await pilot.press("e")
        await until(pilot, lambda: isinstance(app.screen, FormScreen) and ready(app), "the form")
        assert "ready-made" in lines(app)
        before = screen(app).draft.path.read_text()
        await pilot.press("ctrl+s")
        assert isinstance(app.screen, PromptScreen)
        await pilot.press("ctrl+u", *"own", "enter")
        copy = tmp_path / "profiles" / "own.yaml"
        await until(pilot, copy.exists, "the copy")
        await until(pilot, lambda: "ready-made" not in lines(app), "it is mine")
        assert copy.read_text() == before


async def test_the_saved_profile_is_launched_and_looked_at(tmp_path: Path) -> None:
    async with form(tmp_path) as (app, pilot, _):
        await pilot.press("v")
        assert isinstance(app.screen, PreviewScreen)
        await pilot.press("escape")
        to(app, "displayName")
        await pilot.press("enter", *"2", "enter")
        await settled(pilot, app, "spot2")
        await pilot.press("l")
        assert isinstance(app.screen, FormScreen) and "Save the profile first" in said(app)
        await pilot.press("ctrl+s", "l")
        await until(pilot, lambda: isinstance(app.screen, LaunchScreen), "the launch screen")


async def test_nothing_of_the_file_is_obeyed(tmp_path: Path) -> None:
    text = A100.replace("small", "x").replace(
        "workload: gpt", 'workload: "[red]\\e[2J[/]\\u202e"\n  "\\e]0;t\\a": x'
    )
    async with form(tmp_path, text) as (app, pilot, _):
        to(app, "labels")
        await pilot.press("enter")
        shown = drawn(app) + lines(app) + detail(app)
        assert "\x1b" not in shown and "\x07" not in shown and "\u202e" not in shown and "[red]" in shown


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (40, 12)])
async def test_rows_are_exactly_as_wide_as_the_screen(tmp_path: Path, size: tuple[int, int]) -> None:
    async with form(tmp_path, size=size) as (app, pilot, _):
        for _ in range(3):
            for y in range(view(app).size.height):
                assert view(app).render_line(y).cell_length == view(app).size.width
            await pilot.press("pagedown")


async def test_price_quota_and_reducers_are_told(tmp_path: Path) -> None:
    backend = MemoryBackend(local=False)
    stem = "aiplatform.googleapis.com/custom_model_training_preemptible_nvidia_a100_gpus"
    backend.stored_quotas = [Quota(stem, "us-central1", 16, 0, preemptible=True, used_at=NOON)]
    async with form(tmp_path, size=(120, 40), backend=backend) as (app, pilot, _):

        def summary() -> str:
            return str(screen(app).query_one("#summary", Static).content)

        await until(pilot, lambda: "short 16" in summary(), "what is lacking")
        assert "/h" in summary() and "20" in summary() and "in all" in summary()
        await pilot.press("slash", *"reduction", "enter")
        assert row(app, "reduction-server").value == "off   13 × n1-highcpu-16 would do"
        assert row(app, "reduction-server").note.startswith("~$")
        await pilot.press("space")
        await until(pilot, lambda: "reducers 13" in summary(), "the reducers")
        pools = spec(app)["workerPoolSpecs"]
        assert pools[2]["replicaCount"] == 13 and row(app, "reduction-server").value.startswith("on   13")
        to(app, f"{POOL}[1].replicaCount")
        await pilot.press("enter", "ctrl+u", "7", "enter")
        await until(pilot, lambda: "makes it 25" in row(app, "reduction-server").note, "another number")
        to_switch = screen(app).view.move_to("reduction-server")
        assert to_switch
        await pilot.press("enter")
        await until(pilot, lambda: spec(app)["workerPoolSpecs"][2]["replicaCount"] == 25, "taken")
        await pilot.press("space")
        await until(pilot, lambda: len(spec(app)["workerPoolSpecs"]) == 2, "off")


async def test_the_form_says_of_a_quota_what_has_been_read_meanwhile(tmp_path: Path) -> None:
    backend = MemoryBackend(local=False)
    stem = "aiplatform.googleapis.com/custom_model_training_preemptible_nvidia_a100_gpus"
    backend.stored_quotas = [Quota(stem, "us-central1", 64, 0, preemptible=True, used_at=NOON)]
    async with form(tmp_path, size=(120, 40), backend=backend) as (app, pilot, _):

        def summary() -> str:
            return str(screen(app).query_one("#summary", Static).content)

        await until(pilot, lambda: "✓ quota fits" in summary(), "room")
        backend.stored_quotas = [replace(backend.stored_quotas[0], used=60)]
        await pilot.press("question_mark")
        await until(pilot, lambda: isinstance(app.screen, HelpScreen), "another screen")
        await pilot.press("escape")
        await until(pilot, lambda: "4 free of 64, short 28" in summary(), "the new word")


async def test_reducers_say_why_they_cant_help(tmp_path: Path) -> None:
    alone = A100[: A100.index("    - machineSpec: *machine")] + A100[A100.index("  scheduling:") :]
    async with form(tmp_path, alone) as (app, pilot, _):
        screen(app).view.move_to("reduction-server")
        await until(pilot, lambda: "single node" in row(app, "reduction-server").note, "why not")
        await pilot.press("space")
        assert "single node" in said(app) and not screen(app).draft.changed


async def test_the_line_stays_at_its_row_when_the_screen_changes(tmp_path: Path) -> None:
    async with form(tmp_path) as (app, pilot, _):
        to(app, f"{POOL}[1].replicaCount")
        await pilot.press("enter", "ctrl+u", *"12")
        for size in ((120, 40), (60, 16), (80, 24)):
            await pilot.resize_terminal(*size)
            await pilot.pause()
            place = view(app).place_of(f"{POOL}[1].replicaCount")
            assert place is not None
            line = screen(app).line.region
            assert line.offset == view(app).region.offset + place[0] and line.width == place[1]
        view(app).scroll_to(y=1, animate=False)
        await pilot.pause()
        place = view(app).place_of(f"{POOL}[1].replicaCount")
        assert place is not None and screen(app).line.styles.offset.y.value == place[0].y
        await pilot.press("enter")
        await settled(pilot, app, "replicaCount: 12")


async def test_a_read_only_context_shows_a_profile_and_offers_no_edit(tmp_path: Path) -> None:
    async with form(tmp_path, read_only=True, size=(200, 40)) as (app, pilot, _):
        to(app, "description")
        await until(pilot, lambda: "enter edit" not in footer(app), "the footer of a value")
        keys = footer(app)
        for edit in ("a add", "D remove", "ctrl+s save", "E editor", "l launch"):
            assert edit not in keys, edit
        assert "/ find" in keys and "v view request" in keys
        await pilot.press("enter")
        await until(pilot, lambda: "Edit is refused: vxtui is read-only" in said(app), "the sentence")
        assert screen(app).draft.text == A100 and not screen(app).line.display
        before = len(view(app).rows)
        to(app, next(row.key for row in view(app).rows if folds(row)))
        await pilot.press("enter")
        await until(pilot, lambda: len(view(app).rows) != before, "the group that enter closes")
