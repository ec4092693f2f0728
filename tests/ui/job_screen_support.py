"""What several tests share with test_job_screen."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from textual.pilot import Pilot

from tests.ui.double import console, job
from tests.ui.job_double import JobBackend, a_log, no_gpu, waves
from tests.ui.jobs_screen_support import until
from tui.app import VxtuiApp
from tui.domain.core.job import Job
from tui.screens.job.pane import JobPane
from tui.screens.job.screen import JobScreen
from tui.widgets.header_lines import HeaderLines
from tui.widgets.key_footer import KeyFooter

SPEC = {
    "displayName": "local-2node",
    "jobSpec": {
        "workerPoolSpecs": [
            {
                "containerSpec": {
                    "imageUri": "img:1",
                    "env": [
                        {"name": "WANDB_API_KEY", "value": "topsecret"},
                        {"name": "EPOCHS", "value": "3"},
                    ],
                }
            }
        ]
    },
}


def backend_of(*jobs: Job, log: bool = True, gpus: int = 0) -> JobBackend:
    made = jobs or (job(7, "local-2node", age=12, labels={"team": "nlp", "vxtui-launch": "a1b2"}),)
    backend = JobBackend(*made)
    if log:
        backend.say(*a_log())
    backend.series = waves([r.id for r in made[0].replicas], gpus=gpus)
    backend.not_measured = [] if gpus else no_gpu()
    backend.spec = SPEC
    return backend


@asynccontextmanager
async def opened(
    backend: JobBackend, where: Path, *, size: tuple[int, int] = (120, 40), ready: bool = True, **more: Any
) -> AsyncIterator[tuple[JobScreen, Pilot[Any]]]:
    app: VxtuiApp = console(backend, where, **more)
    name = next(iter(backend.stored))
    async with app.run_test(size=size) as pilot:
        await until(pilot, lambda: name in app.store.jobs, "the list")
        app.open_job(name)
        await until(pilot, lambda: isinstance(app.screen, JobScreen) and app.screen.is_mounted, "the screen")
        screen = app.screen
        assert isinstance(screen, JobScreen)
        if ready:
            await settled(screen, pilot, backend)
        yield screen, pilot


async def settled(screen: JobScreen, pilot: Pilot[Any], backend: JobBackend) -> None:
    feed = screen.feed
    await until(
        pilot,
        lambda: (
            len(feed.buffer) >= len(backend.entries) + len(backend.gaps)
            and feed.sources["metrics"].read_at
            and feed.sources["steps"].done
        ),
        "everything read",
    )
    await pilot.pause()


async def tab(screen: JobScreen, pilot: Pilot[Any], kind: type[JobPane]) -> Any:
    for _ in screen.panes:
        if isinstance(screen.pane, kind):
            break
        await pilot.press("right_square_bracket")
        await pilot.pause()
    assert isinstance(screen.pane, kind)
    await pilot.pause()
    return screen.pane


def header(screen: JobScreen) -> str:
    return screen.query_one(HeaderLines).render().plain


def footer(screen: JobScreen) -> str:
    return screen.query_one(KeyFooter).render().plain


def text_of(pane: JobPane | JobScreen, selector: str) -> str:
    return str(pane.query_one(selector).render())
