"""The fit of a job into the quotas, the shortage, and the regions with room (docs/facts/vertex.md 7). Without
a usage value the room is "at most" the limit, with the status `unknown`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Literal
from urllib.parse import urlencode

from tui.domain.core.job import Job
from tui.domain.core.quota import UNLIMITED, Quota
from tui.domain.spec.custom_job_spec import machine_of, trials_of, whole, within
from tui.domain.spec.spec_format import custom_jobs
from tui.domain.vertex import catalog

FitStatus = Literal["fits", "short", "unknown"]
PREEMPTIBLE = frozenset({"SPOT", "LOW_COST", "FLEX_START"})
"""Strategies that use the preemptible quotas (docs/facts/vertex.md 7.1)."""
DISK_GB = 100
"""Default size of a replica's boot disk in GB, for the SSD quota (docs/facts/vertex.md 7.5)."""
SSD = "custom_model_training_pd_ssd"
ESTIMATED = "usage estimated from running jobs"
_STEM = re.compile(r"^(?:.*/)?custom_model_training_(?P<spot>preemptible_)?")
_REQUEST = "https://console.cloud.google.com/iam-admin/quotas"


@dataclass(frozen=True, slots=True)
class Line:
    """One quota metric of a job, with its quota in the region."""

    metric: str
    need: int
    quota: Quota

    @property
    def name(self) -> str:
        """Short name of the metric: `preemptible A100`, `CPUs`."""
        return short_name(self.metric)

    @property
    def limit(self) -> int | None:
        """The limit; -1 for unlimited, None if unknown."""
        return self.quota.limit

    @property
    def used(self) -> int | None:
        """The used amount; None if the service reports no usage."""
        return self.quota.used

    @property
    def free(self) -> int | None:
        """The smallest possible free amount; None if unlimited or unknown."""
        return self.quota.free

    @property
    def short_by(self) -> int:
        """The certain shortage; 0 with enough room or an unknown usage."""
        if self.limit is None or self.limit == UNLIMITED:
            return 0
        room = self.limit - (self.used or 0)
        return max(0, self.need - max(0, room))

    @property
    def status(self) -> FitStatus:
        """Status of only this metric."""
        if self.limit == UNLIMITED:
            return "fits"
        if self.short_by:
            return "short"
        return "unknown" if self.limit is None or self.used is None else "fits"

    @property
    def sentence(self) -> str:
        """The metric as a sentence: `preemptible A100: needs 32, 16 free of 16, short 16`."""
        head = f"{self.name}: needs {self.need:,}"
        if self.limit is None:
            return f"{head}, limit unknown"
        if self.limit == UNLIMITED:
            return f"{head}, unlimited"
        if self.used is None:
            room = f"at most {self.limit:,} free (usage is not reported)"
        else:
            room = f"{self.free:,} free of {self.limit:,}"
        own = f" ({ESTIMATED})" if self.quota.estimated else ""
        lack = f", short {self.short_by:,}" if self.short_by else ""
        return f"{head}, {room}{own}{lack}"


@dataclass(frozen=True, slots=True)
class Fit:
    """The fit of a job into a region. `hardware` is the hardware that the region lacks, or ""."""

    region: str
    status: FitStatus
    lines: tuple[Line, ...] = ()
    hardware: str = ""

    @property
    def short(self) -> tuple[Line, ...]:
        """The metrics with too little quota."""
        return tuple(line for line in self.lines if line.short_by)

    @property
    def sentence(self) -> str:
        """The shortages; without a shortage, the metrics whose quota is unknown, or otherwise all metrics."""
        if self.hardware:
            return f"no {self.hardware} in {self.region}"
        if not self.lines:
            return "the quotas for these machines are unknown"
        shown = self.short or [line for line in self.lines if line.status == "unknown"] or self.lines
        return "; ".join(line.sentence for line in shown)

    @property
    def brief(self) -> str:
        """The fit in a cell: `✓`, `✗ short 8 A100`, `? A100 at most 8 free`."""
        if self.hardware:
            return f"✗ no {self.hardware} here"
        if self.status == "fits":
            return "✓"
        if self.short:
            worst = max(self.short, key=lambda line: line.short_by / max(1, line.need))
            return f"✗ short {worst.short_by:,} {_plain_name(worst.metric)}"
        return "? not measured"


def needs(job: Mapping[str, Any]) -> dict[str, int]:
    """Return the training quota metrics (without the service's prefix) that a CustomJob in REST format uses.
    All pools count, including reducers: accelerators, CPUs if the metric's name is known, SSD in GB. A job on
    a persistent resource uses no quota. For several tasks the result is the largest need of one task, because
    the number of concurrent tasks is unknown."""
    amounts: dict[str, int] = {}
    for known in custom_jobs(job):
        for metric, amount in _needs_of_one(known.job).items():
            amounts[metric] = max(amount, amounts.get(metric, 0))
    return amounts


def _needs_of_one(job: Mapping[str, Any]) -> dict[str, int]:
    if within(job, "jobSpec", "persistentResourceId"):
        return {}
    strategy = str(within(job, "jobSpec", "scheduling", "strategy") or "")
    total: Counter[str] = Counter()
    for pool in within(job, "jobSpec", "workerPoolSpecs") or []:
        if not pool or not isinstance(pool, Mapping):
            continue
        replicas = max(0, whole(pool.get("replicaCount")) or 1)
        metrics = catalog.quota_metrics(*machine_of(pool), preemptible=strategy in PREEMPTIBLE)
        for metric, amount in metrics.items():
            total[metric] += amount * replicas
        disk = pool.get("diskSpec") or {}
        if (disk.get("bootDiskType") or "pd-ssd") == "pd-ssd":
            total[SSD] += max(0, whole(disk.get("bootDiskSizeGb")) or DISK_GB) * replicas
    _, parallel = trials_of(job)
    return {metric: amount * parallel for metric, amount in total.items()}


