"""A job's screen by keys, on a service in memory: tabs, log, figures, specification, cancel, trouble."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from textual.widgets import Static

from tests.ui.double import NOON, Clock, UnchangeableJobs, job, pool
from tests.ui.job_double import event, step
from tests.ui.job_screen_support import backend_of, footer, header, opened, tab, text_of
from tests.ui.jobs_screen_support import until
from tui.backends.interface import PermissionDenied, Unavailable
from tui.config.settings import Settings
from tui.domain.core.job import JobError
from tui.domain.core.states import JobState
from tui.screens.dialogs.confirm import ConfirmScreen
from tui.screens.dialogs.message import MessageScreen
from tui.screens.job.attempts import AttemptsPane
from tui.screens.job.events import EventsPane
from tui.screens.job.logs import LogsPane
from tui.screens.job.metrics import MetricsPane
from tui.screens.job.overview import OverviewPane
from tui.screens.job.replicas import ReplicasPane
from tui.screens.job.spec import SpecPane
from tui.screens.jobs.screen import JobsScreen
from tui.widgets.log.render import line_text
from tui.widgets.plot.chart import Chart


async def test_the_header_says_where_the_job_stands(tmp_path: Path) -> None:
    async with opened(backend_of(), tmp_path) as (screen, pilot):
        top, second = header(screen).splitlines()
        assert top.startswith("test ▸ Jobs ▸ local-2node   ● running 11m")
        assert "step 119/400   loss 2.549" in top and "tok/s" in top
        assert "Overview" in second and "Replicas 2" in second
        await pilot.press("left_square_bracket")
        assert isinstance(screen.pane, EventsPane)
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(screen.app.screen, JobsScreen), "the jobs")


@pytest.mark.parametrize("width", [80, 100, 200])
async def test_a_long_name_with_brackets_gives_way_to_the_state(tmp_path: Path, width: int) -> None:
    backend = backend_of(job(7, "a-[/]-very-[red]long[/red]-name-" * 4))
    async with opened(backend, tmp_path, size=(width, 24)) as (screen, _):
        top = header(screen).splitlines()[0]
        assert "● running 59m" in top and "a-[/]-" in top and len(top) <= width


async def test_leaving_ends_all_reading_at_once(tmp_path: Path) -> None:
    async with opened(backend_of(), tmp_path) as (screen, pilot):
        app = screen.app
        worker = next(w for w in app.workers if w.group == "job feed")
        await pilot.press("escape")
        await until(pilot, lambda: worker.is_finished, "the end of the feed")
        names = {task.get_name() for task in asyncio.all_tasks()}
        assert not [name for name in names if "job feed" in name]


async def test_the_overview_tells_the_facts(tmp_path: Path) -> None:
    async with opened(backend_of(), tmp_path) as (screen, _):
        facts = text_of(screen.pane, "#facts")
        for words in (
            "● running   JOB_STATE_RUNNING", "119/400", "30 %", "left", "step 50", "1 × n1-standard-4",
            "team=nlp", "customJobs/7", "from 5.4",
        ):  # fmt: skip
            assert words in facts, words
        assert "vxtui-launch" not in facts


async def test_a_suspended_job_has_no_time_left(tmp_path: Path) -> None:
    backend = backend_of()
    async with opened(backend, tmp_path) as (screen, pilot):
        assert "left" in text_of(screen.pane, "#facts")
        backend.change(next(iter(backend.stored)), state=JobState.SUSPENDED)
        await until(pilot, lambda: "suspended" in text_of(screen.pane, "#facts"), "its suspension")
        facts = text_of(screen.pane, "#facts")
        assert "30 %" in facts and "left" not in facts


async def test_a_failure_is_explained_with_the_replicas_last_words(tmp_path: Path) -> None:
    error = JobError(9, "The replica workerpool1-0 exited with a non-zero status of 1.")
    backend = backend_of(job(5, "vit", JobState.FAILED, error=error, age=30, ended=1))
    async with opened(backend, tmp_path) as (screen, _):
        facts = text_of(screen.pane, "#facts")
        assert "non-zero status of 1" in facts and "next step" in facts
        assert "RuntimeError: bad thing [/] in [red]batch[/red]" in facts and "likely" in facts
        assert "D delete" in footer(screen) and "c cancel" not in footer(screen)


async def test_enter_shows_the_log_at_the_evidence(tmp_path: Path) -> None:
    error = JobError(9, "The replica workerpool1-0 exited with a non-zero status of 1.")
    backend = backend_of(job(5, "vit", JobState.FAILED, error=error, age=30, ended=1))
    async with opened(backend, tmp_path) as (screen, pilot):
        await until(pilot, lambda: "▸ " in text_of(screen.pane, "#facts"), "evidence")
        await pilot.press("enter")
        await until(pilot, lambda: screen.pane.TITLE == "Logs", "the log")


async def test_a_cancelled_job_says_who_ended_it_and_nothing_that_helps(tmp_path: Path) -> None:
    error = JobError(1, "The job was cancelled by the user.")
    backend = backend_of(job(5, "vit", JobState.CANCELLED, error=error, age=30, ended=1))
    async with opened(backend, tmp_path) as (screen, _):
        facts = text_of(screen.pane, "#facts")
        assert "cancelled by the user" in facts and "next step" not in facts and "error" not in facts


async def test_a_waiting_job_says_what_for(tmp_path: Path) -> None:
    backend = backend_of(job(5, "eval", JobState.QUEUED, age=33), log=False)
    async with opened(backend, tmp_path) as (screen, _):
        facts = text_of(screen.pane, "#facts")
        assert "33m" in facts and "The job waits in the queue while the training quota is used up." in facts
        assert "waits 33m" in header(screen)


async def test_enter_on_a_replica_shows_its_log(tmp_path: Path) -> None:
    async with opened(backend_of(gpus=2), tmp_path) as (screen, pilot):
        pane = await tab(screen, pilot, ReplicasPane)
        tree = pane.tree_view
        assert list(tree.keys) == ["workerpool0", "workerpool0-0", "workerpool1", "workerpool1-0"]
        row = tree._rows["workerpool1-0"]
        assert row["gpu"].plain.split()[-1].isdigit() and row["cpu"].plain[-2:].isdigit()
        await pilot.press("G", "enter")
        await pilot.pause()
        logs = screen.pane
        assert isinstance(logs, LogsPane)
        assert {getattr(x, "replica", "") for x in logs.log_view.view} == {"workerpool1-0"}


async def test_a_pool_is_folded_and_a_figure_not_measured_is_a_dot(tmp_path: Path) -> None:
    backend = backend_of(job(9, "big", groups=(pool(0, 1), pool(1, 63))))
    async with opened(backend, tmp_path, size=(80, 24)) as (screen, pilot):
        pane = await tab(screen, pilot, ReplicasPane)
        tree = pane.tree_view
        assert list(tree.keys) == ["workerpool0", "workerpool0-0", "workerpool1"], "large pools start folded"
        row = tree.cells_of("workerpool0-0")
        assert (row["exit"].plain, row["gpu"].plain) == ("·", "–"), "not measured, and none there"
        assert "GPU: no accelerator" in pane.status().plain
        assert tree.cells_of("workerpool1")["state"].plain == "63 ● running"
        await pilot.press("G", "enter")
        await pilot.pause()
        assert len(tree.keys) == 66
        await pilot.press("G", "space")
        await pilot.pause()
        assert len(tree.keys) == 3 and tree.cursor == "workerpool1"


async def test_metrics_are_plotted_and_what_is_not_measured_is_said(tmp_path: Path) -> None:
    async with opened(backend_of(), tmp_path) as (screen, pilot):
        pane = await tab(screen, pilot, MetricsPane)
        await until(pilot, lambda: len(pane.query(Chart)) == 9, "the charts")
        assert "GPU: not measured — no accelerator in this job" in text_of(pane, "#not-measured")
        titles = [str(chart.query_one(".chart-title").render()) for chart in pane.query(Chart)]
        assert titles[0].startswith("Loss 2.549") and "0-0" in titles[2] and "1-0" in titles[2]
        assert "by step" in pane.status().plain
        await pilot.press("t", "s")
        await pilot.pause()
        assert "over time" in pane.status().plain and "1h" in pane.status().plain
        await pilot.press("r", *"pool1", "enter")
        await until(pilot, lambda: pane.replica == "workerpool1-0", "one replica")
        await pilot.pause()
        titles = [str(chart.query_one(".chart-title").render()) for chart in pane.query(Chart)]
        assert not any("0-0" in title for title in titles[2:])


async def test_many_replicas_are_drawn_as_min_mean_and_max(tmp_path: Path) -> None:
    backend = backend_of(job(9, "big", groups=(pool(0, 1), pool(1, 63))))
    async with opened(backend, tmp_path, size=(80, 24)) as (screen, pilot):
        pane = await tab(screen, pilot, MetricsPane)
        await until(pilot, lambda: len(pane.query(Chart)) == 9, "the charts")
        title = str(list(pane.query(Chart))[2].query_one(".chart-title").render())
        assert "mean of 64" in title and "min" in title


async def test_the_specification_hides_secrets_until_they_are_asked_for(tmp_path: Path) -> None:
    async with opened(backend_of(), tmp_path) as (screen, pilot):
        await pilot.press("d")
        pane = screen.pane
        assert isinstance(pane, SpecPane)
        await until(pilot, lambda: pane.spec_view.text, "the specification")
        assert "topsecret" not in pane.spec_view.text and "1 secret masked" in header(screen)
        await pilot.press("slash", *"image", "enter")
        await pilot.pause()
        assert pane.spec_view.hits and pane.spec_view.current == pane.spec_view.hits[0]
        await pilot.press("escape")
        assert pane.spec_view.pattern is None
        await pilot.press("y")
        assert "topsecret" not in screen.app.clipboard
        await pilot.press("u")
        await pilot.pause()
        assert "topsecret" in pane.spec_view.text and "1 secret shown" in header(screen)


async def test_events_lead_to_the_log_of_their_moment(tmp_path: Path) -> None:
    async with opened(backend_of(), tmp_path) as (screen, pilot):
        pane = await tab(screen, pilot, EventsPane)
        texts = [pane.events_view._rows[key]["text"].plain for key in pane.events_view.keys]
        assert texts[:2] == ["created", "running"] and "checkpoint at step 50 in 0.09 s" in texts
        while pane.current.kind != "checkpoint":
            await pilot.press("k")
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(screen.pane, LogsPane), "the log")
        logs = screen.pane
        assert isinstance(logs, LogsPane)
        await until(
            pilot,
            lambda: logs.log_view.cursor and "checkpoint" in line_text(logs.log_view.cursor),
            "the moment",
        )


async def test_an_interrupted_run_shows_its_attempts(tmp_path: Path) -> None:
    backend = backend_of(log=False)
    backend.say(event(1, "phase", "rank 0 ended with code 137", phase="restarting"))
    backend.say(event(2, "phase", "node 0 waits", phase="rendezvous"))
    async with opened(backend, tmp_path) as (screen, pilot):
        await pilot.press("A")
        pane = screen.pane
        assert isinstance(pane, AttemptsPane)
        await until(pilot, lambda: pane.table_view.keys == ["1", "2"], "two attempts")
        assert pane.table_view._rows["1"]["why"].plain == "rank 0 ended with code 137"
        assert pane.status().plain.startswith("2 attempts")
        await pilot.press("g", "enter")
        await until(pilot, lambda: isinstance(screen.app.screen, MessageScreen), "the whole attempt")
        assert "rank 0 ended with code 137" in str(
            screen.app.screen.query_one("#text Static", Static).render()
        )


async def test_cancel_names_the_job_and_what_is_at_stake(tmp_path: Path) -> None:
    backend = backend_of()
    name = next(iter(backend.stored))
    async with opened(backend, tmp_path) as (screen, pilot):
        await pilot.press("c")
        await until(pilot, lambda: isinstance(screen.app.screen, ConfirmScreen), "the question")
        words = str(screen.app.screen.query_one("#question").render())
        assert "Cancel local-2node (2 replicas, 30%, last checkpoint" in words
        await pilot.press("n")
        assert backend.cancelled == []
        await pilot.press("c")
        await until(pilot, lambda: isinstance(screen.app.screen, ConfirmScreen), "the question")
        await pilot.press("y")
        await until(pilot, lambda: backend.cancelled == [name], "the cancel")
        screen.feed.kick()
        await until(pilot, lambda: "cancelled" in header(screen), "the state")
        await until(pilot, lambda: "D delete" in footer(screen), "the footer")


async def test_read_only_and_missing_rights_close_what_changes(tmp_path: Path) -> None:
    backend = backend_of()
    backend.use(jobs={"custom_job": UnchangeableJobs(backend)})
    async with opened(backend, tmp_path) as (screen, pilot):
        assert "c cancel" not in footer(screen)
        await pilot.press("c")
        await pilot.pause()
        assert screen.is_current
    async with opened(backend_of(), tmp_path, settings=Settings(read_only=True)) as (screen, pilot):
        await pilot.press("c")
        await pilot.pause()
        assert screen.is_current


async def test_pause_holds_the_screen_still(tmp_path: Path) -> None:
    backend = backend_of()
    async with opened(backend, tmp_path) as (screen, pilot):
        pane = await tab(screen, pilot, LogsPane)
        await pilot.press("p")
        before = len(pane.log_view.view)
        backend.say(step(600, 140))
        await until(pilot, lambda: len(screen.feed.buffer) == len(backend.entries), "it is read all the same")
        await pilot.pause()
        assert len(pane.log_view.view) == before and "paused" in header(screen)
        await pilot.press("p")
        await pilot.pause()
        assert len(pane.log_view.view) == before + 1


async def test_an_unreachable_service_shows_what_was_known_and_recovers(tmp_path: Path) -> None:
    backend = backend_of()
    async with opened(backend, tmp_path) as (screen, pilot):
        backend.error = Unavailable("nobody answers", fix="Is the network up?")
        backend.say()
        screen.feed.kick()
        await until(pilot, lambda: "job not reached" in header(screen), "the trouble")
        assert "● running" in header(screen)
        for kind in (ReplicasPane, LogsPane, MetricsPane, SpecPane, EventsPane, OverviewPane):
            await tab(screen, pilot, kind)
        await tab(screen, pilot, SpecPane)
        await until(pilot, lambda: "can't be read" in text_of(screen.pane, "Notice"), "why there is none")
        backend.error = None
        screen.feed.kick()
        await until(pilot, lambda: "not reached" not in header(screen), "recovery")


async def test_without_rights_to_the_log_the_rest_is_there(tmp_path: Path) -> None:
    backend = backend_of()
    backend.log_error = PermissionDenied(
        "logging.logEntries.list is missing", fix="Ask for roles/logging.viewer."
    )
    async with opened(backend, tmp_path, ready=False) as (screen, pilot):
        await until(pilot, lambda: screen.feed.sources["metrics"].read_at, "the figures")
        pane = await tab(screen, pilot, LogsPane)
        await until(pilot, lambda: "roles/logging.viewer" in text_of(pane, "Notice"), "what helps")


async def test_a_job_that_writes_nothing(tmp_path: Path) -> None:
    backend = backend_of(job(7, "quiet", JobState.SUCCEEDED, age=90, ended=60), log=False)
    backend.series = []
    async with opened(backend, tmp_path) as (screen, pilot):
        pane = await tab(screen, pilot, LogsPane)
        await until(pilot, lambda: "has no log lines" in text_of(pane, "Notice"), "the word")
        metrics = await tab(screen, pilot, MetricsPane)
        assert "Loss and throughput: not reported" in text_of(metrics, "#not-measured")


# Seconds: 126 keys, each with a picture of the whole screen.
@pytest.mark.parametrize("size", [(80, 24), (200, 60)])
async def test_every_tab_and_key_works_at_every_size(tmp_path: Path, size: tuple[int, int]) -> None:
    clock = Clock()
    async with opened(backend_of(gpus=8), tmp_path, size=size, clock=clock) as (screen, pilot):
        keys = (
            "j",
            "k",
            "G",
            "g",
            "pagedown",
            "pageup",
            "w",
            "t",
            "J",
            "z",
            "e",
            "E",
            "n",
            "x",
            "right",
            "Y",
            "f",
        )
        for _ in screen.panes:
            clock.on(seconds=2)
            await pilot.press(*keys)
            await pilot.press("right_square_bracket")
            await pilot.pause()
        assert screen.is_current and clock() > NOON


async def test_the_events_open_at_the_newest(tmp_path: Path) -> None:
    backend = backend_of(log=False)
    backend.say(*(event(n, "checkpoint", f"checkpoint {n}") for n in range(60)))
    async with opened(backend, tmp_path, size=(80, 24)) as (screen, pilot):
        pane = await tab(screen, pilot, EventsPane)
        table = pane.events_view
        await until(pilot, lambda: len(table.keys) > 60 and table.cursor == table.keys[-1], "the events")
        await until(pilot, lambda: table.keys[-1] in table.in_view, "the last one in view")


async def test_a_status_that_does_not_fit_beside_the_tabs_has_a_line_of_its_own(tmp_path: Path) -> None:
    async with opened(backend_of(), tmp_path, size=(80, 24)) as (screen, pilot):
        line = screen.query_one("#status-line", Static)
        assert not line.display
        await tab(screen, pilot, MetricsPane)
        assert line.display and text_of(screen, "#status-line").startswith(
            "by step   all of it   all replicas"
        )
        assert "by step" not in header(screen)
        await pilot.resize_terminal(120, 24)
        await until(pilot, lambda: not line.display, "the wide screen")
        assert "all of it   all replicas" in header(screen)


async def test_a_silent_job_shows_since_when_and_what_to_do(tmp_path: Path) -> None:
    backend = backend_of(log=False)
    backend.say(*(step(2.0 * n, n) for n in range(1, 120)))
    async with opened(backend, tmp_path) as (screen, pilot):
        # Older lines have arrived by now.
        screen.feed.sources["logs"].began_at = -1000.0
        await until(pilot, lambda: screen.feed.silence is not None, "the silence")
        await pilot.pause()
        shown = "\n".join(strip.text for strip in screen.app.screen._compositor.render_strips())
        assert "◇ no step for" in shown and ":stacks" in shown and "about" not in shown
