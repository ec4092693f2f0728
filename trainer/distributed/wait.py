"""Collective waits that end on all ranks when any rank receives a signal."""

from __future__ import annotations

import time
from collections.abc import Callable

from trainer.distributed.process_group import ProcessGroup

_FIRST_PAUSE, _LONGEST_PAUSE = 0.005, 0.1


class StoppedBySignal(Exception):
    """A signal ended a wait of all ranks; every rank raises it."""

    def __init__(self, number: int) -> None:
        super().__init__(f"signal {number}")
        self.number = number


def wait_together(group: ProcessGroup, done: Callable[[], bool], received: Callable[[], int]) -> None:
    """Wait until `done` returns true on every rank. The call is collective, and `done` must neither block nor
    raise.

    `received` returns the signal that this rank received, or 0 if there is none.

    Raises:
        StoppedBySignal: on every rank, after a signal at any rank.
    """
    pause = _FIRST_PAUSE
    while True:
        answers = group.all_gather((done(), received()))
        number = next((number for _, number in answers if number), 0)
        if number:
            raise StoppedBySignal(number)
        if all(ready for ready, _ in answers):
            return
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)
