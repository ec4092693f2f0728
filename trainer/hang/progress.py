"""This process's heartbeat, for the training loop and for scripts; nothing without a supervisor."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from trainer.hang.heartbeat import FILE, TRAINING, RankHeartbeat

_own: RankHeartbeat | None = None


def connect() -> RankHeartbeat | None:
    """Map this process's heartbeat; None if no supervisor reads one."""
    global _own  # noqa: PLW0603 - of this process
    path = os.environ.get(FILE)
    if path and _own is None:
        with contextlib.suppress(OSError):
            _own = RankHeartbeat(Path(path))
    return _own


def tick(step: int) -> None:
    """A step has ended."""
    if _own is not None:
        _own.tick(step)


def beat() -> None:
    """A part of the present phase has ended, e.g. a batch of an evaluation."""
    if _own is not None:
        _own.beat()


def training(step: int) -> None:
    """A step has ended in a process that does not name its phases."""
    own = connect()
    if own is not None:
        if not own.phase:
            own.enter(TRAINING)
        own.tick(step)


@contextlib.contextmanager
def phase(name: str) -> Iterator[None]:
    """The time within is that of another phase: an evaluation, a save, the start."""
    if _own is None:
        yield
        return
    before = _own.phase
    _own.enter(name)
    try:
        yield
    finally:
        _own.enter(before)


def enter(name: str) -> None:
    """Another phase begins, until the next one."""
    if _own is not None:
        _own.enter(name)
