"""For every test of a screen: a press ends when its key has been handled, a pause when all is idle."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import pytest
from textual import pilot as textual_pilot
from textual.pilot import Pilot
from textual.screen import ModalScreen

from tui.display.app import DisplayApp
from tui.screens.containment import ContainingApp, ErrorBoundary

MAX_KEY_WAIT = 30.0
"""Seconds to wait for a key: one that stops the app is never handled."""
A_FRAME = 0.02
"""Timers that are due within so many seconds run before the loop counts as idle."""
IDLE_ROUNDS = 3


@pytest.fixture(autouse=True)
def _keys_are_handled(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Keys wait for each other; on a busy machine they do so longer than Textual's `press` waits."""
    press = Pilot.press

    async def pressed(self: Pilot[Any], *keys: str) -> None:
        await press(self, *keys)
        app = self.app
        if not isinstance(app, DisplayApp):
            return
        over = time.monotonic() + MAX_KEY_WAIT
        while app.key_in_progress and app.is_running and time.monotonic() < over:  # noqa: ASYNC110
            await asyncio.sleep(0.005)

    monkeypatch.setattr(Pilot, "press", pressed)
    yield


@pytest.fixture(autouse=True)
def _no_pane_fails(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The console contains the exception of a pane or dialog; in a test it is a failure like any other."""
    found: list[str] = []
    fail, close_failed = ErrorBoundary.fail, ContainingApp.close_failed

    def failing(self: ErrorBoundary, what: str, why: str) -> None:
        found.append(why)
        fail(self, what, why)

    def closing(self: ContainingApp, dialog: ModalScreen[Any], why: str) -> None:
        found.append(why)
        close_failed(self, dialog, why)

    monkeypatch.setattr(ErrorBoundary, "fail", failing)
    monkeypatch.setattr(ContainingApp, "close_failed", closing)
    yield
    assert not found, "\n".join(found)


@pytest.fixture(autouse=True)
def _a_pause_ends_when_the_loop_is_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Textual takes a process that uses no CPU for idle; on a busy machine it may only wait for its turn."""
    monkeypatch.setattr(textual_pilot, "wait_for_idle", wait_for_idle)


async def wait_for_idle(min_sleep: float = A_FRAME, max_sleep: float = 1.0) -> None:
    """Return when no callback is ready and no thread of the executor works, or after `max_sleep` seconds.

    It replaces `textual._wait.wait_for_idle`. What a test waits for over a longer timer or from another
    process needs `until`.
    """
    loop = asyncio.get_running_loop()
    over = time.monotonic() + max_sleep
    # The loop runs timers in the order in which they are due: all of the next frame come before this one.
    await asyncio.sleep(max(min_sleep, A_FRAME))
    idle = 0
    while idle < IDLE_ROUNDS and time.monotonic() < over:
        busy = threads_at_work(loop)
        await asyncio.sleep(0.002 if busy else 0)
        idle = 0 if busy or loop._ready else idle + 1  # type: ignore[attr-defined]


def threads_at_work(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether a thread of the loop's default executor runs or has work waiting."""
    executor = loop._default_executor  # type: ignore[attr-defined]
    if executor is None:
        return False
    idle = executor._idle_semaphore._value
    return bool(executor._work_queue.qsize()) or idle < len(executor._threads)
