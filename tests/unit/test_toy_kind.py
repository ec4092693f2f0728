"""A kind and a service from a package outside the tree get list, tabs, actions, verbs and profiles."""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from click.testing import CliRunner

from tests.ui.double import MemoryBackend, console
from tests.ui.jobs_screen_support import until
from tests.wire.fake_vertex import FixedEndpoint
from tui.actions.registry import action, actions
from tui.backends.interface import ContextInfo, JobService
from tui.backends.vertex.services import build_services
from tui.domain.interchange import from_resource
from tui.domain.profile import ProfileInvalid, load
from tui.kinds import registry
from tui.screens.job.screen import JobScreen
from tui.screens.jobs.screen import JobsScreen
from tui.verbs import run as verbs_run
from tui.verbs.job_changes import cancel, delete
from tui.verbs.jobs import describe, jobs
from tui.verbs.log.verb import logs
from tui.verbs.metrics import metrics
from tui.widgets.table.job_table import JobTable

KIND = """
from tui.domain.fields.cell import Cell
from tui.domain.fields.field import Field
from tui.kinds.custom_job import OVERVIEW
from tui.kinds.kind import Kind, KindAction, Tab, Words

KIND = Kind(
    key="toy",
    words=Words("toy"),
    tabs=(OVERVIEW, Tab("blocks", "toy_kind.screen:BlocksPane")),
    services={"vertex": "toy_kind.service:Toys"},
    fields=(
        Field("blocks", "BLOCKS", 8, cell=lambda row: Cell(row.job.labels.get("blocks", "")), right=True),
    ),
    actions=(KindAction("poke", "P", "poke", "Poke the toy"),
             KindAction("paint", "", "paint", "Paint the toy", operation="toy.paint")),
    target="toy_kind.screen:ToyTarget",
    body="toySpec",
    spec_format="toy_kind.spec:TOY",
)
"""
SERVICE = """
from datetime import timedelta
from dataclasses import replace

from tests.ui.double import NOON, job
from tui.backends.interface import JobPage, JobService, NotFound
from tui.domain.core.states import JobState

NAME = "projects/p/locations/us-central1/toys/1"

class Toys(JobService):
    def __init__(self, info, clients):
        made = job(1, "rattle", JobState.RUNNING, labels={"blocks": "7"}, groups=())
        self.stored = {NAME: replace(made, name=NAME, kind="toy")}

    def owns(self, name):
        return "/toys/" in name

    async def list_all(self, *, filter=""):
        yield JobPage("us-central1", tuple(self.stored.values()))

    async def changes(self):
        yield JobPage("us-central1", tuple(self.stored.values()), whole=False)

    async def get(self, name):
        if name not in self.stored:
            raise NotFound(name)
        return self.stored[name]

    async def spec(self, name):
        return {"name": name, "toySpec": {"blocks": 7}}

    async def find(self, reference):
        return [j for j in self.stored.values() if reference in {j.id, j.name, j.display_name}]

    async def cancel(self, name):
        ended = {"state": JobState.CANCELLED, "end_time": NOON + timedelta(minutes=1)}
        self.stored[name] = replace(self.stored[name], **ended)

    async def delete(self, name):
        del self.stored[name]
"""
SCREEN = """
from textual.widgets import Static

from tui.screens.job.pane import JobPane

poked = []

class BlocksPane(JobPane):
    TITLE = "Blocks"

    def compose(self):
        yield Static("seven blocks", id="blocks")

class ToyTarget:
    def __init__(self, screen):
        self.screen = screen

    def action_poke(self):
        poked.append(self.screen.job.display_name)

    def action_paint(self):
        poked.append("painted")
"""
SPEC = """
from tui.domain.spec.field_table import INTEGER, FieldType
from tui.domain.spec.findings import Finding
from tui.domain.profile.vertex_formats import OneJobFormat

class ToyFormat(OneJobFormat):
    body = "toySpec"
    fields = FieldType("message", fields={"blocks": INTEGER}, type="ToySpec")
    spec_path = ("toySpec",)
    collection = "toys"
    resource_key = "toy"
    resource_fields = {"toySpec": fields}
    python_client = "ToyServiceClient"
    sign = "toySpec"
    fix = "It holds the blocks."

    def spec(self, body):
        return dict(body)

    def rules(self, case):
        if case.spec.get("blocks") not in (0, "0"):
            return []
        return [Finding(("jobSpec", "blocks"), "a toy has blocks.", "Write 1.", rule="toy.blocks")]

    def resource(self, job):
        return {"displayName": job["displayName"], "toySpec": job["jobSpec"]}

    def header(self, resource):
        return {"toySpec": resource["toySpec"]}, ("the paint was left out",)

TOY = ToyFormat()
"""


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The package on the path, and its kind registered."""
    package = tmp_path / "toy_kind"
    package.mkdir()
    files = {"__init__": "", "kind": KIND, "service": SERVICE, "screen": SCREEN, "spec": SPEC}
    for name, text in files.items():
        (package / f"{name}.py").write_text(dedent(text))
    monkeypatch.syspath_prepend(str(tmp_path))
    kind = importlib.import_module("toy_kind.kind").KIND
    registry.register(kind)
    try:
        yield kind
    finally:
        registry.unregister(kind.key)
        for name in [name for name in sys.modules if name.partition(".")[0] == "toy_kind"]:
            del sys.modules[name]


async def backend() -> MemoryBackend:
    """A backend whose services of jobs are those that Vertex's has, as far as they are the toy's."""
    info = ContextInfo("local", "p", ("us-central1",), local=True)
    built = build_services(info, FixedEndpoint({"us-central1": "nowhere:1"}))
    try:
        found = MemoryBackend()
        found.use(jobs={**found.services.jobs, "toy": built.services.jobs["toy"]})
    finally:
        await built.clients.close()
    return found


async def test_it_is_listed_and_opened_with_its_columns_tabs_and_actions(toy: Any, tmp_path: Path) -> None:
    app = console(await backend(), tmp_path / "state")
    async with app.run_test(size=(200, 40)) as pilot:
        await until(pilot, lambda: len(app.store.jobs) == 1, "the list")
        await pilot.pause()
        table = app.screen.query_one(JobTable)
        assert "BLOCKS" in [column.title for column in table.columns]
        (name,) = app.store.jobs
        assert table.cells_of(name)["blocks"].plain == "7"
        assert table.cells_of(name)["kind"].plain == "toy"

        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, JobScreen) and app.screen.job, "the job")
        screen = app.screen
        assert isinstance(screen, JobScreen)
        assert list(screen.panes) == ["overview", "blocks"]
        await pilot.press("tab")
        assert str(screen.pane.query_one("#blocks").render()) == "seven blocks"
        await pilot.press("P")
        assert importlib.import_module("toy_kind.screen").poked == ["rattle"]
        assert screen.blocked_reason(action("job.replicas")) == "A toy has no replicas."
        assert screen.blocked_reason(action("job.cancel")) is None


async def test_an_action_of_the_kind_is_refused_where_the_context_is_read_only(
    toy: Any, tmp_path: Path
) -> None:
    assert [a.id for a in actions(toy.scope)] == ["kind_toy.poke", "kind_toy.paint"]
    assert action("kind_toy.paint").mutates and not action("kind_toy.poke").mutates
    app = console(await backend(), tmp_path / "state", read_only=True)
    async with app.run_test() as pilot:
        await until(pilot, lambda: len(app.store.jobs) == 1, "the list")
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, JobScreen) and app.screen.job, "the job")
        assert isinstance(app.screen, JobScreen)
        assert "is refused: " in (app.screen.blocked_reason(action("kind_toy.paint")) or "")
        assert app.screen.blocked_reason(action("kind_toy.poke")) is None


def test_the_verbs_know_it(toy: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = asyncio.run(backend())
    monkeypatch.setattr(verbs_run, "open_backend", lambda *_: found)
    for variable in ("XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(variable, str(tmp_path))
    tool = CliRunner()

    def say(command: Any, *words: str) -> Any:
        done = tool.invoke(command, [*words, "--json"], catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)

    assert [(job["kind"], job["display_name"]) for job in say(jobs)["jobs"]] == [("toy", "rattle")]
    assert say(describe, "rattle")["resource"]["toySpec"] == {"blocks": 7}
    assert say(cancel, "rattle", "--yes")["state"] == "CANCELLED"
    assert say(delete, "rattle", "--yes")["deleted"].endswith("/toys/1")
    assert say(jobs)["jobs"] == []


def test_what_it_lacks_is_said_by_its_own_name(
    toy: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found = asyncio.run(backend())
    monkeypatch.setattr(verbs_run, "open_backend", lambda *_: found)
    for variable in ("XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(variable, str(tmp_path))
    service = type(found.jobs["toy"])
    tool = CliRunner()

    def refused(command: Any, *words: str) -> Any:
        done = tool.invoke(command, [*words, "rattle", "--json"], catch_exceptions=False)
        assert done.exit_code, done.output
        return json.loads(done.stdout)["error"]

    for command, what in ((metrics, "metrics"), (logs, "logs")):
        error = refused(command)
        assert (error["code"], error["message"]) == ("UNIMPLEMENTED", f"A toy has no {what}.")
    assert refused(delete, "--yes")["fix"] == "vxtui cancel 1"
    monkeypatch.setattr(service, "cancel", JobService.cancel)
    # It is refused before the question.
    assert "A toy can't be cancelled." in refused(cancel)["message"]
    assert refused(delete, "--yes")["fix"] == "Wait until it ends."
    monkeypatch.setattr(service, "delete", JobService.delete)
    assert "A toy can't be deleted." in refused(delete)["message"]


async def test_the_screens_offer_only_what_it_has(
    toy: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found = await backend()
    monkeypatch.setattr(type(found.jobs["toy"]), "cancel", JobService.cancel)
    app = console(found, tmp_path / "state")
    async with app.run_test(size=(200, 40)) as pilot:
        await until(pilot, lambda: len(app.store.jobs) == 1, "the list")
        await pilot.pause()
        listed = app.screen
        assert isinstance(listed, JobsScreen)
        assert listed.blocked_reason(action("jobs.cancel")) == "A toy can't be cancelled."
        assert "only an ended job can be deleted" in listed.blocked_reason(action("jobs.delete"))
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, JobScreen) and app.screen.job, "the job")
        screen = app.screen
        assert isinstance(screen, JobScreen)
        assert screen.blocked_reason(action("job.cancel")) == "A toy can't be cancelled."
        assert "only an ended job can be deleted" in screen.blocked_reason(action("job.delete"))
        # Nothing of custom jobs is read for it.
        await until(pilot, lambda: screen.feed.sources["job"].read_at, "a reading")
        await pilot.pause()
        assert screen.feed.trouble is None
        assert screen.feed.sources["metrics"].read_at is None


def test_a_profile_may_have_its_body(toy: Any) -> None:
    checked = load("displayName: rattle\ntoySpec: {blocks: 3}\n", "f", "f").check()
    assert not checked.problems
    assert (checked.request.body, checked.request.resource) == (
        "toySpec",
        {"displayName": "rattle", "toySpec": {"blocks": 3}},
    )
    (problem,) = load("toySpec: {blocks: 0}\n", "f", "f").check().problems
    assert (problem.id, problem.line, problem.column) == ("toy.blocks", 1, 11)
    with pytest.raises(ProfileInvalid, match="jobSpec and toySpec"):
        load("jobSpec: {}\ntoySpec: {}\n", "f", "f")


def test_a_job_of_it_becomes_a_profile(toy: Any) -> None:
    found = from_resource({"name": "projects/p/locations/us-central1/toys/1", "toySpec": {"blocks": 3}})
    assert found.notes == ("the paint was left out",)
    assert load(found.text, "f", "f").body == {"blocks": 3}


def test_a_kind_is_registered_once(toy: Any) -> None:
    with pytest.raises(ValueError, match="toy"):
        registry.register(toy)
