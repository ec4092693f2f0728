"""How a job's screen looks: each tab, three sizes, dark, light, 16 colours and ASCII. Time stands still."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from tests.ui.double import console, job, pool
from tests.ui.job_double import JobBackend, at
from tests.ui.test_job_screen import backend_of, settled
from tests.ui.test_jobs_screen import until
from tui.app import VxtuiApp
from tui.backends.interface import Unavailable
from tui.config.settings import Context, Settings
from tui.domain.job import JobError
from tui.domain.log_entry import LogGap
from tui.domain.states import JobState
from tui.screens.job.logs import LogsPane
from tui.screens.job.metrics import MetricsPane
from tui.screens.job.screen import JobScreen
from tui.screens.job.spec import SpecPane
from tui.widgets.plot.chart import Chart

SMALL, USUAL, LARGE = (80, 24), (120, 40), (200, 60)
DARK, LIGHT = "vxtui-dark", "vxtui-light"
NEXT = "right_square_bracket"
TABS = {
    name: (NEXT,) * at
    for at, name in enumerate(("overview", "replicas", "logs", "metrics", "spec", "events"))
}


@pytest.fixture(autouse=True)
def _utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
def look(tmp_path: Path, snap_compare: Any) -> Callable[..., None]:
    """Compare a job's screen after `keys`, on `backend`, with its picture."""

    def compare(
        size: tuple[int, int],
        keys: tuple[str, ...],
        *,
        backend: JobBackend | None = None,
        theme: str = DARK,
        fail: Unavailable | None = None,
        **settings: Any,
    ) -> None:
        used = backend or backend_of()
        here = Context("test", kind="local", project="p")
        app = console(used, tmp_path, context=here, settings=Settings(theme=theme, **settings))
        ready = partial(ready_screen, app=app, backend=used, keys=keys, fail=fail)
        assert snap_compare(app, terminal_size=size, run_before=ready)

    return compare


async def ready_screen(
    pilot: Pilot[Any], *, app: VxtuiApp, backend: JobBackend, keys: tuple[str, ...], fail: Unavailable | None
) -> None:
    """Open the screen of the only job, press the keys, and wait until nothing changes."""
    name = next(iter(backend.stored))
    await until(pilot, lambda: name in app.store.jobs, "the list")
    app.open_job(name)
    await until(pilot, lambda: isinstance(app.screen, JobScreen) and app.screen.is_mounted, "the screen")
    screen = app.screen
    assert isinstance(screen, JobScreen)
    await settled(screen, pilot, backend)
    if fail is not None:
        backend.error = fail
        backend.say()
        screen.feed.kick()
        await until(pilot, lambda: len([s for s in screen.feed.sources.values() if s.error]) == 3, "trouble")
        # The list too: the header names the context then, not the job.
        app.connection.again()
        await until(pilot, lambda: not app.live, "the list's trouble")
    for key in keys:
        await _log_at_rest(screen, pilot)
        await pilot.press(key)
        await pilot.pause()
    pane = screen.pane
    if isinstance(pane, MetricsPane):
        await until(pilot, lambda: all(chart.is_mounted for chart in pane.query(Chart)), "the charts")
    if isinstance(pane, SpecPane):
        await until(pilot, lambda: pane.spec_view.text, "the specification")
    if isinstance(pane, LogsPane):
        await _log_at_rest(screen, pilot)
    await pilot.pause()
    await pilot.wait_for_scheduled_animations()


async def _log_at_rest(screen: JobScreen, pilot: Pilot[Any]) -> None:
    """Every line has been looked at, searched and laid out: a key that comes earlier acts on half a log."""
    pane = screen.pane
    if not isinstance(pane, LogsPane):
        return
    # How much room the log has depends on what the second's tick shows below it: not on when it comes.
    pane.tick()
    await pilot.pause()
    log = pane.log_view
    await until(
        pilot,
        lambda: (
            log.settled
            and len(log.view)
            and not log.view.unscanned
            and not log.views.searching
            and log.size.height
        ),
        "the log at rest",
    )
    await pilot.pause()


def large() -> JobBackend:
    gpus = "NVIDIA_TESLA_A100"
    pools = (pool(0, 1, gpus, 8), pool(1, 3, gpus, 8), pool(2, 60, reducer=True))
    return backend_of(job(101, "arr-coc-4x8-a100", age=302, strategy="SPOT", groups=pools), gpus=8)


def failed() -> JobBackend:
    error = JobError(9, "The replica workerpool1-0 exited with a non-zero status of 1.")
    return backend_of(job(5, "vit-[/]-ablation", JobState.FAILED, error=error, age=30, ended=1))


def gapped() -> JobBackend:
    backend = backend_of()
    backend.say(gaps=[LogGap(at(440), 38, "rate limit")])
    return backend


@pytest.mark.parametrize("size", [SMALL, USUAL, LARGE], ids=["80", "120", "200"])
@pytest.mark.parametrize("tab", ["overview", "replicas", "logs", "metrics"])
def test_tabs(look: Callable[..., None], tab: str, size: tuple[int, int]) -> None:
    look(size, TABS[tab])


@pytest.mark.parametrize("tab", ["spec", "events"])
def test_still_tabs(look: Callable[..., None], tab: str) -> None:
    look(USUAL, TABS[tab])


def test_logs_light(look: Callable[..., None]) -> None:
    look(USUAL, TABS["logs"], theme=LIGHT)


def test_metrics_light(look: Callable[..., None]) -> None:
    look(USUAL, TABS["metrics"], theme=LIGHT)


def test_logs_in_sixteen_colours(look: Callable[..., None]) -> None:
    look(SMALL, (*TABS["logs"], "k", "k", "k"), theme="ansi16")


@pytest.mark.parametrize("tab", ["logs", "metrics", "replicas"])
def test_ascii(look: Callable[..., None], tab: str) -> None:
    look(SMALL, TABS[tab], ascii=True, backend=gapped() if tab == "logs" else None)


def test_a_search_with_a_marked_range_and_a_gap(look: Callable[..., None]) -> None:
    keys = ("slash", *"loss", "enter", "k", "k", "space", "k", "k")
    look(USUAL, (*TABS["logs"], *keys), backend=gapped())


def test_a_large_job(look: Callable[..., None]) -> None:
    look(USUAL, TABS["replicas"], backend=large())


def test_a_failed_job(look: Callable[..., None]) -> None:
    look(USUAL, TABS["overview"], backend=failed())


def test_an_unreachable_service(look: Callable[..., None]) -> None:
    look(SMALL, TABS["logs"], fail=Unavailable("nobody answers at test", fix="Is the network up?"))


def test_wrapped(look: Callable[..., None]) -> None:
    look(SMALL, (*TABS["logs"], "w", "J"))