def taken_by(job: Job) -> dict[str, int]:
    """Return the metrics that a listed job uses, without boot disks, which lists do not contain. A job on a
    persistent resource uses no quota itself, because the resource uses it."""
    total: Counter[str] = Counter()
    for pool in job.groups if job.runs_itself and not job.persistent_resource else ():
        metrics = catalog.quota_metrics(
            pool.machine_type,
            pool.accelerator_type,
            pool.accelerator_count,
            preemptible=job.strategy in PREEMPTIBLE,
        )
        for metric, amount in metrics.items():
            total[metric] += amount * pool.replicas
    return dict(total)


def with_running(quotas: Iterable[Quota], jobs: Iterable[Job], at: datetime | None) -> list[Quota]:
    """Return the quotas with the usage by `jobs`, read `at`, if it exceeds the reported usage.

    The service reports the usage minutes late. Every statement about a quota's usage starts from this result.
    A queued job uses no quota so far.
    """
    total: Counter[tuple[str, str]] = Counter()
    for job in jobs:
        if job.state.active and job.state.value != "QUEUED":
            for metric, amount in taken_by(job).items():
                for place in places_of(job):
                    total[place, metric] += amount
    corrected = []
    for quota in quotas:
        own = total[quota.region, _bare(quota.metric)]
        more = own > (quota.used or 0)
        corrected.append(replace(quota, used=own, used_at=at, estimated=True) if more else quota)
    return corrected


def places_of(job: Job) -> tuple[str, str]:
    """Return the region names of a job in quotas: for one context, and for a group of contexts."""
    return job.region, f"{job.context}/{job.region}"


def fit(job: Mapping[str, Any], region: str, quotas: Sequence[Quota]) -> Fit:
    """Return whether a CustomJob in a region fits into `quotas`, a result of `with_running`. A metric that
    the service does not report (SSD in most projects) is left out, because its quota is unknown, unless none
    of the metrics is reported."""
    return _Headroom(quotas).fit(job, region)


def fits_in(job: Mapping[str, Any], regions: Iterable[str], quotas: Sequence[Quota]) -> list[Fit]:
    """Return `fit` for each region, in order; a region without the hardware is `short` and names it."""
    room = _Headroom(quotas)
    return [room.fit(job, region) for region in regions]


class _Headroom:
    """Quotas by region and metric, indexed once for many regions."""

    def __init__(self, quotas: Sequence[Quota]) -> None:
        self._quotas = {(q.region, _bare(q.metric)): q for q in quotas}

    def fit(self, job: Mapping[str, Any], region: str) -> Fit:
        needed = needs(job)
        lines = [self._line(region, metric, need) for metric, need in needed.items()]
        reported = [line for line in lines if line.limit is not None]
        lacking = _lacking_hardware(job, region, reported)
        if lacking:
            return Fit(region, "short", tuple(reported), lacking)
        if within(job, "jobSpec", "persistentResourceId"):
            return Fit(region, "fits")
        shown = tuple(line for line in lines if line.limit is not None or line.metric != SSD)
        statuses = {line.status for line in shown}
        if "short" in statuses:
            return Fit(region, "short", shown)
        return Fit(region, "fits" if statuses == {"fits"} else "unknown", shown)

    def _line(self, region: str, metric: str, need: int) -> Line:
        quota = self._quotas.get((region, metric)) or Quota(metric, region, None, None)
        return Line(metric, need, quota)


def _lacking_hardware(job: Mapping[str, Any], region: str, lines: Sequence[Line]) -> str:
    """Return the accelerators that the region lacks by documentation (docs/facts/vertex.md 8.5) and quota."""
    there = catalog.region_accelerators().get(region.rpartition("/")[2])
    allowed = {line.metric for line in lines if line.limit}
    pools = [
        pool for known in custom_jobs(job) for pool in within(known.job, "jobSpec", "workerPoolSpecs") or []
    ]
    for pool in pools:
        machine, kind, count = machine_of(pool or {})
        name = catalog.documented_name(machine, kind, count)
        if not name or name in (there or ()):
            continue
        word = catalog.quota_word(kind)
        if not word or not any(metric.endswith(word) for metric in allowed):
            return name
    return ""


def _bare(metric: str) -> str:
    return metric.rpartition("/")[2]


_WORDS = {"cpus": "CPUs", "pd_ssd": "SSD GB", "tpu_v2": "TPU v2", "tpu_v3": "TPU v3"}


def short_name(metric: str) -> str:
    """Return the short name of a metric: `preemptible A100`, `CPUs` or `SSD GB`."""
    match = _STEM.match(metric)
    spot = "preemptible " if match and match["spot"] else ""
    return spot + _plain_name(metric)


def _plain_name(metric: str) -> str:
    word = _STEM.sub("", metric)
    return catalog.quota_words().get(word) or _WORDS.get(word, word.replace("_", " "))


def request_link(project: str, metric: str, region: str) -> str:
    """Return the quota page of the cloud console, filtered to one metric in one region."""
    # The page's parameters are undocumented; it ignores unknown parameters and then shows every quota.
    query = {
        "project": project,
        "service": catalog.SERVICE,
        "metric": f"{catalog.SERVICE}/{_bare(metric)}",
        "location": region,
    }
    return f"{_REQUEST}?{urlencode(query, safe='/')}"
