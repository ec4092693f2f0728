"""Launches that were sent and have no reply yet. Before it quits, the console looks for their jobs."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from tui.domain.core.text import sentences

if TYPE_CHECKING:
    from tui.actions.operations.creation import SentLaunch
    from tui.actions.operations.runner import Outcome


class UnansweredLaunches:
    """The launches of this console that have no outcome yet."""

    def __init__(self) -> None:
        self._sent: dict[asyncio.Task[Outcome[Any]], SentLaunch] = {}
        self._settled: list[str] = []
        self.settling = False
        """Whether the console quits once the outcomes are known."""

    def __bool__(self) -> bool:
        return bool(self._sent)

    def add(self, launch: asyncio.Task[Outcome[Any]], sent: SentLaunch) -> None:
        """Add a launch that has sent its request."""
        self._sent[launch] = sent
        launch.add_done_callback(self._ended)

    def _ended(self, launch: asyncio.Task[Outcome[Any]]) -> None:
        # A launch that was cancelled for good has no outcome, although its job may exist.
        if not launch.cancelled():
            self._sent.pop(launch, None)

    @property
    def names(self) -> str:
        """The names of the launched jobs, as text."""
        return ", ".join(sent.name for sent in self._sent.values())

    async def settle(self) -> None:
        """Interrupt the launches. Each launch searches for its job for a few seconds at most."""
        launches = list(self._sent)
        for launch in launches:
            launch.cancel()
        await asyncio.wait(launches)
        self._settled += [
            _words(launch.result()) for launch in launches if not (launch.cancelled() or launch.exception())
        ]

    def parting_words(self) -> list[str]:
        """Return the outcome of each settled launch, and the check to make for a launch without an
        outcome."""
        unknown = [
            sentences(f"{sent.name} was sent, but no reply has come", sent.look_first)
            for sent in self._sent.values()
        ]
        return [*self._settled, *unknown]


def _words(outcome: Outcome[Any]) -> str:
    job = outcome.value
    after = (
        outcome.fix
        if job is None
        else (f"The job keeps running: {job.name}. `vxtui cancel {job.id}` ends it.")
    )
    return sentences(outcome.text, after)
