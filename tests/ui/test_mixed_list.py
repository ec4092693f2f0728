"""Every key on jobs of both emulators, 500 each in one list, over the wire: it acts, or it says why not."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.shell import Home
from tests.ui.double import Clock, MemoryBackend, console
from tests.ui.key_presses import MOVES, Keys
from tests.ui.mixed_list import CLUSTER_KINDS, EACH, ENDED, HELD, RUNS, VERTEX_KINDS, mixed_list
from tests.waiting import until
from tui.actions.registry import Action, actions
from tui.backends.factory import open_backend
from tui.config.settings import ALL, Settings, all_contexts, choose_context
from tui.domain.core.job import Job
from tui.domain.core.states import JobState
from tui.screens.dialogs.confirm import ConfirmScreen
from tui.screens.job.screen import JobScreen

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("mixed_list")]
SIZE = (120, 40)
ANSWER = 20.0
"""Longest wait (s) for what follows from a key that asks a server."""
LEAST = 2 * EACH - 2 * len(CLUSTER_KINDS)
"""Jobs in the list: each kind's changes delete two."""
KINDS = VERTEX_KINDS | CLUSTER_KINDS
STATES = {RUNS: JobState.RUNNING, ENDED: None, HELD: JobState.SUSPENDED}


@pytest.fixture(scope="module")
def place() -> Iterator[Home]:
    with mixed_list() as found:
        yield found


@asynccontextmanager
async def opened(place: Home, where: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Keys]:
    """The console on both; its clock stands still, so that nothing but a key changes what is shown."""
    monkeypatch.setenv("VXTUI_STATE_DIR", str(place.root / "s"))
    clock, settings = Clock(), Settings()
    clock.time = datetime.now(UTC)
    context = choose_context(settings, ALL)
    app = console(
        MemoryBackend(), where, settings=settings, context=context, contexts=all_contexts(settings),
        clock=clock, opener=open_backend,
    )  # fmt: skip
    async with app.run_test(size=SIZE, notifications=True) as pilot:
        await until(lambda: app.live and len(app.store.jobs) >= LEAST, "the jobs")
        await until(lambda: len(app.screen.query_one("JobTable").keys) >= LEAST - 20, "the rows")  # type: ignore[attr-defined]
        yield LiveKeys(app, pilot)


def keys(scope: str) -> list[tuple[Action, str]]:
    """The actions of a scope, each with its first key; moves within a widget are left out."""
    found = [each for each in actions(scope) if each.key and not each.direct and each.method not in MOVES]
    return [(each, each.key.split(",")[0]) for each in found]


class LiveKeys(Keys):
    """Keys of a console that reads from servers: an answer takes its time."""

    async def idle(self) -> None:
        # The loop is never idle while streams are read.
        await asyncio.sleep(0.05)

    async def press(self, key: str) -> list[str]:
        """The same; where nothing follows at once, what comes with the answer of a server."""
        await self._still()
        before = self._seen()
        found = await super().press(key)
        end = time.monotonic() + ANSWER
        while not found and time.monotonic() < end:
            await self.idle()
            found = self._followed(before)
        return found

    async def _still(self) -> None:
        """Return when the picture does not change by itself any more."""
        before, now = None, self._frame()
        while before != now:
            await self.idle()
            before, now = now, self._frame()


async def press(found: Keys, each: Action, key: str, silent: list[str], where: str) -> None:
    if not await found.press(key):
        silent.append(f"{key} ({each.id}) {where}")


@pytest.mark.parametrize("kind", KINDS)
async def test_every_key(kind: str, place: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    silent: list[str] = []
    async with opened(place, tmp_path, monkeypatch) as found:
        jobs = {job.display_name: job for job in found.app.store.jobs.values()}
        for last in STATES if kind in CLUSTER_KINDS else (RUNS, ENDED):
            job = jobs[f"{KINDS[kind]}-{last}"]
            assert (job.kind == kind and job.state in {STATES[last]}) or job.state.terminal
            await keys_of_the_list(found, job, silent)
            await keys_of_its_screen(found, job, silent)
        assert not found.app._exception
    assert not silent, "\n".join(silent)


async def keys_of_the_list(found: Keys, job: Job, silent: list[str]) -> None:
    screen = found.list
    for each, key in keys("jobs"):
        screen.table.move_to(job.name)
        await press(found, each, key, silent, f"on {job.display_name} in the list")
        await found.back_to_list(screen)


async def keys_of_its_screen(found: Keys, job: Job, silent: list[str]) -> None:
    back = found.list
    screen = await found.open(job.name)
    assert isinstance(screen, JobScreen)
    for tab, pane in screen.panes.items():
        scopes = ["job", screen.kind.scope] if tab == "overview" else [pane.SCOPE]
        if tab == "tasks":
            scopes.append("job")
        screen._tab(tab)
        await found.idle()
        for scope in scopes:
            for each, key in keys(scope):
                await press(found, each, key, silent, f"on {job.display_name} in {tab}")
                await found.back_to_tab(screen, tab)
    await found.back_to(back)


@pytest.mark.parametrize("kind", CLUSTER_KINDS)
async def test_a_change_is_seen_in_the_list(
    kind: str, place: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Suspended, resumed, cancelled and deleted, each by its key and a yes."""
    async with opened(place, tmp_path, monkeypatch) as found:
        store = found.app.store
        names = {job.display_name: job.name for job in store.jobs.values()}
        runs, ended = (names[f"{CLUSTER_KINDS[kind]}-{last}"] for last in (RUNS, ENDED))
        back = found.list
        screen = await found.open(runs)
        for key, state in (("X", JobState.SUSPENDED), ("U", JobState.RUNNING)):
            await confirm(found, key)

            def seen(state: JobState = state) -> bool:
                return screen.job is not None and {screen.job.state, store.jobs[runs].state} == {state}

            await until(seen, f"{key} to be done")
        await found.back_to(back)
        for key, name in (("c", runs), ("D", ended), ("D", runs)):
            back.table.move_to(name)
            await confirm(found, key)
            if key == "D":
                await until(lambda name=name: name not in store.jobs, f"{name} to be deleted")
            else:
                await until(lambda: store.jobs[runs].state is JobState.SUSPENDED, "the cancel")


async def confirm(found: Keys, key: str) -> None:
    """Press a key that asks, and say yes."""
    await found.press(key)
    assert isinstance(found.app.screen, ConfirmScreen), f"{key} does not ask"
    await found.press("y")
