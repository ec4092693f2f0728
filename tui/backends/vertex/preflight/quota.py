"""Checks whether the region's quotas leave room for a job: limit minus usage of the exact metrics
(docs/facts/vertex.md 7)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from tui.backends.interface import ContextInfo
from tui.backends.vertex.quotas import VertexQuotas
from tui.domain.core.quota import UNLIMITED
from tui.domain.spec.custom_job_spec import within
from tui.domain.vertex.catalog import region_accelerators
from tui.domain.vertex.preflight import Check, CheckStatus, RunningJobs, ok, unknown
from tui.domain.vertex.quota_fit import Fit, Line, fits_in, needs, request_link, with_running

MOST_REGIONS = 5
"""Maximum number of regions named as alternatives. The quotas screen lists all regions."""


class QuotaCheck:
    """Reads the limits and the usage of every region concurrently."""

    def __init__(self, info: ContextInfo, quotas: VertexQuotas) -> None:
        self._info = info
        self._quotas = quotas

    async def check(self, job: Mapping[str, Any], region: str, running: RunningJobs) -> Sequence[Check]:
        """Check all metrics that the job uses. If a quota is too small, name regions with enough quota."""
        if within(job, "jobSpec", "persistentResourceId"):
            return [ok("quota", "runs on a persistent resource, which already holds the quota")]
        if not needs(job):
            return [unknown("quota", "the tasks' machines are known only when the tasks run")]
        others = sorted({*self._info.regions, *region_accelerators()} - {region, "-"})
        regions = [region, *sorted(others, key=lambda other: _distance(other, region))]
        now = datetime.now(UTC)
        quotas, jobs = await asyncio.gather(self._quotas.read(regions), running())
        here, *elsewhere = fits_in(job, regions, with_running(quotas, jobs, now))
        if here.status == "unknown":
            why = "A quota that was never used has no usage figure."
            return [unknown("quota", here.sentence, why)]
        if here.status == "fits":
            return [ok("quota", here.sentence if here.lines else "every quota suffices")]
        fitting = [fit.region for fit in elsewhere if fit.status == "fits"]
        likely = [fit.region for fit in elsewhere if fit.status == "unknown" and _limited(fit)]
        return [self._short(here, fitting or likely, sure=bool(fitting))]

    def _short(self, here: Fit, fitting: Sequence[str], *, sure: bool) -> Check:
        if fitting:
            rest = f" and {len(fitting) - MOST_REGIONS} more" if len(fitting) > MOST_REGIONS else ""
            fix = f"The job would fit in {', '.join(fitting[:MOST_REGIONS])}{rest}"
            fix += "." if sure else ", if nothing is used there: no usage is reported."
        elif here.short:
            fix = f"Ask for more: {request_link(self._info.project, here.short[0].metric, here.region)}"
        else:
            fix = "Use another accelerator."
        sentence = here.sentence
        if here.short:
            names = ", ".join(line.metric for line in here.short)
            sentence = f"{sentence} ({names} in {here.region})"
        # Other users may free quota while the job waits, but the limit itself does not change.
        stops = bool(here.hardware) or any(_over(line) for line in here.short)
        there = fitting[0] if fitting else ""
        return Check("quota", CheckStatus.PROBLEM, sentence, fix, region=there, stops=stops)


def _limited(fit: Fit) -> bool:
    """Return whether every limit is known and only the usage is missing."""
    return bool(fit.lines) and all(line.limit is not None for line in fit.lines)


def _over(line: Line) -> bool:
    return line.limit not in {None, UNLIMITED} and line.need > (line.limit or 0)


def _distance(region: str, other: str) -> tuple[bool, bool]:
    """Return a sort key of nearby regions: the same part of a continent, the same continent, any."""
    return (
        region.partition("-")[0] != other.partition("-")[0],
        region.rstrip("0123456789") != other.rstrip("0123456789"),
    )
