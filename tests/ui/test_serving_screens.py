"""Models and endpoints by keys: what made a version, its share of the requests, and what can't be done."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import replace
from pathlib import Path

from tests.ui.double import NOON
from tests.ui.jobs_screen_support import footer, lines, on_screen, opened, painted, said, table, until
from tests.ui.serving_double import PLACE, MemoryServing, backend, model
from tui.app import VxtuiApp
from tui.backends.interface import PermissionDenied
from tui.backends.serving import RegionResults
from tui.config.settings import Context
from tui.domain.core.log_entry import LogEntry, Severity
from tui.domain.serving.traffic import ServingEndpoint
from tui.screens.dialogs.confirm import ConfirmScreen
from tui.screens.dialogs.pick import PickScreen
from tui.screens.dialogs.prompt import PromptScreen

FRONT = f"{PLACE}/endpoints/7001"


def shares(serving: MemoryServing) -> dict[str, int]:
    return {each.id: each.percent for each in serving.stored[FRONT].deployed}


def flat(app: VxtuiApp) -> str:
    """The screen on one line: a dialog breaks its lines."""
    return " ".join(on_screen(app).replace("▌", " ").split())


def row(app: VxtuiApp, text: str) -> str:
    return next(line for line in painted(app) if text in line)


async def test_every_version_says_which_job_made_it(tmp_path: Path) -> None:
    async with opened(backend(), tmp_path, size=(160, 40), notifications=True) as (app, pilot):
        went: list[str] = []
        app.open_job = went.append  # type: ignore[method-assign, assignment]
        await pilot.press(":", *"models", "enter")
        await until(pilot, lambda: "3 models, 5 versions" in lines(app), "the models")
        rows = painted(app)
        assert "canary" in rows[1] and "arr-coc-4x8-a100" in rows[1] and "1 endpoint" in rows[1]
        assert "local-2node-1120" in rows[2] and "99" in rows[3] and "bert-[/]large [red]" in rows[5]
        await pilot.press("enter")
        assert went == [app.store.find("arr-coc-4x8-a100")[0].name]
        await pilot.press("j", "j", "enter")
        await until(pilot, lambda: "99 that made it is no longer listed" in on_screen(app), "why")
        # Its weights are below that job's output.
        await until(pilot, lambda: "vit-ablation " in row(app, "vit-ablation-l16-384"), "the job")
        await pilot.press("j", "j", "enter")
        await until(pilot, lambda: "name the job that made it" in on_screen(app), "why")
        await pilot.press("slash", *"canary", "enter")
        await until(pilot, lambda: "1 of 3 models, 1 version" in lines(app), "the filter")
        assert len(went) == 1


async def test_a_version_takes_over_step_by_step_and_back(tmp_path: Path) -> None:
    serving = MemoryServing()
    async with opened(backend(serving), tmp_path, notifications=True) as (app, pilot):

        async def asked(*keys: str, words: str) -> None:
            await pilot.press(*keys)
            await until(pilot, lambda: isinstance(app.screen, ConfirmScreen), "the question")
            assert words in flat(app)
            await pilot.press("y")
            await until(pilot, lambda: not isinstance(app.screen, ConfirmScreen), "the answer")

        await pilot.press("8")
        await until(pilot, lambda: "3 endpoints" in lines(app), "the endpoints")
        await until(pilot, lambda: "8.1 % 5xx" in row(app, " 10 %"), "figures")
        # What all machines cost is said even where the column has no room.
        assert re.search(r"~\$[0-9.]+–?[0-9.]*/h +(metrics of the )?last 5 min", lines(app))
        assert "90.0" in row(app, " 90 %") and "48 ms" in row(app, " 90 %"), row(app, " 90 %")
        assert row(app, "100 %").count("·") == 4, "not measured"
        assert "· nothing" in row(app, "empty") and "~$" in row(app, "n1-standard-4")
        await pilot.press("plus")
        await until(pilot, lambda: "Move to a version" in said(app), "why nothing happens")
        await asked("j", "j", "plus", words="version 2 90 → 75 %, version 3 10 → 25 %")
        await until(pilot, lambda: shares(serving) == {"501": 75, "502": 25}, "the next step")
        await until(pilot, lambda: "75 %" in "".join(painted(app)), "the split on the screen")
        await pilot.press("t")
        await until(pilot, lambda: isinstance(app.screen, PromptScreen), "the percentage")
        await pilot.press("ctrl+u", *"101", "enter")
        await until(pilot, lambda: "from 0 to 100" in on_screen(app), "the problem")
        await asked("ctrl+u", *"60", "enter", words="version 3 25 → 60 %")
        await until(pilot, lambda: shares(serving) == {"501": 40, "502": 60}, "the percentage")
        await until(pilot, lambda: " 60 %" in "".join(painted(app)), "the split on the screen")
        await asked("u", words="Roll back front-door: version 2 40 → 75 %, version 3 60 → 25 %")
        await until(pilot, lambda: shares(serving) == {"501": 75, "502": 25}, "one change back")
        await asked("u", words="version 2 75 → 90 %")
        await until(pilot, lambda: shares(serving) == {"501": 90, "502": 10}, "both back")
        await pilot.press("u")
        await until(pilot, lambda: "vxtui has changed none" in said(app), "nothing to go back to")
        await pilot.press("D")
        await until(pilot, lambda: "gets 10 % of the requests" in said(app), "the refusal")
        audit = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
        done = [each["action"] for each in audit if each["result"] == "done"]
        assert done == ["endpoint.split"] * 2 + ["endpoint.roll_back"] * 2


async def test_the_next_step_begins_with_the_split_that_the_last_one_made(tmp_path: Path) -> None:
    """Also while a list that was read before the change is still on its way."""

    class Slow(MemoryServing):
        held, answers, begun = False, asyncio.Event(), 0

        async def endpoints(self) -> RegionResults[ServingEndpoint]:
            answer = await super().endpoints()
            self.begun += 1
            if self.held:
                await self.answers.wait()
            return answer

    serving = Slow()
    async with opened(backend(serving), tmp_path, notifications=True) as (app, pilot):
        await pilot.press("8")
        await until(pilot, lambda: "3 endpoints" in lines(app), "the endpoints")
        await pilot.press("j", "j")
        serving.held, serving.begun = True, 0
        await pilot.press("ctrl+r")
        await until(pilot, lambda: serving.begun, "a list that is read before the change")
        await pilot.press("plus", "y")
        await until(pilot, lambda: "75 % to version 2, 25 % to version 3" in said(app), "the change")
        await pilot.press("plus")
        assert "version 3 25 → 50 %" in flat(app)
        await pilot.press("escape")
        # The older list says 10 %: it is read again at once.
        await until(pilot, lambda: serving.begun > 1, "a list that is read after the change")
        serving.answers.set()
        begun = serving.begun
        await pilot.press("ctrl+r")
        await until(pilot, lambda: serving.begun > begun, "the list after the next")
        shown = "".join(painted(app))
        assert " 75 %" in shown and " 25 %" in shown and " 10 %" not in shown


async def test_what_the_servers_wrote_is_shown_as_text(tmp_path: Path) -> None:
    serving = MemoryServing()
    serving.written = [
        LogEntry(NOON, "a", "501", Severity.INFO, "loaded [red]weights[/]"),
        LogEntry(NOON, "b", "502", Severity.ERROR, "CUDA out of memory\x1b[2J"),
        LogEntry(NOON, "c", "99", Severity.INFO, "of one that is gone"),
    ]
    async with opened(backend(serving), tmp_path, size=(120, 40)) as (app, pilot):
        await pilot.press("8")
        await until(pilot, lambda: "3 endpoints" in lines(app), "the endpoints")
        await pilot.press("L")
        await until(pilot, lambda: "Log of front-door" in on_screen(app), "the log of all")
        assert "version 2  loaded [red]weights[/]" in on_screen(app) and "99  of one that" in on_screen(app)
        await pilot.press("escape", "j", "j", "L")
        await until(pilot, lambda: "Log of arr-coc version 3" in on_screen(app), "the log of one")
        assert "version 3  ERROR  CUDA out of memory" in on_screen(app) and "weights" not in on_screen(app)
        assert "\x1b" not in on_screen(app)


async def test_every_list_says_what_stands_and_costs_money(tmp_path: Path) -> None:
    async with opened(backend(), tmp_path, size=(120, 40)) as (app, pilot):
        await until(pilot, lambda: re.search(r"~\S+/h \+ ~\$1.90/h serving", lines(app)), "the first line")
        # The emulator's are only what they would cost.
        app.contexts["test"] = replace(app.connection.context, kind="local")
        app.connection.context = app.contexts["test"]
        await until(pilot, lambda: "would cost ~" in lines(app) and "~$1.90/h serving" in lines(app), "would")


async def test_deploying_asks_for_version_machine_and_share(tmp_path: Path) -> None:
    serving = MemoryServing()
    async with opened(backend(serving), tmp_path, notifications=True) as (app, pilot):
        await pilot.press("8")
        await until(pilot, lambda: "3 endpoints" in lines(app), "the endpoints")
        await pilot.press("G", "a")
        await until(pilot, lambda: isinstance(app.screen, PickScreen), "the versions")
        assert "canary" in on_screen(app)
        await pilot.press(*"vit", "enter")
        await until(pilot, lambda: "Machine for vit" in on_screen(app), "the machines")
        assert "a2-highgpu-1g" in on_screen(app) and "1 TESLA A100" in on_screen(app)
        await pilot.press(*"n1-standard-4", "enter")
        await until(pilot, lambda: isinstance(app.screen, PromptScreen), "the share")
        await pilot.press("ctrl+u", *"50", "enter")
        await until(pilot, lambda: "No other model is deployed" in on_screen(app), "the problem")
        await pilot.press("ctrl+u", *"100", "enter")
        await until(pilot, lambda: "with 100 % of the requests?" in flat(app), "the question")
        await pilot.press("y")
        empty = f"{PLACE}/endpoints/7003"
        await until(pilot, lambda: len(serving.stored[empty].deployed) == 1, "the deployment")
        await until(pilot, lambda: "100 % to version 1" in said(app), "its end")
        await pilot.press("j", "D")
        await until(pilot, lambda: "no model answers the endpoint" in on_screen(app), "what it means")
        await pilot.press("y")
        await until(pilot, lambda: serving.stored[empty].deployed == (), "nothing is deployed")


async def test_a_version_is_deployed_from_the_models_too(tmp_path: Path) -> None:
    serving = MemoryServing()
    async with opened(backend(serving), tmp_path) as (app, pilot):
        await pilot.press("7")
        await until(pilot, lambda: "5 versions" in lines(app), "the models")
        await pilot.press("a")
        await until(pilot, lambda: "to which endpoint?" in on_screen(app), "the endpoints")
        assert "90 % arr-coc version 2" in on_screen(app) and "nothing is deployed" in on_screen(app)
        await pilot.press(*"empty", "enter")
        await until(pilot, lambda: "Machine for arr-coc version 3" in on_screen(app), "the machines")
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, PromptScreen), "the share")
        await pilot.press("enter")
        await until(pilot, lambda: "with 100 % of the requests?" in flat(app), "the question")
        await pilot.press("y")
        empty = f"{PLACE}/endpoints/7003"
        await until(pilot, lambda: len(serving.stored[empty].deployed) == 1, "the deployment")


async def test_enter_on_a_version_goes_to_its_model(tmp_path: Path) -> None:
    async with opened(backend(), tmp_path) as (app, pilot):
        await pilot.press("8")
        await until(pilot, lambda: "3 endpoints" in lines(app), "the endpoints")
        await pilot.press("j", "enter")
        await until(pilot, lambda: table(app).cursor == f"{PLACE}/models/31@2", "the version")
        await pilot.press("escape")
        await until(pilot, lambda: "Jobs" in lines(app), "the jobs")


async def test_what_can_t_be_read_or_changed_is_said(tmp_path: Path) -> None:
    serving = MemoryServing(empty=True)
    closed = Context("test", project="p", read_only=True)
    async with opened(backend(serving), tmp_path, context=closed, notifications=True) as (app, pilot):
        await pilot.press("8")
        await until(pilot, lambda: "No endpoints here yet" in on_screen(app), "the empty list")
        await pilot.press("7")
        await until(pilot, lambda: "No models here yet" in on_screen(app), "the empty list")
        serving.error = PermissionDenied("Permission aiplatform.models.list denied.", fix="Ask for it.")
        await pilot.press("ctrl+r")
        await until(pilot, lambda: "models of us-central1 can't be read" in on_screen(app), "why")
        assert "Ask for it." in on_screen(app)
        full = MemoryServing()
        serving.error, serving.stored = None, full.stored
        await pilot.press("8", "ctrl+r")
        await until(pilot, lambda: "3 endpoints" in lines(app), "the endpoints")
        await pilot.press("j", "plus")
        await until(pilot, lambda: "Split the traffic is refused" in said(app), "the refusal")
        assert "roll back" not in footer(app) and shares(serving) == {"501": 90, "502": 10}


async def test_what_was_read_stays_while_a_region_can_t_be_read(tmp_path: Path) -> None:
    serving = MemoryServing()
    denied = PermissionDenied("Permission aiplatform.endpoints.list denied.", fix="Ask for it.")
    async with opened(backend(serving), tmp_path) as (app, pilot):
        await pilot.press("8")
        await until(pilot, lambda: "3 endpoints" in lines(app), "the endpoints")
        serving.error = denied
        await pilot.press("ctrl+r")
        await until(pilot, lambda: "can't be read; the data shown was read" in flat(app), "why, and how old")
        assert "3 endpoints" in lines(app) and "front-door" in on_screen(app)
        # Nothing was ever read of the models: none is not the same as not known.
        await pilot.press("7")
        await until(pilot, lambda: "models of us-central1 can't be read" in on_screen(app), "why")
        assert "0 models" not in lines(app)


async def test_a_split_changed_elsewhere_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    serving = MemoryServing()
    async with opened(backend(serving), tmp_path, notifications=True) as (app, pilot):
        await pilot.press("8")
        await until(pilot, lambda: "3 endpoints" in lines(app), "the endpoints")
        await pilot.press("j", "j", "plus")
        await until(pilot, lambda: isinstance(app.screen, ConfirmScreen), "the question")
        await serving.split(FRONT, {"501": 100, "502": 0})
        await pilot.press("y")
        await until(pilot, lambda: "changed elsewhere meanwhile. Now: 100 % to version 2" in said(app), "no")
        assert shares(serving) == {"501": 100, "502": 0}


async def test_a_roll_back_during_a_deployment_stays(tmp_path: Path) -> None:
    class Meanwhile(MemoryServing):
        async def while_deploying(self) -> None:
            await self.split(FRONT, {"501": 100, "502": 0})

    serving = Meanwhile()
    async with opened(backend(serving), tmp_path, notifications=True) as (app, pilot):
        await pilot.press("8")
        await until(pilot, lambda: "3 endpoints" in lines(app), "the endpoints")
        await pilot.press("a")
        await until(pilot, lambda: isinstance(app.screen, PickScreen), "the versions")
        await pilot.press(*"vit", "enter")
        await until(pilot, lambda: "Machine for vit" in on_screen(app), "the machines")
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, PromptScreen), "the share")
        await pilot.press("enter")
        await until(pilot, lambda: "with 10 % of the requests?" in flat(app), "the question")
        await pilot.press("y")
        await until(pilot, lambda: len(shares(serving)) == 3, "the deployment")
        await until(pilot, lambda: list(shares(serving).values()) == [90, 0, 10], "the split")
        await until(pilot, lambda: "10 % to version 1" in said(app), "its end")
        await pilot.press("u")
        await until(pilot, lambda: "Roll back front-door: version 2 90 → 100 %" in flat(app), "one change")


async def test_many_versions_of_a_model_are_folded_below_the_newest(tmp_path: Path) -> None:
    serving = MemoryServing()
    front = f"{PLACE}/endpoints/7001"
    serving.registered[:0] = [
        model(40, "nightly", str(20 - at), at, endpoints=(front,) if at == 7 else ()) for at in range(20)
    ]
    async with opened(backend(serving), tmp_path, size=(120, 40), notifications=True) as (app, pilot):
        await pilot.press("7")
        await until(pilot, lambda: "4 models, 25 versions" in lines(app), "the models")
        head = f"{PLACE}/models/40@20"
        assert list(table(app).keys)[:2] == [head, f"{PLACE}/models/31@3"], "few versions stay open"
        assert "▸ nightly  +19" in row(app, "nightly") and "1 endpoint" in row(app, "nightly")
        await pilot.press("f")
        await until(pilot, lambda: len(table(app).keys) == 25, "all versions")
        await pilot.press("j", "j", "f")
        await until(pilot, lambda: len(table(app).keys) == 6, "only the newest")
        assert table(app).cursor == head
        await pilot.press("ctrl+r")
        await pilot.pause()
        assert len(table(app).keys) == 6, "a reading leaves it folded"
        await pilot.press("slash", *"nightly", "enter")
        await until(pilot, lambda: len(table(app).keys) == 20, "what the filter leaves is shown")
        await pilot.press("escape", "G", "f")
        await until(pilot, lambda: "only one version" in said(app), "why nothing happens")
        app.screen.point_at(f"{PLACE}/models/40@3")  # type: ignore[attr-defined]
        await until(pilot, lambda: table(app).cursor == f"{PLACE}/models/40@3", "the version, unfolded")
