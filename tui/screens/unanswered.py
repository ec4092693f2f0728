"""Launches that were sent and have no reply yet: the console does not quit without a word about them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from tui.domain.text import sentences

if TYPE_CHECKING:
    from tui.actions.operations.creation import SentLaunch
    from tui.actions.operations.runner import Outcome


class UnansweredLaunches:
    """Those of this console, until each has its outcome."""

    def __init__(self) -> None:
        self._sent: dict[asyncio.Task[Outcome[Any]], SentLaunch] = {}

    def __bool__(self) -> bool:
        return bool(self._sent)

    def add(self, launch: asyncio.Task[Outcome[Any]], sent: SentLaunch) -> None:
        """`launch` has sent the request."""
        self._sent[launch] = sent
        launch.add_done_callback(self._ended)

    def _ended(self, launch: asyncio.Task[Outcome[Any]]) -> None:
        # A launch that was cancelled for good has no outcome: its job may exist.
        if not launch.cancelled():
            self._sent.pop(launch, None)

    @property
    def names(self) -> str:
        """Their jobs, in words."""
        return ", ".join(sent.name for sent in self._sent.values())

    async def settle(self) -> list[str]:
        """Interrupt them, and say of each what became of its job, a few seconds later at most."""
        launches = list(self._sent)
        for launch in launches:
            launch.cancel()
        await asyncio.wait(launches)
        return [
            _words(launch.result()) for launch in launches if not (launch.cancelled() or launch.exception())
        ]

    def words(self) -> list[str]:
        """What is left to say of those without an outcome."""
        return [
            sentences(f"{sent.name} was sent and no reply has come", sent.look_first)
            for sent in self._sent.values()
        ]


def _words(outcome: Outcome[Any]) -> str:
    job = outcome.value
    after = outcome.fix if job is None else f"It keeps running: {job.name}. `vxtui cancel {job.id}` ends it."
    return sentences(outcome.text, after)
