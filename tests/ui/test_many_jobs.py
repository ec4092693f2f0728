"""Operations on several jobs at once, and what they cost together."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.ui.double import MemoryBackend, job
from tests.ui.jobs_screen_support import lines, opened, until
from tests.ui.many_jobs_support import toasts
from tui.app import VxtuiApp
from tui.config.settings import Context
from tui.domain.core.states import JobState
from tui.screens.dialogs.confirm import ConfirmScreen

ENDED = [job(number, "tiny", JobState.SUCCEEDED, age=90 + number) for number in range(3)]


def details(app: VxtuiApp) -> list[str]:
    return str(app.screen.query_one("#details Static").content).splitlines()  # type: ignore[attr-defined]


async def test_several_deletions_are_told_once_and_names_that_repeat_have_their_ids(tmp_path: Path) -> None:
    backend = MemoryBackend([*ENDED, job(7, "other", JobState.FAILED, age=99)])
    async with opened(backend, tmp_path) as (app, pilot):
        await pilot.press("asterisk", "D")
        await until(pilot, lambda: isinstance(app.screen, ConfirmScreen), "the question")
        named = [line.split("   ")[:-1] for line in details(app)]
        assert named == [["tiny", "0"], ["tiny", "1"], ["tiny", "2"], ["other"]]
        await pilot.press("y")
        await until(pilot, lambda: toasts(app), "the message")
        assert toasts(app) == ["Deleted 4 jobs"] and len(backend.deleted) == 4


async def test_the_message_about_several_names_those_that_failed(tmp_path: Path) -> None:
    backend = MemoryBackend(ENDED)
    async with opened(backend, tmp_path) as (app, pilot):
        await pilot.press("asterisk", "D")
        await until(pilot, lambda: isinstance(app.screen, ConfirmScreen), "the question")
        del backend.stored[ENDED[1].name]
        await pilot.press("y")
        await until(pilot, lambda: toasts(app), "the message")
        assert toasts(app) == ["✗ Deleted 2 of 3 jobs: tiny 1: tiny was already deleted."]


async def test_jobs_of_one_name_and_id_are_told_apart_by_their_region(tmp_path: Path) -> None:
    regions = ("us-central1", "europe-west4")
    backend = MemoryBackend([job(1, "tiny", region=region) for region in regions], regions=regions)
    async with opened(backend, tmp_path) as (app, pilot):
        await until(pilot, lambda: len(app.store.jobs) == 2, "the jobs")
        await pilot.press("asterisk", "c")
        await until(pilot, lambda: isinstance(app.screen, ConfirmScreen), "the question")
        assert {line.split("   ")[2] for line in details(app)} == {f"test/{region}" for region in regions}
        await pilot.press("y")
        await until(pilot, lambda: "2 jobs cancelled: tiny" in toasts(app), "the message")


@pytest.mark.parametrize(
    ("kinds", "words"),
    [
        (("local", "local"), "2 running   would cost ~$0.98/h"),
        (("local", "vertex"), "2 running   ~$0.49/h   "),
        (("vertex", "vertex"), "2 running   ~$0.98/h   "),
    ],
    ids=["all local", "one local", "none local"],
)
async def test_what_runs_on_this_machine_is_not_counted_as_real_money(
    tmp_path: Path, kinds: tuple[Any, Any], words: str
) -> None:
    one, two = (
        Context(name, kind=kind, project="p") for name, kind in zip(("one", "two"), kinds, strict=True)
    )
    group = Context("all", kind="group", members=["one", "two"])
    backend = MemoryBackend([replace(job(1, "a"), context="one"), replace(job(2, "b"), context="two")])
    async with opened(backend, tmp_path, context=group, contexts=[one, two, group]) as (app, pilot):
        await until(pilot, lambda: "2 running" in lines(app), "the jobs")
        assert words in lines(app)
