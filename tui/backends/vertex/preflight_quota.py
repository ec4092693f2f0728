"""Whether the region's quotas leave room for a job: limit − usage for the exact metrics (vertex facts 7)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from tui.backends.base import ContextInfo
from tui.backends.vertex.quotas import Quotas
from tui.domain.catalog import documented_name, quota_metrics, region_accelerators
from tui.domain.preflight import Check, Verdict, ok, unknown
from tui.domain.quota import UNLIMITED, Quota
from tui.domain.spec import machine_of, whole, within

REQUEST = "https://console.cloud.google.com/iam-admin/quotas"


class QuotaCheck:
    """Asks the limits and the usage of every region at once."""

    def __init__(self, info: ContextInfo, quotas: Quotas) -> None:
        self._info = info
        self._quotas = quotas

    async def look(self, job: Mapping[str, Any], region: str) -> Sequence[Check]:
        """One verdict over all metrics that the job takes."""
        needs = _needs(job)
        if within(job, "jobSpec", "persistentResourceId"):
            return [ok("quota", "runs on a persistent resource, which holds its quota already")]
        if not needs:
            return [unknown("quota", "the metrics that these machines take are not known")]
        regions = list(dict.fromkeys([region, *self._info.regions, *region_accelerators()]))
        found = {(q.region, q.metric): q for q in await self._quotas.read(regions)}
        short = [line for metric, need in needs.items() if (line := _short(found, region, metric, need))]
        if not short:
            said = [_room(found.get((region, metric)), metric) for metric in needs]
            return [ok("quota", " · ".join(said))]
        pools = within(job, "jobSpec", "workerPoolSpecs") or []
        kinds = {documented_name(*machine_of(pool)) for pool in pools} - {""}
        fits = [
            other
            for other in sorted(regions, key=lambda r: _distance(r, region))
            if other != region
            and kinds <= set(region_accelerators().get(other, ()))
            and not any(_short(found, other, metric, need) for metric, need in needs.items())
        ]
        fix = f"It would fit in {', '.join(fits[:5])}." if fits else f"Ask for more: {REQUEST}"
        # What others hold may come free while the job waits; what is over the limit never will.
        stops = any(_over(found.get((region, metric)), need) for metric, need in needs.items())
        there = fits[0] if fits else ""
        return [Check("quota", Verdict.PROBLEM, "; ".join(short), fix, region=there, stops=stops)]


def _needs(job: Mapping[str, Any]) -> dict[str, int]:
    strategy = str(within(job, "jobSpec", "scheduling", "strategy") or "")
    total: Counter[str] = Counter()
    for pool in within(job, "jobSpec", "workerPoolSpecs") or []:
        if pool:
            taken = quota_metrics(*machine_of(pool), preemptible=strategy in {"SPOT", "FLEX_START"})
            for metric, amount in taken.items():
                total[metric] += amount * (whole(pool.get("replicaCount")) or 1)
    return dict(total)


def _distance(one: str, other: str) -> tuple[bool, bool]:
    """Nearer ones first: the same part of the same continent, the same continent, any."""
    return (
        one.partition("-")[0] != other.partition("-")[0],
        one.rstrip("0123456789") != other.rstrip("0123456789"),
    )


def _short(found: Mapping[tuple[str, str], Quota], region: str, metric: str, need: int) -> str:
    """What is lacking in a region, "" for nothing."""
    quota = found.get((region, metric))
    if quota is None or quota.limit is None or quota.limit == UNLIMITED:
        return ""
    used = quota.used or 0
    if used + need <= quota.limit:
        return ""
    lack = used + need - quota.limit
    return f"{metric} is short by {lack} in {region}: needs {need}, {quota.limit} − {used} used"


def _over(quota: Quota | None, need: int) -> bool:
    return quota is not None and quota.limit not in {None, UNLIMITED} and need > (quota.limit or 0)


def _room(quota: Quota | None, metric: str) -> str:
    name = metric.removeprefix("custom_model_training_").replace("_", " ")
    if quota is None or quota.limit is None:
        return f"{name}: limit not known"
    if quota.limit == UNLIMITED:
        return f"{name}: unlimited"
    return f"{name}: {quota.limit - (quota.used or 0)} of {quota.limit} free"
