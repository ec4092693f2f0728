"""Quotas as a grid: a row per region and a column per accelerator, for standard or preemptible quotas."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from tui.domain.core.job import Job
from tui.domain.core.quota import UNLIMITED, Quota
from tui.domain.vertex import catalog
from tui.domain.vertex.quota_fit import places_of, taken_by

CPUS = "cpus"
STALE = timedelta(days=1)
"""Age above which a usage may be outdated, because the service writes it on a change and once a day."""
_STEMS = {False: "custom_model_training_", True: "custom_model_training_preemptible_"}


def words() -> dict[str, str]:
    """Return column titles by the metric's part for the hardware: accelerators, then CPUs."""
    return {**catalog.quota_words(), CPUS: "CPUs"}


def metric(word: str, *, preemptible: bool) -> str:
    """Return the metric of a column."""
    return _STEMS[preemptible] + word


@dataclass(frozen=True, slots=True)
class GridCell:
    """One metric in one region. `quota` is None if the service reports none."""

    region: str
    word: str
    quota: Quota | None
    offered: bool
    """Whether the documentation lists the hardware in the region, or its quota is above 0."""

    @property
    def text(self) -> str:
        """The cell as text: `24/32` for used and limit, `~24/32` for an estimated usage. `·` is a value that
        is not measured, `–` is missing hardware."""
        quota = self.quota
        if not self.offered:
            return "–"
        if quota is None or (quota.limit is None and quota.used is None):
            return "·"
        used = "·" if quota.used is None else "~" * quota.estimated + _figure(quota.used)
        if quota.limit == 0 and quota.used is None:
            # No job can run in this region.
            used = "0"
        limit = "·" if quota.limit is None else "∞" if quota.limit == UNLIMITED else _figure(quota.limit)
        return f"{used}/{limit}"

    @property
    def share(self) -> float | None:
        """Usage divided by limit; None if a value is unknown or there is no limit."""
        quota = self.quota
        if quota is None or quota.used is None or not quota.limit or quota.limit < 0:
            return None
        return quota.used / quota.limit

    def stale(self, now: datetime) -> timedelta | None:
        """Return the age of the usage if it is stale; otherwise None."""
        at = self.quota.used_at if self.quota is not None else None
        return now - at if at is not None and now - at > STALE else None


class Grid:
    """All cells of one kind of quota."""

    def __init__(self, quotas: Sequence[Quota], *, preemptible: bool) -> None:
        self.regions = tuple(dict.fromkeys(quota.region for quota in quotas))
        self.clusters = frozenset(quota.region for quota in quotas if quota.named)
        """Rows for a cluster or a namespace instead of a region of Vertex AI."""
        self._quotas: dict[tuple[str, str], Quota] = {}
        for quota in quotas:
            word = _word(quota, preemptible=preemptible)
            if word:
                known = self._quotas.get((quota.region, word))
                self._quotas[quota.region, word] = _sum(known, quota) if known else quota
        self.words = [word for word in words() if any(self.cell(r, word).offered for r in self.regions)]
        """The columns whose hardware exists in at least one region."""

    def cell(self, region: str, word: str) -> GridCell:
        """Return one cell."""
        quota = self._quotas.get((region, word))
        has = quota is not None and bool(quota.limit or quota.used)
        return GridCell(region, word, quota, has or word == CPUS or _documented(region, word))


def _word(quota: Quota, *, preemptible: bool) -> str:
    """Return the column of a quota, or "" if the quota is of another kind or has no hardware."""
    if quota.named:
        return quota.hardware if quota.preemptible == preemptible else ""
    name, stem = quota.metric.rpartition("/")[2], _STEMS[preemptible]
    return name.removeprefix(stem) if name.startswith(stem) else ""


def _sum(first: Quota, second: Quota) -> Quota:
    """Add the quotas of two node pools with the same hardware."""
    parts = ((first.limit, second.limit), (first.used, second.used))
    limit, used = (None if a is None or b is None else a + b for a, b in parts)
    return replace(first, limit=limit, used=used)


def _documented(region: str, word: str) -> bool:
    """Return whether the documentation lists the hardware in a region; a group's regions are
    `context/region`."""
    there = catalog.region_accelerators().get(region.rpartition("/")[2], ())
    return any(
        catalog.documented_name("", kind, 1) in there
        for kind in catalog.ACCELERATOR_SHORT
        if catalog.quota_word(kind) == word
    )


def users(jobs: Iterable[Job], region: str, metrics: Iterable[str]) -> list[tuple[Job, dict[str, int]]]:
    """Return the active jobs of a region that use some of these metrics, with amounts, the largest first."""
    chosen = set(metrics)
    usages = []
    for job in jobs:
        if region in places_of(job) and job.state.active:
            needed = {name: n for name, n in taken_by(job).items() if name in chosen}
            if needed:
                usages.append((job, needed))
    return sorted(usages, key=lambda pair: (-sum(pair[1].values()), pair[0].display_name))


def as_strategy(job: dict[str, object], strategy: str) -> dict[str, object]:
    """Return the CustomJob (REST format) with this scheduling strategy."""
    spec = dict(job.get("jobSpec") or {})  # type: ignore[call-overload]
    spec["scheduling"] = {**(spec.get("scheduling") or {}), "strategy": strategy}
    return {**job, "jobSpec": spec}


def _figure(value: int) -> str:
    return str(value) if value < 10_000 else f"{value / 1000:.3g}k"
