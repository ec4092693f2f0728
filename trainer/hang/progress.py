"""The heartbeat of this process, for the training loop and for scripts. Without a supervisor its functions do
nothing."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from trainer.hang.heartbeat import FILE, TRAINING, RankHeartbeat

_own: RankHeartbeat | None = None


def connect() -> RankHeartbeat | None:
    """Map this process's heartbeat; return None if no supervisor reads it."""
    global _own  # noqa: PLW0603 - of this process
    path = os.environ.get(FILE)
    if path and _own is None:
        with contextlib.suppress(OSError):
            _own = RankHeartbeat(Path(path))
    return _own


def tick(step: int) -> None:
    """Report that a step ended."""
    if _own is not None:
        _own.tick(step)


def beat() -> None:
    """Report that a part of the current phase ended, e.g. a batch of an evaluation."""
    if _own is not None:
        _own.beat()


def training(step: int) -> None:
    """Report a step of a process that does not name its phases."""
    own = connect()
    if own is not None:
        if not own.phase:
            own.enter(TRAINING)
        own.tick(step)


@contextlib.contextmanager
def phase(name: str) -> Iterator[None]:
    """Return a context for another phase: an evaluation, a save, the start."""
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
    """Enter another phase."""
    if _own is not None:
        _own.enter(name)
