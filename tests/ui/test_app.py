"""The console as a whole: how it starts, what it does without a service, commands, contexts, keys, themes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest
from textual.widgets import OptionList

from tests.ui.app_support import SlowBackend
from tests.ui.double import NOON, Clock, MemoryBackend, console, fleet, job
from tests.ui.jobs_screen_support import footer, lines, opened, said, shown, table, until
from tests.ui.resources_double import MemoryResources
from tests.ui.schedules_double import MemorySchedules
from tests.ui.serving_double import backend as serving_backend
from tui.actions import registry
from tui.actions.registry import Action, action, actions
from tui.backends.interface import Unauthenticated, Unavailable
from tui.config.loader import load_settings
from tui.config.settings import Context, Settings
from tui.domain.core.quota import Quota
from tui.domain.core.states import JobState
from tui.screens.commands import CommandLine
from tui.screens.dialogs.confirm import ConfirmScreen
from tui.screens.dialogs.help import HelpScreen
from tui.screens.dialogs.pick import PickScreen
from tui.screens.events import EventsScreen
from tui.screens.frame import FrameScreen
from tui.screens.job.screen import JobScreen
from tui.screens.jobs.compare import CompareScreen
from tui.screens.jobs.screen import JobsScreen
from tui.screens.profiles.screen import ProfilesScreen
from tui.screens.quotas.grid import QuotaGridScreen
from tui.screens.quotas.list import QuotasScreen
from tui.store.jobs.snapshot import Snapshot, SnapshotFile
from tui.verbs.command_group import cli
from tui.widgets.notice import Notice


def notice(app: Any) -> str:
    return str(app.screen.query_one(Notice).content)


def first_hit(app: Any) -> str:
    """The highlighted line of the palette, where there is one."""
    found = app.screen.query(OptionList)
    return str(found[0].highlighted_option.prompt) if found and found[0].highlighted_option else ""


# Start


@pytest.mark.parametrize("key", ["2", "l"])
async def test_it_opens_at_once_with_nothing_to_talk_to(tmp_path: Path, key: str) -> None:
    backend = SlowBackend()
    app = console(backend, tmp_path)
    async with app.run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: backend.connects, "an attempt")
        assert "Connecting to test" in notice(app) and "connecting…" in lines(app)
        await pilot.press(key)
        assert isinstance(app.screen, ProfilesScreen)
        launching = app.screen.blocked_reason(action("profiles.launch"))
        assert launching == "Still connecting to test."
    assert backend.closed


async def test_the_last_snapshot_is_painted_first_with_its_age(tmp_path: Path) -> None:
    clock = Clock()
    SnapshotFile(tmp_path, "test").save(fleet(), NOON)
    clock.on(hours=3)
    app = console(SlowBackend(), tmp_path, snapshot=SnapshotFile(tmp_path, "test").load(), clock=clock)
    async with app.run_test(size=(120, 30)) as pilot:
        await until(pilot, lambda: "connecting" in lines(app), "the lines")
        assert len(shown(app)) == 7 and "seen 3h00 ago" in lines(app)
        await pilot.press("c")
        assert isinstance(app.screen, JobsScreen) and "Still connecting to test." in said(app)


@pytest.mark.parametrize("stays", [True, False], ids=["stays", "goes elsewhere"])
async def test_a_job_asked_for_while_connecting_opens_when_that_is_done(tmp_path: Path, stays: bool) -> None:
    SnapshotFile(tmp_path, "test").save(fleet(), NOON)
    backend = SlowBackend(fleet())
    app = console(backend, tmp_path, snapshot=SnapshotFile(tmp_path, "test").load())
    async with app.run_test(size=(120, 30)) as pilot:
        await until(pilot, lambda: "connecting" in lines(app), "the lines")
        await pilot.press("enter")
        assert isinstance(app.screen, JobsScreen) and "The job opens as soon as test is reached" in said(app)
        wanted = table(app).cursor
        if not stays:
            await pilot.press("2")
        backend.let.set()
        await until(pilot, lambda: app.live, "the connection")
        if stays:
            # Composed too: a screen that is left while it mounts has lost its parts.
            await until(
                pilot, lambda: isinstance(app.screen, JobScreen) and app.screen.query("#facts"), "the job"
            )
            assert app.screen.job_name == wanted
        else:
            await pilot.pause()
            assert isinstance(app.screen, ProfilesScreen)
            await pilot.press("1")
            assert isinstance(app.screen, JobsScreen)


@pytest.mark.parametrize("where", ["open", "connect"])
async def test_a_context_that_can_t_be_reached_says_what_why_and_what_helps(
    tmp_path: Path, where: str
) -> None:
    backend = MemoryBackend(fleet())
    error = Unauthenticated("no credentials [/] \x1b[2J", fix="gcloud auth application-default login")

    def opener(*_: object) -> MemoryBackend:
        if where == "open" and backend.error:
            raise backend.error
        return backend

    backend.error = error
    async with opened(backend, tmp_path, opener=opener) as (app, pilot):
        for part in ("test not reached", "no credentials [/]", "gcloud auth", "ctrl+r"):
            assert part in notice(app)
        assert "\x1b" not in notice(app) and "not reached" in lines(app)
        assert "no credentials" in app.journal.events[0].text
        backend.error = None
        await pilot.press("ctrl+r")
        await until(pilot, lambda: app.live and len(shown(app)) == 5, "the jobs")
    assert backend.closed


async def test_a_bug_in_a_backend_does_not_end_the_console(tmp_path: Path) -> None:
    def opener(*_: object) -> MemoryBackend:
        raise ZeroDivisionError("bug")

    async with opened(MemoryBackend(), tmp_path, opener=opener) as (app, pilot):
        assert "ZeroDivisionError" in notice(app)
        await pilot.press("4", "6", "1")
        assert app.is_running


async def test_what_was_seen_is_kept_for_the_next_start(tmp_path: Path) -> None:
    async with opened(MemoryBackend(fleet()), tmp_path):
        pass
    found = SnapshotFile(tmp_path, "test").load()
    assert isinstance(found, Snapshot) and len(found.jobs) == 5 and found.read_at == NOON


async def test_ctrl_q_leaves_without_a_question_even_from_a_dialog(tmp_path: Path) -> None:
    app = console(MemoryBackend(fleet()), tmp_path)
    async with app.run_test() as pilot:
        await until(pilot, lambda: app.live, "the jobs")
        await pilot.press("c")
        assert isinstance(app.screen, ConfirmScreen)
        await pilot.press("ctrl+q")
        await until(pilot, lambda: not app.is_running, "the end")
    assert not app.return_code


def test_the_screen_loads_neither_google_nor_numpy() -> None:
    code = (
        "import sys, tui.app\n"
        "heavy = 'google.protobuf', 'google.api_core', 'grpc', 'numpy', 'torch', 'textual_plot'\n"
        "loaded = [m for m in heavy if m in sys.modules]\n"
        "assert not loaded, loaded"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


# Going places


async def test_the_digits_go_to_the_lists_and_come_back_as_they_were(tmp_path: Path) -> None:
    async with opened(MemoryBackend(fleet()), tmp_path) as (app, pilot):
        await pilot.press("j", "j", "slash", *"state:active", "enter")
        before = (table(app).cursor, shown(app))
        for key, screen in (
            ("2", ProfilesScreen),
            ("4", QuotaGridScreen),
            ("6", EventsScreen),
            ("1", JobsScreen),
        ):
            await pilot.press(key)
            assert isinstance(app.screen, screen)
        assert (table(app).cursor, shown(app)) == before
        await pilot.press("6", "escape")
        assert isinstance(app.screen, JobsScreen)


async def test_enter_opens_the_job_under_the_cursor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(MemoryBackend(fleet()), tmp_path) as (app, pilot):
        went: list[str] = []
        monkeypatch.setattr(app, "open_job", went.append)
        await pilot.press("j", "enter")
        await app.frame.action_do("app.job", "llm-7b")  # type: ignore[union-attr]
        await app.frame.action_do("app.job", "no-such")  # type: ignore[union-attr]
        assert went == [fleet()[0].name, fleet()[1].name]
        await until(pilot, lambda: "No job is called no-such" in said(app), "a word")


async def test_quotas(tmp_path: Path) -> None:
    backend = MemoryBackend()
    metric = "aiplatform.googleapis.com/custom_model_training_nvidia_a100_gpus"
    backend.stored_quotas = [
        Quota(metric, "us-central1", 32, 24, used_at=NOON),
        Quota(metric, "europe-west4", 0, None),
        Quota(metric, "us-east4", None, 3),
    ]
    async with opened(backend, tmp_path) as (app, pilot):
        await pilot.press("4")
        await pilot.press("v")
        await until(pilot, lambda: isinstance(app.screen, QuotasScreen), "the list")
        await until(pilot, lambda: len(table(app).keys) == 2, "two with a limit or a use")
        text = "\n".join(table(app).render_line(y).text for y in range(3))
        assert "nvidia a100 gpus" in text and " 32 " in text and " 24 " in text and " 8 " in text
        assert "·" in text
        await pilot.press("a")
        assert len(table(app).keys) == 3
        backend.error = Unavailable("away", fix="wait")
        await pilot.press("ctrl+r")
        await until(pilot, lambda: "The quotas can't be read" in notice(app), "the failure")
        assert len(table(app).keys) == 3


async def test_quotas_are_sorted_by_any_column_and_grouped_by_region(tmp_path: Path) -> None:
    backend = MemoryBackend()
    stem = "aiplatform.googleapis.com/custom_model_training_"
    backend.stored_quotas = [
        Quota(f"{stem}{name}", region, limit, used)
        for region in ("us-central1", "europe-west4")
        for name, limit, used in (("a100_gpus", 32, 24), ("l4_gpus", 8, None), ("cpus", -1, 40))
    ]
    async with opened(backend, tmp_path) as (app, pilot):
        await pilot.press("4")
        await pilot.press("v")
        await until(pilot, lambda: isinstance(app.screen, QuotasScreen), "the list")
        await until(pilot, lambda: len(table(app).keys) == 6, "the quotas")

        def column(at: int) -> list[str]:
            return [key.split("/")[at].removeprefix("custom_model_training_") for key in table(app).keys]

        assert column(0) == ["europe-west4"] * 3 + ["us-central1"] * 3
        await pilot.press("right", "right", "right", "right", "s")
        assert column(2) == ["cpus", "cpus", "a100_gpus", "a100_gpus", "l4_gpus", "l4_gpus"]
        await pilot.press("S")
        assert column(2) == ["l4_gpus", "l4_gpus", "a100_gpus", "a100_gpus", "cpus", "cpus"]
        await pilot.press("b")
        heads = [key for key in table(app).keys if key.startswith("group ")]
        assert heads == ["group europe-west4", "group us-central1"] and len(table(app).keys) == 8
        await pilot.press("G", "enter")
        assert table(app).keys[-1] == heads[1] == table(app).cursor
        assert "3 quotas" in table(app).render_line(5).text


async def test_events_tell_what_was_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with opened(MemoryBackend(fleet()), tmp_path) as (app, pilot):
        went: list[str] = []
        monkeypatch.setattr(app, "open_job", went.append)
        await pilot.press("c")
        await pilot.press("y")
        await until(pilot, lambda: app.journal.events, "the event")
        await pilot.press("6")
        await pilot.pause()
        assert "Cancelling eval-sweep-12" in "".join(table(app).render_line(y).text for y in range(5))
        await pilot.press("enter")
        assert went == [fleet()[2].name]
        assert app.journal.path.read_text().count('"job.cancel"') == 2


async def test_another_context_without_a_restart(tmp_path: Path) -> None:
    one, two = Context(name="one", project="p"), Context(name="two", project="p")
    backends = {"one": MemoryBackend(fleet()), "two": MemoryBackend([job(500, "there")])}
    SnapshotFile(tmp_path, "two").save([job(501, "as-it-was")], NOON)
    async with opened(
        MemoryBackend(), tmp_path, context=one, contexts=[one, two], opener=lambda c, _: backends[c.name]
    ) as (app, pilot):
        await pilot.press("4", "colon", *"context two", "enter")
        await until(pilot, lambda: app.live and shown(app) == ["there"], "the other")
        assert "two" in lines(app) and isinstance(app.screen, JobsScreen) and backends["one"].closed
        await app.frame.action_do("app.context", "three")  # type: ignore[union-attr]
        await until(pilot, lambda: "No context is called three" in said(app), "a word")


# Commands


async def test_the_command_line_completes_and_runs(tmp_path: Path) -> None:
    async with opened(MemoryBackend(fleet()), tmp_path) as (app, pilot):
        await pilot.press("colon", *"th")
        line = app.screen
        assert isinstance(line, CommandLine)
        await pilot.press("tab", *"vxtui-l", "enter")
        assert app.theme == "vxtui-light" and isinstance(app.screen, JobsScreen)
        await pilot.press("colon", *"quotas", "enter")
        assert isinstance(app.screen, QuotaGridScreen)
        await pilot.press("colon", "escape")
        assert isinstance(app.screen, QuotaGridScreen)


async def test_a_command_without_its_value_offers_the_values(tmp_path: Path) -> None:
    async with opened(MemoryBackend(fleet()), tmp_path) as (app, pilot):
        await pilot.press("colon", *"theme", "enter")
        assert isinstance(app.screen, CommandLine)
        assert app.screen.query_one("Input").value == "theme "  # type: ignore[attr-defined]
        assert "theme ansi16" in str(app.screen.query_one("#choices").content)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("fly", "unknown command 'fly'"),
        ("launch x y", "x y"),
        ("jobs now", "must not have an argument"),
        ("zzz [/", "unknown command"),
    ],
)
async def test_a_wrong_command_is_said_and_stays(tmp_path: Path, typed: str, words: str) -> None:
    async with opened(MemoryBackend(fleet()), tmp_path) as (app, pilot):
        await pilot.press("colon")
        app.screen.query_one("Input").value = typed  # type: ignore[attr-defined]
        await pilot.press("enter")
        await pilot.pause()
        if isinstance(app.screen, CommandLine):
            assert words in str(app.screen.query_one("#choices").content)  # type: ignore[attr-defined]
            assert app.screen.query_one("Input").value == typed  # type: ignore[attr-defined]
        else:
            assert words in said(app)


async def test_cancel_by_name_from_anywhere_asks_too(tmp_path: Path) -> None:
    backend = MemoryBackend(fleet())
    async with opened(backend, tmp_path) as (app, pilot):
        await pilot.press("4", "colon", *"cancel llm-7b-fsdp", "enter")
        await until(pilot, lambda: isinstance(app.screen, ConfirmScreen), "the question")
        await pilot.press("y")
        await until(pilot, lambda: backend.cancelled == [fleet()[1].name], "the cancel")


async def test_delete_by_name_is_about_that_job_and_not_about_the_one_under_the_cursor(
    tmp_path: Path,
) -> None:
    running, ended = job(1, "tiny"), job(2, "tiny", JobState.SUCCEEDED, age=90)
    backend = MemoryBackend([running, ended, job(3, "other")])
    async with opened(backend, tmp_path) as (app, pilot):
        await pilot.press("colon", *"delete other", "enter")
        await until(pilot, lambda: "other is running; only an ended job" in said(app), "the refusal")
        await pilot.press("colon", *"delete tiny", "enter")
        await until(pilot, lambda: isinstance(app.screen, ConfirmScreen), "the question")
        await pilot.press("y")
        await until(pilot, lambda: backend.deleted == [ended.name], "the deletion")


async def test_a_word_that_needs_a_name_is_offered_once(tmp_path: Path) -> None:
    async with opened(MemoryBackend(fleet()), tmp_path) as (app, pilot):
        await pilot.press("colon", *"launch")
        choices = str(app.screen.query_one("#choices").content)  # type: ignore[attr-defined]
        assert [line.split() for line in choices.splitlines()] == [["launch", "Launch", "a", "profile"]]


async def test_the_palette_offers_what_can_be_done_now(tmp_path: Path) -> None:
    async with opened(MemoryBackend(fleet()), tmp_path, read_only=True) as (app, pilot):
        from tui.screens.commands import commands

        assert app.frame is not None
        texts = {c.text for c in commands(app, app.frame)}
        assert "theme vxtui-dark" in texts and "filter" in texts and "job llm-7b-fsdp" in texts
        assert not any(text.startswith(("cancel", "delete", "launch")) for text in texts)
        await pilot.press("ctrl+p")
        await pilot.press(*"theme ansi16")
        await until(pilot, lambda: "ansi16" in first_hit(app), "the hit")
        await pilot.press("enter")
        await until(pilot, lambda: app.theme == "ansi16", "the theme")


async def test_help_lists_the_keys_for_here(tmp_path: Path) -> None:
    settings = Settings(keys={"jobs.cancel": "X"})
    async with opened(MemoryBackend(fleet()), tmp_path, settings=settings) as (app, pilot):
        await pilot.press("question_mark")
        assert isinstance(app.screen, HelpScreen)
        text = str(app.screen.query_one("#keys Static").content)  # type: ignore[attr-defined]
        assert "X Cancel the job" in " ".join(text.split()) and "Previous row" in text
        assert "only an ended job can be deleted" in text
        await pilot.press("escape", "4", "question_mark")
        assert "Cancel the job" not in str(app.screen.query_one("#keys Static").content)  # type: ignore[attr-defined]


async def test_keys_can_be_changed(tmp_path: Path) -> None:
    settings = Settings(keys={"jobs.cancel": "X", "app.quotas": "f4"})
    async with opened(MemoryBackend(fleet()), tmp_path, settings=settings) as (app, pilot):
        assert "X cancel" in footer(app)
        await pilot.press("c")
        assert isinstance(app.screen, JobsScreen)
        await pilot.press("X")
        assert isinstance(app.screen, ConfirmScreen)
        await pilot.press("n", "4")
        assert isinstance(app.screen, JobsScreen)
        await pilot.press("f4")
        assert isinstance(app.screen, QuotaGridScreen)


async def test_a_key_map_that_cant_be_right_is_said(tmp_path: Path) -> None:
    settings = Settings(keys={"jobs.fly": "x", "jobs.cancel": "s"})
    async with opened(MemoryBackend(fleet()), tmp_path, settings=settings) as (app, pilot):
        assert "has ids without an action: jobs.fly" in said(app)
        assert "gives s to both jobs.cancel and jobs.sort" in said(app)
        await pilot.press("s")
        assert isinstance(app.screen, ConfirmScreen)


async def test_the_footer_keeps_help_however_narrow(tmp_path: Path) -> None:
    async with opened(MemoryBackend(fleet()), tmp_path, size=(40, 12)) as (app, _):
        assert "? help" in footer(app) and len(footer(app).rstrip()) <= 38


async def test_a_click_on_the_footer_is_a_key(tmp_path: Path) -> None:
    async with opened(MemoryBackend(fleet()), tmp_path) as (app, pilot):
        await pilot.click("KeyFooter", offset=(1 + footer(app).index("cancel"), 0))
        assert isinstance(app.screen, ConfirmScreen)


# Read-only


class Recorder:
    """Has a method for every action, and remembers which one ran."""

    def __init__(self) -> None:
        self.ran: list[str] = []

    def __getattr__(self, name: str) -> Callable[..., None]:
        if not name.startswith("action_"):
            raise AttributeError(name)
        return lambda *_: self.ran.append(name)


class EveryScope(FrameScreen):
    """Puts every action of the registry in force."""

    def __init__(self) -> None:
        super().__init__()
        self.recorder = Recorder()

    def scopes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(found.scope for found in actions()))

    def target(self, scope: str) -> object:
        return self.recorder

    def unmet(self, condition: str, action: Action) -> str:
        return ""


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> Action:
    found = Action("toy.spin", "x", "spin", "Spin the toy", "toy", "spin", operation="toy.spin")
    monkeypatch.setitem(registry._BY_ID, found.id, found)
    return found


@pytest.mark.parametrize("read_only", [True, False])
async def test_a_read_only_context_refuses_every_action_that_changes_something(
    tmp_path: Path, toy: Action, read_only: bool
) -> None:
    context = Context("test", project="p", read_only=read_only)
    made = serving_backend()
    made.use(resources=MemoryResources(made, []), schedules=MemorySchedules(made, []))
    async with opened(made, tmp_path, context=context) as (app, pilot):
        screen = EveryScope()
        await app.push_screen(screen)
        mutating = [found for found in actions() if found.mutates]
        assert toy in mutating
        for found in mutating:
            await screen.action_do(found.id, "x" if found.argument else None)
            if read_only:
                reason = str(screen.blocked_reason(found))
                assert "is refused: the context test is read-only (read_only: true" in reason, found.id
        assert screen.recorder.ran == ([] if read_only else [f"action_{found.method}" for found in mutating])
        await pilot.press("escape")


async def test_the_help_and_the_command_line_name_the_setting_that_closes_an_action(tmp_path: Path) -> None:
    context = Context("test", project="p", read_only=True)
    async with opened(MemoryBackend(fleet()), tmp_path, context=context) as (app, pilot):
        assert "read-only" in lines(app)
        await pilot.press(":", *"cancel")
        await pilot.press("enter")
        words = str(app.screen.query_one("#choices").render())
        assert "the context test is read-only (read_only: true" in words and "read_only: false" in words
        await pilot.press("escape", "question_mark")
        await until(pilot, lambda: isinstance(app.screen, HelpScreen), "the help")
        text = " ".join(str(app.screen.query_one("#keys Static").content).split())  # type: ignore[attr-defined]
        assert "the context test is read-only (read_only: true" in text


async def test_commands_show_and_change_a_job_by_its_name(tmp_path: Path) -> None:
    backend = MemoryBackend(fleet())
    async with opened(backend, tmp_path) as (app, pilot):
        await pilot.press("4", "colon", *"logs llm-7b-fsdp", "enter")
        await until(pilot, lambda: isinstance(app.screen, JobScreen), "the job")
        assert isinstance(app.screen, JobScreen) and app.screen.pane.TITLE == "Logs"
        await pilot.press("escape", "colon", *"tasks llm-7b-fsdp", "enter")
        await until(pilot, lambda: "A custom job has no tasks." in said(app), "the reason")
        await pilot.press("colon", *"suspend llm-7b-fsdp", "enter")
        await until(pilot, lambda: "A custom job can't be suspended." in said(app), "the refusal")
        await pilot.press("colon", *"compare llm-7b-fsdp llm-7b-fsdp", "enter")
        await until(pilot, lambda: isinstance(app.screen, CompareScreen), "the comparison")
        await pilot.press("escape", "colon", *"contexts", "enter")
        await until(pilot, lambda: isinstance(app.screen, PickScreen), "the contexts")


def test_each_verb_about_a_job_or_a_list_is_a_command() -> None:
    words = {found.word for found in actions("app")}
    # These are for a shell: a text to run, a process to manage, and a console that can't start.
    shell = {"export", "emulator", "guard", "doctor"}
    assert set(cli.list_commands(click.Context(cli))) - words == shell


async def test_a_context_added_to_the_settings_is_offered_and_a_mistake_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("contexts:\n  - {name: test, project: p, regions: [us-central1]}\n")
    monkeypatch.setenv("VXTUI_CONFIG", str(file))
    backend = MemoryBackend(fleet())
    async with opened(backend, tmp_path, settings=load_settings()) as (app, pilot):
        app.read_settings = load_settings
        file.write_text(file.read_text() + "  - {name: added, project: q, regions: [us-east1]}\n")
        await pilot.press("colon", *"contexts", "enter")
        await until(pilot, lambda: isinstance(app.screen, PickScreen), "the contexts")
        assert list(app.contexts) == ["test", "added", "local", "local-k8s", "all"]
        await pilot.press("escape", "colon", *"context added", "enter")
        await until(pilot, lambda: app.connection.context.name == "added", "the context")
        file.write_text("contexts: [{name: added, project: q, zones: [x]}]\n")
        await pilot.press("colon")
        await until(pilot, lambda: "zones" in said(app), "the mistake")
        assert "added" in app.contexts
