"""Decides which log of a container to read next. The module does no I/O.

A container that ends may be restarted. Each start is a run, numbered by `restartCount`. The API returns the
log of the current run and, with `previous`, the log of the preceding run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from tui.backends.kubernetes.fields import mapping
from tui.backends.kubernetes.logs.lines.stamped import SECOND, stamp_of

SETTLED = 60 * SECOND
"""Time after the end of a run at which its log counts as complete: the clocks of nodes differ slightly."""


@dataclass(frozen=True, slots=True)
class ContainerState:
    """The state of one container from its pod's status. Times are in ns since the epoch."""

    run: int = 0
    """Number of the run whose log the API returns without `previous`."""
    running: bool = False
    ended: bool = False
    """Whether the run has ended."""
    previous: bool = False
    """Whether the API may also have the log of the previous run."""
    started: int | None = None
    finished: int | None = None
    """End time of the run."""
    previous_started: int | None = None
    waiting: str = ""
    """The reason why no run is starting, e.g. `ImagePullBackOff`."""

    @property
    def any_run(self) -> bool:
        """Whether the container has run."""
        return self.running or self.ended


def container_state(status: Mapping[str, Any] | None) -> ContainerState:
    """Return the state in a `containerStatuses` item. Without an item, nothing has run."""
    if status is None:
        return ContainerState()
    count = status.get("restartCount")
    run = count if isinstance(count, int) and count > 0 else 0
    state = mapping(status.get("state"))
    last = mapping(mapping(status.get("lastState")).get("terminated"))
    running, terminated = state.get("running"), state.get("terminated")
    if running is not None or terminated is not None:
        now = mapping(running if running is not None else terminated)
        return ContainerState(
            run,
            running=running is not None,
            ended=running is None,
            previous=bool(last) and run > 0,
            started=_time(now, "startedAt"),
            finished=_time(now, "finishedAt"),
            previous_started=_time(last, "startedAt"),
        )
    why = str(mapping(state.get("waiting")).get("reason") or "")
    # Between two runs the API has only the log of the last ended run.
    started, finished = _time(last, "startedAt"), _time(last, "finishedAt")
    return ContainerState(run, ended=bool(last), started=started, finished=finished, waiting=why)


class Want(Enum):
    """The next action for a container's log."""

    WAIT = auto()
    """Nothing has run, or all runs have been read."""
    CURRENT = auto()
    PREVIOUS = auto()
    LOST = auto()
    """The log of the next run is lost."""


def want(run: int, state: ContainerState) -> Want:
    """Return the next action. `run` is the first run that was not read completely."""
    if not state.any_run or run > state.run:
        return Want.WAIT
    if run == state.run:
        return Want.CURRENT
    return Want.PREVIOUS if state.previous and run == state.run - 1 else Want.LOST


def first_run(state: ContainerState, since: int | None) -> int:
    """Return the first run that may have lines of `since` (ns) or later."""
    if since is None:
        return 0
    if state.ended and state.finished is not None and state.finished <= since - SETTLED:
        return state.run + 1
    # Start times have a resolution of one second.
    if state.started is not None and state.started <= since - SECOND:
        return state.run
    if state.previous and state.previous_started is not None and state.previous_started <= since - SECOND:
        return state.run - 1
    return 0


def next_readable(state: ContainerState) -> int:
    """Return the oldest run whose log the API has."""
    return state.run - 1 if state.previous else state.run


def _time(state: Mapping[str, Any], field: str) -> int | None:
    return stamp_of(str(state.get(field) or "")) or None
