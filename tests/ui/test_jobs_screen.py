"""The jobs screen by keys: cursor and marks by the row's key, filter, sort, cancel, delete, trouble."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from textual.events import AppBlur, AppFocus

from tests.ui.double import (
    NOON,
    Clock,
    MemoryBackend,
    UnchangeableJobs,
    fleet,
    job,
)
from tests.ui.jobs_screen_support import (
    again,
    current,
    footer,
    lines,
    on_screen,
    opened,
    painted,
    said,
    shown,
    table,
    until,
)
from tests.unit.group_support import member
from tui.backends.group import GroupBackend
from tui.backends.interface import PermissionDenied, Unavailable
from tui.config.settings import Context, Settings
from tui.domain.core.job import JobError
from tui.domain.core.states import JobState
from tui.screens.dialogs.confirm import ConfirmScreen
from tui.screens.dialogs.message import MessageScreen
from tui.screens.jobs.screen import JobsScreen
from tui.widgets.notice import Notice


async def test_it_shows_every_job_newest_first(tmp_path: Path) -> None:
    async with opened(MemoryBackend(fleet(), regions=("us-central1", "europe-west4")), tmp_path) as (app, _):
        assert shown(app)[:3] == ["eval-sweep-12", "tokenize-c4-shards", "arr-coc-4x8-a100"]
        rows = painted(app)
        row = next(line for line in rows if "arr-coc" in line)
        for part in ("● running", "1+3+13R", "32 A100", "spot", "61 %", "2.113", "5h02"):
            assert part in row
        assert "out of memory · " in next(line for line in rows if "vit-ablation" in line)
        assert any("bert-[/]" in line for line in rows)
        assert "2 running" in lines(app) and "2 waiting" in lines(app) and "live" in lines(app)


async def test_a_reading_outlives_the_screen(tmp_path: Path) -> None:
    """The connection and the usage ask which jobs are in view from their own tasks, as it is removed."""
    async with opened(MemoryBackend(fleet()), tmp_path) as (app, _):
        looked_at, screen = app.connection.looked_at, app.screen
        assert isinstance(screen, JobsScreen)
        assert looked_at is not None and len(looked_at()) > 2
        assert screen._at_work()
    assert looked_at() == () and screen._at_work() == []


async def test_columns_fold_with_the_width(tmp_path: Path) -> None:
    seen: dict[int, set[str]] = {}
    for width in (60, 80, 100, 120, 200):
        backend = MemoryBackend(fleet(), regions=("us-central1", "europe-west4"))
        async with opened(backend, tmp_path, size=(width, 24)) as (app, _):
            rows = painted(app)
            assert all(len(line) <= width for line in rows)
            seen[width] = set(rows[0].replace("▲", "").split())
            assert "running" in "".join(rows) and "arr-coc" in "".join(rows)
    assert {"STATE", "NAME"} <= seen[60] < seen[80] < seen[120] < seen[200]
    assert (
        {"PROGRESS", "AGE"} <= seen[80]
        and {"REGION", "STRATEGY", "LOSS"} <= seen[120]
        and "STEP" in seen[200]
    )


async def test_ascii_draws_no_other_character(tmp_path: Path) -> None:
    class Plain(Settings):
        ascii: bool = True

    async with opened(MemoryBackend(fleet()), tmp_path, settings=Plain(ascii=True)) as (app, _):
        app.screen.action_mark()  # type: ignore[attr-defined]
        body = on_screen(app)
        assert "arr-coc-4x8-a100" in body and "launch" in body
        assert body.isascii(), [c for c in body if not c.isascii()]


async def test_the_cursor_stays_on_its_job(tmp_path: Path) -> None:
    backend = MemoryBackend(fleet())
    async with opened(backend, tmp_path) as (app, pilot):
        await pilot.press("j", "j")
        on = current(app)
        backend.stored |= {j.name: j for j in (job(300 + n, f"new-{n}", age=n) for n in range(5))}
        await again(app, pilot)
        assert current(app) == on and shown(app)[0] == "new-0"
        await pilot.press("s", "s", "S")
        assert current(app) == on
        key = table(app).cursor or ""
        at = list(table(app).keys).index(key)
        below = table(app).keys[at + 1]
        del backend.stored[key]
        backend.gone.append(key)
        await again(app, pilot)
        assert table(app).cursor == below


async def test_moves(tmp_path: Path) -> None:
    backend = MemoryBackend([job(n, f"job-{n:03}", age=n) for n in range(200)])
    async with opened(backend, tmp_path, size=(100, 24)) as (app, pilot):
        await pilot.press("G")
        assert current(app) == "job-199" and "job-199" in "".join(painted(app))
        await pilot.press("k", "up")
        assert current(app) == "job-197"
        await pilot.press("g")
        assert current(app) == "job-000" and "job-000" in painted(app)[1]
        await pilot.press("pagedown", "down", "j")
        assert current(app) == f"job-{table(app).size.height - 2 + 2:03}"


async def test_a_row_that_did_not_change_is_not_painted(tmp_path: Path) -> None:
    backend = MemoryBackend(fleet())
    async with opened(backend, tmp_path) as (app, pilot):
        # What jobs cost comes into their rows once the prices are loaded.
        await until(pilot, lambda: app.costs.prices is not None, "the prices")
        app.screen.tick()  # type: ignore[attr-defined]
        await pilot.pause()
        painted(app)
        before = dict(table(app)._strips)
        name = fleet()[0].name
        backend.change(name, labels={"team": "nlp", "x": "y"})
        await again(app, pilot)
        assert {k: v for k, v in table(app)._strips.items() if k in before} == before
        backend.change(name, state=JobState.CANCELLING)
        await again(app, pilot)
        painted(app)
        different = {k[0] for k, v in before.items() if table(app)._strips.get(k) is not v}
        assert different == {name}


async def test_filter_applies_while_it_is_typed(tmp_path: Path) -> None:
    async with opened(MemoryBackend(fleet()), tmp_path) as (app, pilot):
        await pilot.press("slash", *"gpu:a100")
        assert set(shown(app)) == {"arr-coc-4x8-a100", "vit-ablation"}
        await pilot.press("enter")
        assert "2 of 5" in lines(app) and "gpu:a100" in lines(app)
        await pilot.press("j")
        assert current(app) == "vit-ablation"
        await pilot.press("escape")
        assert len(shown(app)) == 5


async def test_a_mistake_in_the_filter_is_said_and_the_text_stays(tmp_path: Path) -> None:
    async with opened(MemoryBackend(fleet()), tmp_path) as (app, pilot):
        await pilot.press("slash", *"gpu:a100", "space", *"state:q")
        await pilot.press(*"zz")
        bar = app.screen.query_one("FilterBar")
        assert bar.text == "gpu:a100 state:qzz"  # type: ignore[attr-defined]
        assert "unknown state" in str(app.screen.query_one("#problem").content)  # type: ignore[attr-defined]
        assert app.is_running
        await pilot.press("backspace", "backspace", "backspace", *"failed", "enter")
        assert shown(app) == ["vit-ablation"]


async def test_no_match_says_so(tmp_path: Path) -> None:
    async with opened(MemoryBackend(fleet()), tmp_path) as (app, pilot):
        await pilot.press("slash", *"[bold", "enter")
        notice = app.screen.query_one(Notice)
        assert notice.display and "No job matches" in str(notice.content) and "[bold" in str(notice.content)


async def test_sort_and_reverse(tmp_path: Path) -> None:
    async with opened(MemoryBackend(fleet()), tmp_path) as (app, pilot):
        await pilot.press("s", "s")
        assert shown(app) == sorted(shown(app)) and "sorted by name" in lines(app)
        await pilot.press("S")
        assert shown(app) == sorted(shown(app), reverse=True)
        for _ in range(7):
            await pilot.press("s")
        assert "sorted by loss" in lines(app)
        # What is not known comes last in either order.
        assert [app.store.jobs[k].progress.last_loss is None for k in table(app).keys][-1]


async def test_cancel_names_the_job_and_no_is_the_default(tmp_path: Path) -> None:
    backend = MemoryBackend(fleet())
    async with opened(backend, tmp_path) as (app, pilot):
        table(app).move_to(fleet()[0].name)
        for answer in ("n", "enter", "escape"):
            await pilot.press("c")
            dialog = app.screen
            assert isinstance(dialog, ConfirmScreen)
            words = str(dialog.query_one("#question").content)  # type: ignore[attr-defined]
            for part in ("Cancel arr-coc-4x8-a100", "17 replicas", "32 A100", "61%", "checkpoint 4m ago"):
                assert part in words
            await pilot.press(answer)
            await pilot.pause()
        assert backend.cancelled == []
        await pilot.press("c")
        await pilot.press("y")
        await until(pilot, lambda: backend.cancelled == [fleet()[0].name], "the cancel")
        await until(pilot, lambda: "arr-coc" in said(app), "a word")


async def test_the_dialog_acts_on_what_it_named_even_if_the_list_moves(tmp_path: Path) -> None:
    backend = MemoryBackend(fleet())
    async with opened(backend, tmp_path) as (app, pilot):
        table(app).move_to(fleet()[0].name)
        await pilot.press("c")
        backend.stored |= {j.name: j for j in (job(300 + n, f"new-{n}", age=n) for n in range(5))}
        assert app.connection.poller is not None
        await app.connection.poller.read_once()
        await pilot.press("y")
        await until(pilot, lambda: backend.cancelled == [fleet()[0].name], "the cancel")


async def test_marks_follow_the_jobs_and_cancel_takes_them_all(tmp_path: Path) -> None:
    backend = MemoryBackend(fleet())
    async with opened(backend, tmp_path) as (app, pilot):
        await pilot.press("space", "space")
        assert "2 marked" in lines(app)
        await pilot.press("s")
        marked = set(table(app).marks)
        assert len(marked) == 2
        await pilot.press("c")
        assert "Cancel 2 jobs?" in str(app.screen.query_one("#question").content)  # type: ignore[attr-defined]
        await pilot.press("y")
        await until(pilot, lambda: set(backend.cancelled) == marked, "both")
        assert not table(app).marks
        await pilot.press("asterisk")
        assert len(table(app).marks) == 5
        await pilot.press("asterisk")
        assert not table(app).marks


async def test_only_ended_jobs_are_deleted(tmp_path: Path) -> None:
    backend = MemoryBackend(fleet())
    async with opened(backend, tmp_path) as (app, pilot):
        await pilot.press("D")
        assert "only an ended job can be deleted" in said(app) and isinstance(app.screen, JobsScreen)
        assert "D delete" not in footer(app) and "C clone" not in footer(app)
        table(app).move_to(fleet()[4].name)
        await until(pilot, lambda: "D delete  C clone" in footer(app), "the keys of an ended job")
        await pilot.press("D")
        await pilot.press("y")
        await until(pilot, lambda: backend.deleted == [fleet()[4].name], "the deletion")
        await until(pilot, lambda: "vit-ablation" not in shown(app), "its row to go")
        table(app).move_to(fleet()[5].name)
        await pilot.press("c")
        assert "succeeded already" in said(app) and isinstance(app.screen, JobsScreen)


async def test_read_only_closes_what_changes_something(tmp_path: Path) -> None:
    backend = MemoryBackend(fleet())
    async with opened(backend, tmp_path, read_only=True) as (app, pilot):
        assert "read-only" in lines(app)
        assert "cancel" not in footer(app) and "launch" not in footer(app) and "filter" in footer(app)
        await pilot.press("c", "D", "l")
        assert isinstance(app.screen, JobsScreen) and "is refused: " in said(app)
        await app.frame.action_do("app.cancel", fleet()[0].name)  # type: ignore[union-attr]
        assert isinstance(app.screen, JobsScreen) and not backend.cancelled


async def test_what_a_backend_cant_do_is_not_offered(tmp_path: Path) -> None:
    backend = MemoryBackend(fleet())
    backend.use(jobs={"custom_job": UnchangeableJobs(backend)}, metrics=None, quotas=None)
    async with opened(backend, tmp_path) as (app, pilot):
        assert "cancel" not in footer(app)
        await pilot.press("c")
        assert "can't do this" in said(app)


async def test_toast_when_a_job_ends_while_the_console_is_open(tmp_path: Path) -> None:
    backend = MemoryBackend(fleet())
    async with opened(backend, tmp_path) as (app, pilot):
        first, second = fleet()[0], fleet()[1]
        error = JobError(9, "boom [/] \x1b[2J")
        backend.change(first.name, state=JobState.FAILED, end_time=NOON + timedelta(1), error=error)
        backend.change(second.name, state=JobState.SUCCEEDED, end_time=NOON - timedelta(1))
        await again(app, pilot)
        assert "arr-coc-4x8-a100 failed" in said(app) and "boom [/]" in said(app)
        assert "\x1b" not in said(app) and "llm-7b" not in said(app)
        assert "arr-coc-4x8-a100 failed" in [e.text for e in app.journal.events]


async def test_first_run_says_what_to_do(tmp_path: Path) -> None:
    async with opened(MemoryBackend(), tmp_path) as (app, _):
        words = str(app.screen.query_one(Notice).content)
        assert "No jobs here yet." in words and "local-2node" in words and not table(app).display


async def test_the_first_profile_is_one_for_the_context(tmp_path: Path) -> None:
    cluster = Context("local-k8s", kind="kubernetes")
    async with opened(MemoryBackend(), tmp_path, context=cluster, contexts=(cluster,)) as (app, _):
        words = str(app.screen.query_one(Notice).content)
        assert "k8s-pytorch-2node" in words and "local-2node" not in words


async def test_a_region_that_fails_is_a_line(tmp_path: Path) -> None:
    backend, clock = MemoryBackend(fleet(), regions=("us-central1", "europe-west4")), Clock()
    backend.broken["europe-west4"] = PermissionDenied("permission aiplatform.customJobs.list", fix="ask [/]")
    async with opened(backend, tmp_path, clock=clock) as (app, pilot):
        clock.on(minutes=2)
        app.screen.tick()  # type: ignore[attr-defined]
        line = str(app.screen.query_one("#regions").content)  # type: ignore[attr-defined]
        assert "europe-west4: not reached for 2m" in line and "customJobs.list" in line
        assert len(shown(app)) == 5
        await pilot.press("W")
        assert isinstance(app.screen, MessageScreen)
        await pilot.press("escape")


async def test_a_service_that_goes_away_leaves_the_list_with_its_age(tmp_path: Path) -> None:
    backend, clock = MemoryBackend(fleet()), Clock()
    async with opened(backend, tmp_path, clock=clock) as (app, pilot):
        backend.error = Unavailable("the emulator does not answer", fix="vxtui emulator start")
        app.action_refresh_now()
        await until(pilot, lambda: app.trouble is not None, "the failure")
        clock.on(minutes=3)
        app.screen.tick()  # type: ignore[attr-defined]
        await pilot.pause()
        words = str(app.screen.query_one(Notice).content)
        assert "test not reached for 3m" in words and "does not answer" in words and "ctrl+r" in words
        assert len(shown(app)) == 5 and "not reached" in lines(app) and "seen 3m ago" in lines(app)
        backend.error = None
        await pilot.press("ctrl+r")
        await until(pilot, lambda: app.live, "it to be back")
        await until(pilot, lambda: not app.screen.query_one(Notice).display, "the notice to go")


async def test_pause_holds_the_screen_still(tmp_path: Path) -> None:
    backend = MemoryBackend(fleet())
    async with opened(backend, tmp_path) as (app, pilot):
        await pilot.press("p")
        before = painted(app)
        backend.change(fleet()[0].name, state=JobState.CANCELLING)
        await again(app, pilot)
        assert painted(app) == before and "paused" in lines(app)
        await pilot.press("p")
        assert painted(app) != before and "paused" not in lines(app)


async def test_copy_and_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "WSL_DISTRO_NAME"):
        monkeypatch.delenv(name, raising=False)
    backend = MemoryBackend(fleet(), local=False)
    async with opened(backend, tmp_path) as (app, pilot):
        await pilot.press("Y")
        assert app.clipboard == table(app).cursor and "Sent" in said(app)
        await pilot.press("o")
        await until(pilot, lambda: isinstance(app.screen, MessageScreen), "the link")
        assert "console.cloud.google.com" in app.clipboard
        assert "?project=p" in app.clipboard


async def test_hostile_names_are_harmless(tmp_path: Path) -> None:
    evil = "\x1b]0;owned\x07[/] [bold red]x\x9b31m"
    jobs = [replace(j, display_name=evil, labels={"a": evil}) for j in fleet()]
    async with opened(MemoryBackend(jobs), tmp_path) as (app, pilot):
        assert "\x1b" not in "".join(painted(app)) and "[/] [bold" in "".join(painted(app))
        table(app).move_to(jobs[0].name)
        await pilot.press("c")
        assert "\x1b" not in str(app.screen.query_one("#question").content)  # type: ignore[attr-defined]
        await pilot.press("y")
        await until(pilot, lambda: "[/]" in said(app), "the toast")
        assert "\x1b" not in said(app)


async def test_jobs_of_several_contexts_are_one_list_with_a_line_for_each_that_fails(tmp_path: Path) -> None:
    one, two, away = member("one", 1), member("two", 2), member("away", 3)
    away.error = Unavailable("no way there")
    group = GroupBackend("all", [one, two, away])
    where = Context(name="all", kind="group", members=["one", "two", "away"])
    async with opened(group, tmp_path, context=where) as (app, pilot):  # type: ignore[arg-type]
        await until(pilot, lambda: len(shown(app)) == 2, "the jobs of both")
        head, *rows = painted(app)
        # The only region gives its room away.
        assert "CONTEXT" in head and "REGION" not in head
        assert [row.split()[3] for row in rows[:2]] == ["one", "two"]
        assert "1/3 not reached" in lines(app) and "live" not in lines(app)
        line = str(app.screen.query_one("#regions").content)  # type: ignore[attr-defined]
        assert "away/us-central1: not reached" in line and "no way there" in line
        name = next(iter(two.stored))
        table(app).move_to(name)
        await pilot.press("c", "y")
        await until(pilot, lambda: two.cancelled == [name], "the cancel to reach its context")
        assert not one.cancelled


async def test_nobody_looks_at_a_terminal_without_the_focus(tmp_path: Path) -> None:
    async with opened(MemoryBackend(fleet()), tmp_path) as (app, pilot):
        poller = app.connection.poller
        assert poller is not None and poller.visible
        app.post_message(AppBlur())
        await until(pilot, lambda: not poller.visible, "the blur")
        app.post_message(AppFocus())
        await until(pilot, lambda: poller.visible, "the focus")


async def test_jobs_of_a_read_only_member_of_a_group_are_closed_alone(tmp_path: Path) -> None:
    settings = Settings(
        contexts=[
            Context("test", project="p", read_only=True),
            Context("other", project="q"),
            Context("both", kind="group", members=["test", "other"]),
        ]
    )
    first, second = job(1, "closed"), replace(job(2, "open"), context="other")
    backend = MemoryBackend([first, second])
    group = settings.contexts[2]
    async with opened(backend, tmp_path, settings=settings, context=group) as (app, pilot):
        await until(pilot, lambda: len(table(app).keys) == 2, "the jobs")
        table(app).move_to(first.name)
        await pilot.press("c")
        await until(pilot, lambda: "the context test is read-only" in said(app), "the refusal")
        assert isinstance(app.screen, JobsScreen) and "cancel" not in footer(app)
        table(app).move_to(second.name)
        await pilot.press("c", "y")
        await until(pilot, lambda: backend.cancelled == [second.name], "the cancel")
