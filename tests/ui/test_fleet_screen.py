"""The fleet by keys: measures, the worst cell, the way to a job and back, trouble, and how it looks."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Static

from tests.ui.double import Clock, MemoryBackend, console, job, pool
from tests.ui.fleet_double import H100, LARGE, LOCAL, TRAINING, FleetBackend, gpus
from tests.ui.fleet_screen_support import fleet
from tests.ui.jobs_screen_support import footer, lines, opened, until
from tui.app import VxtuiApp
from tui.backends.interface import Unavailable
from tui.config.settings import Settings
from tui.domain.core.states import JobState
from tui.screens.dialogs.message import MessageScreen
from tui.screens.fleet.screen import FleetScreen
from tui.screens.job.replicas import ReplicasPane
from tui.screens.job.screen import JobScreen
from tui.screens.jobs.screen import JobsScreen
from tui.store.job.figures import Measure
from tui.store.jobs.connection_state import ConnectionState
from tui.widgets.heat_map.scale import LATE, NOT_MEASURED
from tui.widgets.notice import Notice

SMALL, USUAL, LARGE_SIZE = (80, 24), (120, 40), (200, 60)


def spot_line(screen: FleetScreen) -> str:
    return str(screen.query_one("#spot", Static).content)


def row(screen: FleetScreen, of: Any, replica: str) -> tuple[int, ...]:
    return next(r.cells for r in screen.heat_map.rows if r.key == f"{of.name} {replica}")


async def test_every_replica_of_all_running_jobs_is_there(tmp_path: Path) -> None:
    backend = FleetBackend(TRAINING, LARGE, LOCAL, job(9, "waiting", JobState.PENDING))
    async with opened(backend, tmp_path) as (app, pilot):
        screen = await fleet(app, pilot)
        assert len(list(screen.heat_map.rows)) == 8 + 17 + 2
        assert "3 jobs   27 replicas   96 GPUs   utilization" in lines(app)
        assert row(screen, LARGE, "workerpool1-2")[5] == NOT_MEASURED
        assert row(screen, LARGE, "workerpool1-0")[3] == 0
        assert row(screen, LARGE, "workerpool0-0")[6] == 9 + LATE
        assert row(screen, TRAINING, "workerpool2-4") == (5,), "the CPU where there is no GPU"
        assert "simulated" not in lines(app)


async def test_the_cell_under_the_cursor_is_explained(tmp_path: Path) -> None:
    backend = FleetBackend()
    backend.stored_lines.append(gpus(LARGE, "workerpool0-0", [0.5] * 8))
    async with opened(backend, tmp_path, size=(200, 40)) as (app, pilot):
        screen = await fleet(app, pilot)
        screen.go_to(LARGE, "workerpool0-0")
        await pilot.pause()
        assert spot_line(screen) == (
            "workerpool0-0  GPU 0   utilization 50.0%   1s ago, the trainer's line   llm-7b-[/]fsdp"
        )
        screen.go_to(LARGE, "workerpool1-0")
        await pilot.pause()
        assert "workerpool1-0  GPU 0" in spot_line(screen) and "Cloud Monitoring" in spot_line(screen)
        screen.heat_map.move_to(f"{LARGE.name} workerpool1-2", 5)
        await pilot.pause()
        assert "· utilization: not measured" in spot_line(screen)
        screen.heat_map.move_to(f"{TRAINING.name} workerpool0-0", 6)
        await pilot.pause()
        assert "? late: 2m ago" in spot_line(screen)


async def test_measures_follow_each_other(tmp_path: Path) -> None:
    backend = FleetBackend()
    async with opened(backend, tmp_path) as (app, pilot):
        screen = await fleet(app, pilot)
        for measure in (Measure.MEMORY, Measure.LAG, Measure.CPU, Measure.UTILIZATION):
            asked = len(backend.asked)
            await pilot.press("m")
            assert screen.measure is measure and measure.value in lines(app)
            if measure is Measure.MEMORY:
                await until(pilot, lambda: len(backend.asked) > asked, "the memory is read")  # noqa: B023
                await until(pilot, lambda: row(screen, LARGE, "workerpool0-0")[0] > 0, "memory")
            if measure is Measure.LAG:
                assert row(screen, LARGE, "workerpool1-1") == (4,) and row(
                    screen, LARGE, "workerpool1-0"
                ) == (0,)


async def test_the_worst_cell_is_one_key_away(tmp_path: Path) -> None:
    async with opened(FleetBackend(LARGE), tmp_path) as (app, pilot):
        screen = await fleet(app, pilot)
        await pilot.press("w")
        assert screen.heat_map.cursor == (f"{LARGE.name} workerpool1-0", 3)
        await pilot.press("m", "m", "w")
        assert screen.heat_map.cursor == (f"{LARGE.name} workerpool1-1", 0)
        assert "6 steps behind" in spot_line(screen)


async def test_enter_opens_the_job_at_the_replica_and_escape_comes_back(tmp_path: Path) -> None:
    async with opened(FleetBackend(), tmp_path) as (app, pilot):
        screen = await fleet(app, pilot)
        screen.go_to(TRAINING, "workerpool1-2")
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, JobScreen), "the job")
        opened_job = app.screen
        assert isinstance(opened_job, JobScreen)
        pane = opened_job.pane
        assert isinstance(pane, ReplicasPane)
        await until(pilot, lambda: pane.tree_view.cursor == "workerpool1-2", "the replica")
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is screen, "the fleet again")
        assert screen.heat_map.cursor == (f"{TRAINING.name} workerpool1-2", 0)
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, JobsScreen), "the jobs")


async def test_a_job_shows_its_own_map(tmp_path: Path) -> None:
    async with opened(FleetBackend(), tmp_path) as (app, pilot):
        app.open_job(LARGE.name)
        await until(pilot, lambda: isinstance(app.screen, JobScreen) and app.screen.is_mounted, "the job")
        await pilot.press("m")
        await until(pilot, lambda: isinstance(app.screen, FleetScreen), "its map")
        screen = app.screen
        assert isinstance(screen, FleetScreen)
        await until(pilot, lambda: len(list(screen.heat_map.rows)) == 8, "its replicas")
        assert "llm-7b-[/]fsdp ▸ Fleet" in lines(app)
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, JobScreen), "the job again")
        below, depth = app.screen, len(app.screen_stack)
        await pilot.press("m")
        await until(pilot, lambda: isinstance(app.screen, FleetScreen) and app.screen.current_cell(), "a map")
        await pilot.press("G", "enter")
        await until(pilot, lambda: app.screen is below and len(app.screen_stack) == depth, "the same job")
        assert isinstance(below, JobScreen)
        pane = below.pane
        assert isinstance(pane, ReplicasPane)
        await until(pilot, lambda: pane.tree_view.cursor == "workerpool1-6", "the replica")


async def test_it_reads_only_while_it_is_in_sight(tmp_path: Path) -> None:
    backend = FleetBackend(TRAINING)
    async with opened(backend, tmp_path) as (app, pilot):
        screen = await fleet(app, pilot)
        await pilot.press("1")
        await until(pilot, lambda: isinstance(app.screen, JobsScreen), "the jobs")
        assert not [w for w in app.workers if w.group == "fleet" and w.is_running]
        assert screen.feed is not None
        screen.feed.kick()
        asked = len(backend.asked)
        await pilot.pause()
        assert len(backend.asked) == asked
        await pilot.press("3")
        await until(pilot, lambda: len(backend.asked) > asked, "it reads again")


async def test_trouble_is_said_and_explained(tmp_path: Path) -> None:
    backend = FleetBackend()
    backend.broken_jobs[LARGE.name] = Unavailable("monitoring does not answer", fix="Wait a little.")
    async with opened(backend, tmp_path) as (app, pilot):
        screen = await fleet(app, pilot)
        notice = screen.query_one(Notice)
        await until(pilot, lambda: notice.display, "the notice")
        assert "llm-7b-[/]fsdp can't be read" in str(notice.content)
        await pilot.press("W")
        await until(pilot, lambda: isinstance(app.screen, MessageScreen), "the reasons")


async def test_nothing_running_is_said(tmp_path: Path) -> None:
    async with opened(MemoryBackend([job(1, "done", JobState.SUCCEEDED)]), tmp_path) as (app, pilot):
        screen = await fleet(app, pilot)
        assert "No job is running." in str(screen.query_one(Notice).content)
        assert "open" not in footer(app) and "worst" not in footer(app)
        await pilot.press("enter", "w", "y", "j")
        assert app.screen is screen


async def test_simulated_accelerators_are_said_to_be(tmp_path: Path) -> None:
    async with opened(FleetBackend(simulated=True), tmp_path, size=(160, 30)) as (app, pilot):
        screen = await fleet(app, pilot)
        screen.go_to(LARGE, "workerpool0-0")
        await pilot.pause()
        assert "utilization   simulated" in lines(app) and "simulated" in spot_line(screen)


async def test_a_held_screen_stands_still(tmp_path: Path) -> None:
    backend, clock = FleetBackend(LARGE), Clock()
    async with opened(backend, tmp_path, clock=clock) as (app, pilot):
        screen = await fleet(app, pilot)
        await pilot.press("p")
        before = row(screen, LARGE, "workerpool0-0")
        backend.stored_lines.append(gpus(LARGE, "workerpool0-0", [0.0] * 8, ago=0))
        assert screen.feed is not None
        screen.feed.kick()
        asked = len(backend.asked)
        await until(pilot, lambda: len(backend.asked) > asked, "a round")
        await pilot.pause()
        assert row(screen, LARGE, "workerpool0-0") == before and "paused" in lines(app)
        await pilot.press("p")
        assert row(screen, LARGE, "workerpool0-0") == (0,) * 8


# Pictures


@pytest.fixture
def look(tmp_path: Path, snap_compare: Any) -> Callable[..., None]:
    """Compare the fleet after `keys` with its picture."""

    def compare(
        size: tuple[int, int], *keys: str, theme: str = "vxtui-dark", backend: Any = None, **settings: Any
    ) -> None:
        app = console(backend or FleetBackend(), tmp_path, settings=Settings(theme=theme, **settings))
        assert snap_compare(app, terminal_size=size, run_before=partial(_ready, app=app, keys=keys))

    return compare


async def _ready(pilot: Pilot[Any], *, app: VxtuiApp, keys: tuple[str, ...]) -> None:
    await until(pilot, lambda: app.connection.status.state is ConnectionState.LIVE, "an answer")
    screen = await fleet(app, pilot)
    for key in keys:
        await pilot.press(key)
        await pilot.pause()
    if "m" in keys:
        assert screen.feed is not None
        await screen.feed.read_once()
    await pilot.pause()
    await pilot.wait_for_scheduled_animations()


@pytest.mark.parametrize("size", [SMALL, USUAL, LARGE_SIZE], ids=["80", "120", "200"])
def test_fleet(look: Callable[..., None], size: tuple[int, int]) -> None:
    look(size, "j", "l")


def test_fleet_light(look: Callable[..., None]) -> None:
    look(USUAL, "w", theme="vxtui-light")


def test_fleet_in_sixteen_colours(look: Callable[..., None]) -> None:
    look(USUAL, "w", theme="ansi16")


def test_fleet_ascii(look: Callable[..., None]) -> None:
    look(SMALL, "w", ascii=True)


def test_fleet_lag(look: Callable[..., None]) -> None:
    look(USUAL, "m", "m", "w")


def test_fleet_simulated_memory(look: Callable[..., None]) -> None:
    look(USUAL, "m", backend=FleetBackend(simulated=True))


def test_a_thousand_gpus(look: Callable[..., None]) -> None:
    jobs = [
        job(300 + n, f"llm-70b-{n}", groups=(pool(0, 1, H100, 8), pool(1, 31, H100, 8))) for n in range(4)
    ]
    look(LARGE_SIZE, "l", backend=FleetBackend(*jobs))
