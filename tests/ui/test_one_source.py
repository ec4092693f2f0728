"""One source for each fact and one clock for each screen: what two places of a screen say never differs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.ui.app_support import SlowBackend
from tests.ui.double import NOON, Clock, MemoryBackend, console, job
from tests.ui.fleet_double import LARGE, FleetBackend
from tests.ui.fleet_screen_support import fleet
from tests.ui.job_double import JobBackend
from tests.ui.job_screen_support import backend_of, header, tab, text_of
from tests.ui.job_screen_support import opened as job_opened
from tests.ui.jobs_screen_support import again, lines, opened, painted, shown, until
from tests.unit.group_support import member
from tui.app import VxtuiApp
from tui.backends.group import GroupBackend
from tui.backends.interface import Unavailable
from tui.config.settings import Context
from tui.domain.core.job import JobError
from tui.domain.core.states import JobState
from tui.domain.core.training_progress import Progress
from tui.screens.job.logs import LogsPane
from tui.screens.job.overview import OverviewPane
from tui.screens.job.screen import JobScreen
from tui.store.jobs.connection_state import ConnectionState, ConnectionStatus
from tui.store.jobs.snapshot import SnapshotFile
from tui.widgets.notice import Notice

PROBLEM = "rendezvous lacks 2 of 8 nodes: node-3, node-5"


async def test_a_reading_that_reaches_no_region_is_no_reading(tmp_path: Path) -> None:
    backend, clock = MemoryBackend([job(1, "one")]), Clock()
    async with opened(backend, tmp_path, clock=clock) as (app, pilot):
        backend.broken["us-central1"] = Unavailable("no answer")
        clock.on(seconds=20)
        await again(app, pilot)
        clock.on(seconds=34)
        await again(app, pilot)
        app.screen.tick()  # type: ignore[attr-defined]
        words = str(app.screen.query_one(Notice).content)
        assert "test not reached for 34s" in words and "seen 54s ago" in lines(app)


async def test_ages_and_costs_stand_still_while_the_service_is_down(tmp_path: Path) -> None:
    backend, clock = MemoryBackend([job(1, "one", age=30)]), Clock()
    async with opened(backend, tmp_path, clock=clock) as (app, pilot):
        row = painted(app)[1]
        assert "30m" in row and "~$0.24" in row
        backend.error = Unavailable("no answer")
        await again(app, pilot)
        clock.on(hours=3)
        app.screen.tick()  # type: ignore[attr-defined]
        await pilot.pause()
        assert painted(app)[1] == row
        backend.error = None
        await again(app, pilot)
        app.screen.tick()  # type: ignore[attr-defined]
        await pilot.pause()
        assert "3h30" in painted(app)[1]


async def test_the_last_snapshot_is_of_its_own_moment_while_connecting_and_after(tmp_path: Path) -> None:
    backend, clock = SlowBackend(), Clock()
    SnapshotFile(tmp_path, "test").save([job(1, "one", age=30)], NOON)
    clock.on(hours=3)
    snapshot = SnapshotFile(tmp_path, "test").load()
    async with console(backend, tmp_path, snapshot=snapshot, clock=clock).run_test(size=(120, 30)) as pilot:
        app = pilot.app
        assert isinstance(app, VxtuiApp)
        await until(pilot, lambda: "connecting…  seen 3h00 ago" in lines(app), "the snapshot")
        row = painted(app)[1]
        assert "30m" in row and "~$0.24" in row
        app.connection.status = ConnectionStatus(ConnectionState.FAILED, clock(), Unavailable("no answer"))
        app.screen.tick()  # type: ignore[attr-defined]
        await pilot.pause()
        assert painted(app)[1] == row


async def test_all_rows_are_of_the_moment_of_the_newest(tmp_path: Path) -> None:
    older, newer = (job(number, f"job-{number}", age=0) for number in (1, 2))
    older = replace(older, create_time=NOON.replace(hour=11, minute=59, second=8))
    newer = replace(newer, create_time=NOON.replace(hour=11, minute=59, second=9))
    backend, clock = MemoryBackend([older, newer]), Clock()
    async with opened(backend, tmp_path, clock=clock) as (app, pilot):
        clock.on(seconds=3)
        # A change of the newer one makes its row anew, and no tick comes between.
        backend.change(newer.name, labels={"seen": "yes"})
        await again(app, pilot)
        first, second = (
            next(w for w in row.split() if w in {"51s", "52s", "54s", "55s"}) for row in painted(app)[1:3]
        )
        assert (first, second) == ("54s", "55s")


async def test_a_job_that_failed_before_it_ran_does_not_wait(tmp_path: Path) -> None:
    failed = replace(
        job(1, "vit", JobState.FAILED, error=JobError(8, "The quota is exhausted.")), start_time=None
    )
    async with job_opened(JobBackend(failed), tmp_path) as (screen, _):
        assert "failed never ran" in header(screen) and "waits" not in header(screen)


async def test_a_lost_log_is_not_following(tmp_path: Path) -> None:
    backend = backend_of()
    async with job_opened(backend, tmp_path) as (screen, pilot):
        pane = await tab(screen, pilot, LogsPane)
        await until(pilot, lambda: "following" in text_of(pane, "#log-status"), "the log")
        backend.log_error = Unavailable("no answer")
        backend.say()
        await until(pilot, lambda: "not reached" in text_of(pane, "#log-status"), "the loss")
        assert "following" not in text_of(pane, "#log-status")


async def test_a_job_that_is_opened_while_its_service_is_down_stands_where_the_list_does(
    tmp_path: Path,
) -> None:
    backend, clock = MemoryBackend([job(1, "one", age=30)]), Clock()
    async with opened(backend, tmp_path, clock=clock) as (app, pilot):
        assert "~$0.24" in painted(app)[1]
        backend.error = Unavailable("no answer")
        await again(app, pilot)
        clock.on(hours=3)
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, JobScreen) and app.screen.feed.trouble, "the loss")
        screen = app.screen
        assert isinstance(screen, JobScreen)
        for _ in range(2):
            screen.refresh_frame()
            # One word for the lost connection and one time since when, as in the list.
            assert "test not reached for 3h00" in header(screen) and "● running 29m  ~$0.24 " in header(
                screen
            )
            facts = text_of(screen, "#facts")
            assert "running       29m" in facts and "~$0.24 " in facts and "   30m ago" in facts
            clock.on(hours=1)
            await pilot.press("ctrl+r")
            await until(pilot, lambda: "for 4h00" in header(screen), "another look")
            clock.on(hours=-1)
        await pilot.press("3")
        assert "test not reached for 3h00" in str(app.screen.query_one(Notice).content)


async def test_every_source_of_a_job_is_read_again_as_soon_as_one_is_back(tmp_path: Path) -> None:
    backend = backend_of()
    async with job_opened(backend, tmp_path) as (screen, pilot):
        backend.error = Unavailable("no answer")
        backend.say()
        screen.feed.kick()
        sources = screen.feed.sources
        lost = [sources[name] for name in ("job", "metrics")]
        await until(pilot, lambda: all(source.error for source in lost), "the loss")
        for source in lost:
            # Their next try would come a minute from now.
            source.failures = 7
            screen.feed._kick[source.name].set()
        await until(pilot, lambda: all(source.failures > 7 for source in lost), "one more try")
        backend.error = None
        screen.feed._kick["job"].set()
        await until(pilot, lambda: not any(source.error for source in lost), "all of them")


async def test_the_fleet_does_not_call_a_failed_reading_a_reading(tmp_path: Path) -> None:
    backend, clock = FleetBackend(LARGE), Clock()
    async with opened(backend, tmp_path, clock=clock, size=(80, 24)) as (app, pilot):
        screen = await fleet(app, pilot)
        assert "read 0s ago" in lines(app) and screen.feed is not None
        backend.error = Unavailable("no answer")
        clock.on(minutes=2)
        screen.feed.kick()
        await screen.feed.read_once()
        screen.reload()
        assert "read 2m ago" in lines(app)


async def test_a_problem_of_the_training_is_a_row_of_the_overview(tmp_path: Path) -> None:
    one = job(1, "one", progress=Progress(12, 400, problem=PROBLEM))
    async with job_opened(JobBackend(one), tmp_path) as (screen, pilot):
        pane = screen.query_one(OverviewPane)
        await until(pilot, lambda: PROBLEM in text_of(screen, "#facts"), "the problem")
        [row] = [line for line in text_of(screen, "#facts").splitlines() if PROBLEM in line]
        assert row.split()[0] == "problem" and pane.display


async def test_a_problem_stands_in_the_place_of_the_progress_while_the_job_is_active(tmp_path: Path) -> None:
    active = job(1, "one", progress=Progress(12, 400, problem=PROBLEM))
    ended = job(2, "two", JobState.SUCCEEDED, progress=Progress(400, 400, problem=PROBLEM))
    async with opened(MemoryBackend([active, ended]), tmp_path, size=(200, 40)) as (app, _):
        rows = dict(zip(shown(app), painted(app)[1:], strict=False))
        assert "rendezvous lacks 2 of 8 nodes" in rows["one"] and "3 %" not in rows["one"]
        assert "rendezvous" not in rows["two"] and "400 steps" in rows["two"]


async def test_in_a_group_the_same_error_is_one_line_and_live_is_only_where_all_is(tmp_path: Path) -> None:
    one = member("one", 1)
    away = [member(name, regions=("us-central1", "europe-west4", "us-east4")) for name in ("a", "b")]
    for backend in away:
        backend.error = Unavailable(f"{backend.info.name} does not answer")
    group = GroupBackend("all", [one, *away])
    where = Context(name="all", kind="group", members=["one", "a", "b"])
    async with opened(group, tmp_path, context=where) as (app, pilot):  # type: ignore[arg-type]
        await until(pilot, lambda: len(shown(app)) == 1, "the jobs that can be read")
        await until(pilot, lambda: app.connection.unreached == (6, 7), "the others' errors")
        app.screen.tick()  # type: ignore[attr-defined]
        told = str(app.screen.query_one("#regions").content).splitlines()  # type: ignore[attr-defined]
        assert len(told) == 1 and "a/us-central1, a/europe-west4 and 4 more: not reached" in told[0]
        assert "6/7 not reached" in lines(app) and "live" not in lines(app)


async def test_a_job_whose_context_is_away_does_not_take_the_progress_of_the_others(tmp_path: Path) -> None:
    running = Progress(120, 400, last_loss=2.5)
    one, away = member("one", 1), member("away", 2)
    for name in list(one.stored):
        one.change(name, progress=running, state=JobState.RUNNING)
    gone = replace(job(9, "gone"), context="away", name="projects/away-p/locations/x/customJobs/9")
    away.error = Unavailable("no way there")
    group = GroupBackend("all", [one, away])
    where = Context(name="all", kind="group", members=["one", "away"])
    async with opened(group, tmp_path, context=where) as (app, pilot):  # type: ignore[arg-type]
        app.store.put(gone)
        assert app.connection.poller is not None
        app.connection.poller.kick()
        await again(app, pilot)
        assert app.connection.poller.progress_error is None
        await until(pilot, lambda: "30 %" in "".join(painted(app)), "the progress")


async def test_in_a_group_the_progress_of_jobs_that_have_ended_here_is_read(tmp_path: Path) -> None:
    here, cloud = member("here", 1), member("cloud", 2)
    here.info = replace(here.info, local=True)
    for backend in (here, cloud):
        for name in list(backend.stored):
            backend.change(name, state=JobState.SUCCEEDED, end_time=NOON, progress=Progress(400, 400))
    group = GroupBackend("all", [here, cloud])
    where = Context(name="all", kind="group", members=["here", "cloud"])
    async with opened(group, tmp_path, context=where) as (app, pilot):  # type: ignore[arg-type]
        await until(pilot, lambda: len(shown(app)) == 2, "the jobs of both")
        await until(pilot, lambda: "400 steps" in "".join(painted(app)), "the progress of the job here")
        rows = dict(zip(shown(app), painted(app)[1:], strict=False))
        # A read of a log in the cloud counts against a quota: it is not asked.
        assert "400 steps" in rows["here-1"] and "400 steps" not in rows["cloud-2"]


async def test_money_of_this_machine_is_marked_and_is_not_added(tmp_path: Path) -> None:
    here, cloud = Context("local", kind="local", project="p"), Context("cloud", project="p")
    group = Context("all", kind="group", members=["local", "cloud"])
    jobs = [replace(job(1, "mine"), context="local"), replace(job(2, "theirs"), context="cloud")]
    contexts = [here, cloud, group]
    async with opened(MemoryBackend(jobs), tmp_path, size=(160, 40), context=group, contexts=contexts) as (
        app,
        pilot,
    ):
        await until(pilot, lambda: "2 running" in lines(app), "the jobs")
        rows = dict(zip(shown(app), painted(app)[1:], strict=False))
        assert "would ~$0.48" in rows["mine"] and "would" not in rows["theirs"]
        assert "~$0.48" in rows["theirs"] and "~$0.49/h" in lines(app)


async def test_where_all_runs_here_the_column_says_what_it_would_cost(tmp_path: Path) -> None:
    here = Context("test", kind="local", project="p")
    async with opened(MemoryBackend([job(1, "mine")]), tmp_path, size=(160, 40), context=here) as (app, _):
        assert "WOULD COST" in painted(app)[0] and "would cost ~$0.49/h" in lines(app)
