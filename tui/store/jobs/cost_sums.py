"""Costs and accelerators of listed jobs, each counted once."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from tui.domain.core.job import Job
from tui.domain.core.states import AT_WORK
from tui.domain.jobs.tree import accelerators_at_work, children_of, own_part, own_parts, parents_of
from tui.domain.vertex import cost
from tui.domain.vertex.prices import Prices, Range


class JobCosts:
    """Costs of `jobs`, all jobs that were read, at the time `now`."""

    def __init__(self, jobs: Sequence[Job], prices: Prices, now: datetime) -> None:
        self._jobs = {job.name: job for job in jobs}
        self._children = children_of(parents_of(jobs))
        self._prices = prices
        self._now = now

    def of(self, job: Job) -> dict[str, Any]:
        """Return one job's `cost` in the documented format."""
        parts = own_parts(job, self._jobs, self._children)
        own = own_part(job, self._jobs, self._children)
        spent, unknown = cost.total(self._spent(part) for part in parts)
        return {
            "usd": None if parts and unknown == len(parts) else _range(spent),
            "own_usd": _range(self._spent(own)) if own is not None else _range(cost.ZERO),
            "unpriced": unknown,
        }

    def totals(self, jobs: Sequence[Job]) -> dict[str, Any]:
        """Return the `totals` of these jobs: the sum over each job's own part."""
        parts = (own_part(job, self._jobs, self._children) for job in jobs)
        own = [part for part in parts if part is not None]
        working = [part for part in own if part.state in AT_WORK and part.groups]
        hour, unpriced = cost.total(self._rate(part) for part in working)
        spent, unknown = cost.total(map(self._spent, own))
        return {
            "accelerators": accelerators_at_work(working),
            "usd_per_hour": _range(hour),
            "usd": _range(spent),
            "unpriced": max(unpriced, unknown),
            "persistent_resources": sorted({job.persistent_resource for job in working} - {""}),
            "prices_of": self._prices.date,
        }

    def _spent(self, part: Job) -> Range | None:
        return cost.spent(part, self._now, self._prices)

    def _rate(self, part: Job) -> Range | None:
        hour = cost.hourly(part, self._prices)
        return hour.times(part.running_tasks) if hour is not None and part.composite else hour


def _range(usd: Range | None) -> dict[str, float] | None:
    return None if usd is None else {"low": round(usd.low, 6), "high": round(usd.high, 6)}
