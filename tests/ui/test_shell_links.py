"""Shells and links where the service can't run commands: the browser's address, or how to get one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from tests.ui.double import console, job
from tests.ui.job_double import JobBackend
from tests.ui.job_screen_support import opened, tab
from tests.ui.job_screen_support import text_of as text_in
from tests.ui.jobs_screen_support import until
from tests.ui.tuning_job_support import backend as sweep_backend
from tests.ui.tuning_job_support import on_trials
from tui.domain.core.job import Job
from tui.domain.core.states import JobState
from tui.screens.dialogs.message import MessageScreen
from tui.screens.dialogs.pick import PickScreen
from tui.screens.job.replicas import ReplicasPane
from tui.screens.job.screen import JobScreen

SHELL = "https://abc-dot-us-central1.aiplatform-training.googleusercontent.com/"


@pytest.fixture(autouse=True)
def without_a_browser(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "WSL_DISTRO_NAME"):
        monkeypatch.delenv(name, raising=False)


def one(state: JobState = JobState.RUNNING, **uris: str) -> Job:
    return replace(
        job(9, "two-nodes", state), web_access_uris={k.replace("_", "-"): v for k, v in uris.items()}
    )


def said(screen: JobScreen) -> str:
    """The toasts."""
    return "\n".join(str(each.message) for each in screen.app._notifications)


async def text_of(pilot: Pilot[Any], screen: JobScreen) -> str:
    """The message that a key has opened."""
    await until(pilot, lambda: isinstance(screen.app.screen, MessageScreen), "the message")
    shown = screen.app.screen
    assert isinstance(shown, MessageScreen)
    return f"{shown._title}\n{shown._text}"


async def on_worker(backend: JobBackend, tmp_path: Path, pilot: Pilot[Any], screen: JobScreen) -> None:
    pane = await tab(screen, pilot, ReplicasPane)
    await until(pilot, lambda: pane.tree_view.keys, "the replicas")
    pane.tree_view.move_to("workerpool1-0")
    assert pane.replica == "workerpool1-0"


async def test_the_address_of_a_shell_is_shown(tmp_path: Path) -> None:
    backend = JobBackend(one(workerpool0_0=f"{SHELL}0", workerpool1_0=f"{SHELL}1"), local=False)
    async with opened(backend, tmp_path, size=(120, 40)) as (screen, pilot):
        await on_worker(backend, tmp_path, pilot, screen)
        await pilot.press("x")
        text = await text_of(pilot, screen)
        assert f"{SHELL}1" in text and f"{SHELL}0" not in text
        assert "Shell in workerpool1-0 of two-nodes" in text and "can't run commands" in text


async def test_it_says_how_to_get_a_shell(tmp_path: Path) -> None:
    backend = JobBackend(one(), local=False)
    async with opened(backend, tmp_path, size=(80, 24)) as (screen, pilot):
        await on_worker(backend, tmp_path, pilot, screen)
        await pilot.press("x")
        text = await text_of(pilot, screen)
        assert "workerpool1-0 has none" in text
        assert "enableWebAccess: true" in text and "iam.serviceAccounts.actAs" in text


@pytest.mark.parametrize(
    ("state", "why"), [(JobState.FAILED, "failed already"), (JobState.QUEUED, "has not started yet")]
)
async def test_a_shell_needs_a_running_replica(tmp_path: Path, state: JobState, why: str) -> None:
    async with opened(JobBackend(one(state), local=False), tmp_path) as (screen, pilot):
        await on_worker(JobBackend(), tmp_path, pilot, screen)
        assert "replicas.shell" not in [found.id for found in screen.footer_actions()]
        await pilot.press("x")
        await until(
            pilot, lambda: any(why in str(n.message) for n in screen.app._notifications), "the reason"
        )


async def test_the_links_of_a_running_job(tmp_path: Path) -> None:
    backend = JobBackend(one(workerpool0_0=f"{SHELL}0", **{"workerpool0_0:8888": f"{SHELL}d"}), local=False)
    async with opened(backend, tmp_path, size=(120, 40)) as (screen, pilot):
        await until(pilot, lambda: screen.job is not None, "the job")
        shown = text_in(screen.pane, "#facts").split()
        assert shown[shown.index("shell") + 1 :][:2] == ["0-0", f"{SHELL}0"]
        assert shown[shown.index("dashboard") + 1 :][:2] == ["0-0", f"{SHELL}d"]
        await pilot.press("o")
        await until(pilot, lambda: isinstance(screen.app.screen, PickScreen), "the choice")
        await pilot.press(*"dashboard", "enter")
        text = await text_of(pilot, screen)
        assert "dashboard workerpool0-0 (port 8888)" in text and f"{SHELL}d" in text


async def test_a_job_of_this_machine_has_no_page(tmp_path: Path) -> None:
    backend = JobBackend(one(workerpool0_0="vxtui://shell/9/workerpool0-0"))
    async with opened(backend, tmp_path, size=(120, 40)) as (screen, pilot):
        await until(pilot, lambda: screen.job is not None, "the job")
        await pilot.press("o")
        await until(pilot, lambda: "no page" in said(screen), "the reason")


async def test_tensorboard_says_what_a_job_lacks(tmp_path: Path) -> None:
    backend = JobBackend(one(), local=False)
    backend.spec = {"jobSpec": {"workerPoolSpecs": []}}
    async with opened(backend, tmp_path, size=(120, 40)) as (screen, pilot):
        await pilot.press("colon", *"tensorboard two-nodes", "enter")
        await until(pilot, lambda: "baseOutputDirectory" in said(screen), "the reason")


@pytest.mark.parametrize(
    ("state", "why"), [(JobState.FAILED, "failed already"), (JobState.RUNNING, "A shell in which replica")]
)
async def test_a_shell_is_asked_for_on_the_overview_too(tmp_path: Path, state: JobState, why: str) -> None:
    async with opened(JobBackend(one(state), local=False), tmp_path, size=(120, 40)) as (screen, pilot):
        await until(pilot, lambda: screen.job is not None, "the job")
        assert screen.pane is screen.panes["overview"]
        await pilot.press("x")
        await until(
            pilot,
            lambda: why in said(screen) or why in str(getattr(screen.app.screen, "_title", "")),
            "the answer",
        )


async def test_a_shell_on_the_trials_is_that_of_the_trial(tmp_path: Path) -> None:
    app = console(sweep_backend(), tmp_path)
    async with app.run_test(size=(120, 40)) as pilot:
        pane = await on_trials(pilot, app)
        screen = app.screen
        assert isinstance(screen, JobScreen)
        pane.table_view.move_to("4")
        await pilot.press("x")
        await until(pilot, lambda: "sweep-trial-4 succeeded already" in said(screen), "the reason")
        pane.table_view.move_to("5")
        await pilot.press("x")
        await until(pilot, lambda: isinstance(app.screen, PickScreen), "the choice")
        assert "sweep-trial-5" in app.screen._title  # type: ignore[attr-defined]
        await pilot.press("escape", "left_square_bracket", "x")
        await until(pilot, lambda: "has no replicas" in said(screen), "the reason")
