"""A row of the jobs list: a job at a point in time, with its usage and cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple, Protocol

from tui.domain.core.diagnosis import Diagnosis
from tui.domain.core.job import Job


@dataclass(frozen=True, slots=True)
class UsageTrend:
    """Shares from 0 to 1, the oldest first, `None` for times without a measurement. `latest` is the newest
    share; `simulated` is true if an emulator simulated any of them."""

    shares: tuple[float | None, ...] = ()
    latest: float | None = None
    simulated: bool = False


class KindWords(Protocol):
    """The words of a kind in a list."""

    @property
    def noun(self) -> str: ...
    @property
    def short(self) -> str: ...


@dataclass(slots=True, kw_only=True)
class JobSources:
    """Sources of a list's data besides the jobs themselves; all are absent by default."""

    words: Callable[[Job], KindWords] | None = None
    usage: Callable[[Job, str], UsageTrend] | None = None
    """Recent values of a metric."""
    cost: Callable[[Job, datetime], str] | None = None
    spent: Callable[[Job, datetime], float | None] | None = None
    """Cost so far in USD."""
    billed: Callable[[Job], bool] | None = None
    accelerators: Callable[[Job], Mapping[str, int]] | None = None
    """Accelerators of a job including its parts."""
    cost_json: Callable[[Job], Mapping[str, Any]] | None = None


NO_SOURCES = JobSources()


class JobRow(NamedTuple):
    """A job at a point in time, with the values that the list adds."""

    job: Job
    now: datetime
    sources: JobSources = NO_SOURCES
    diagnosis: Diagnosis | None = None
