"""Training quotas: limits, amounts in use, and the queue of waiting jobs.

A job holds its quota from PENDING to its end. Jobs wait in QUEUED in order of creation. A later job does not
get a metric for which an earlier job waits, unless the earlier job needs more than the limit: the service
refuses that job, and with `queue_beyond_quota` it stays QUEUED (docs/facts/vertex.md 7.1 and 16).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from google.cloud.aiplatform_v1.types import accelerator_type

from tui.domain.core.quota import UNLIMITED
from tui.domain.vertex.catalog import SERVICE, check_metric, quota_metrics
from tui.emulator.config import ConfigError, EmulatorConfig
from tui.emulator.faults.scarcity import quota_refusal
from tui.emulator.messages import Pb
from tui.emulator.vertex.job_table import CustomJob

DEFAULT_CPUS = 2200
DEFAULT_ACCELERATORS = 64
"""Default limits: the documented CPU limit of the large regions (docs/facts/vertex.md 7.5), and more
accelerators than a new project has, because nothing is billed here."""


def strategy(pb: Pb) -> str:
    """Return the scheduling strategy by name. Deprecated strategies and an unset strategy mean STANDARD
    (docs/facts/vertex.md 1.6)."""
    number = pb.job_spec.scheduling.strategy
    return {4: "SPOT", 6: "FLEX_START"}.get(number, "STANDARD")


def demand(pb: Pb) -> dict[str, int]:
    """Return the amounts by quota metric (without the service's prefix) of all replicas of a job.

    The Reduction Server's pool counts like any other. The machines of a persistent resource count with the
    resource, not with its jobs (docs/facts/vertex.md 9.1).
    """
    if pb.job_spec.persistent_resource_id:
        return {}
    preemptible = strategy(pb) in {"SPOT", "FLEX_START"}
    total: dict[str, int] = {}
    for pool in pb.job_spec.worker_pool_specs:
        machine = pool.machine_spec
        kind = accelerator_type.AcceleratorType(machine.accelerator_type).name
        amounts = quota_metrics(
            machine.machine_type, kind, machine.accelerator_count, preemptible=preemptible
        )
        for metric, amount in amounts.items():
            total[metric] = total.get(metric, 0) + amount * pool.replica_count
    return total


ProjectRegion = tuple[str, str]
"""Scope of every training quota: project and region."""


@dataclass(frozen=True, slots=True)
class _Claim:
    """Amounts that a job or persistent resource holds or waits for."""

    place: ProjectRegion
    needs: Mapping[str, int]
    granted: asyncio.Event


class TrainingQuotas:
    """Limits from the configuration, amounts in use, and the queue of waiting jobs."""

    def __init__(self, config: EmulatorConfig) -> None:
        self._queue_all = config.queue_beyond_quota
        self._limits = {key.removeprefix(f"{SERVICE}/"): value for key, value in config.quotas.items()}
        self._held: dict[str, _Claim] = {}
        self._waiting: dict[str, _Claim] = {}
        self._used: dict[ProjectRegion, Counter[str]] = {}

    def limit(self, region: str, metric: str) -> int:
        """Return the limit in one region; -1 means unlimited. `METRIC@REGION` takes precedence over
        `METRIC`."""
        metric = metric.removeprefix(f"{SERVICE}/")
        default = DEFAULT_CPUS if metric.endswith("_cpus") else DEFAULT_ACCELERATORS
        return self._limits.get(f"{metric}@{region}", self._limits.get(metric, default))

    def refusal(self, region: str, job: Pb) -> str:
        """Return the service's refusal of a job that needs more than a limit, or "" for any other job."""
        needs = {} if self._queue_all else demand(job)
        over = [metric for metric, amount in needs.items() if 0 <= self.limit(region, metric) < amount]
        return quota_refusal(over) if over else ""

    def usage(self, project: str, region: str) -> dict[str, int]:
        """Return the amounts in use in one region of a project, by metric."""
        return dict(+self._used.get((project, region), Counter()))

    def lacking(self, job: CustomJob) -> dict[str, tuple[int, int]]:
        """Return the metrics that a job waits for, with the amount needed and the limit."""
        return self._lacking(_claim(job))

    def hold(self, job: CustomJob) -> None:
        """Count the amounts of a job that already holds its quota."""
        self._hold(job.record.id, _claim(job))

    def release(self, job: CustomJob) -> None:
        """Release the amounts of a job, or remove it from the queue. Idempotent."""
        self.drop(job.record.id)

    def set_aside(self, name: str, place: ProjectRegion, needs: Mapping[str, int]) -> None:
        """Count the amounts of a persistent resource, replacing its earlier amounts."""
        self.drop(name)
        self._hold(name, _Claim(place, needs, asyncio.Event()))

    def short_of(
        self, name: str, place: ProjectRegion, needs: Mapping[str, int]
    ) -> dict[str, tuple[int, int]]:
        """Return `lacking` for a persistent resource that would replace its amounts."""
        held = self._held.get(name)
        present: Mapping[str, int] = held.needs if held is not None else {}
        return self._lacking(_Claim(place, needs, asyncio.Event()), present)

    def drop(self, key: str) -> None:
        """Release the amounts of a job's id or a persistent resource's name."""
        self._waiting.pop(key, None)
        claim = self._held.pop(key, None)
        if claim is not None:
            self._used[claim.place].subtract(claim.needs)
        self._grant()

    def queue(self, job: CustomJob) -> asyncio.Event:
        """Add a job to the end of the queue. Return an event that is set once the job has its quota."""
        claim = _claim(job)
        self._waiting[job.record.id] = claim
        self._grant()
        return claim.granted

    def _lacking(
        self, claim: _Claim, present: Mapping[str, int] = MappingProxyType({})
    ) -> dict[str, tuple[int, int]]:
        used = self._used.get(claim.place, Counter())
        lacking = {}
        for metric, amount in claim.needs.items():
            limit = self.limit(claim.place[1], metric)
            if limit != UNLIMITED and used[metric] - present.get(metric, 0) + amount > limit:
                lacking[metric] = (amount, limit)
        return lacking

    def _hold(self, key: str, claim: _Claim) -> None:
        self._held[key] = claim
        self._used.setdefault(claim.place, Counter()).update(claim.needs)

    def _grant(self) -> None:
        claimed: set[tuple[ProjectRegion, str]] = set()
        for job_id, claim in list(self._waiting.items()):
            lacks = self._lacking(claim)
            if lacks:
                possible = all(amount <= limit for amount, limit in lacks.values())
                claimed |= {(claim.place, metric) for metric in lacks} if possible else set()
            elif not any((claim.place, metric) in claimed for metric in claim.needs):
                del self._waiting[job_id]
                self._hold(job_id, claim)
                claim.granted.set()


def _claim(job: CustomJob) -> _Claim:
    place = (job.record.project, job.record.location)
    return _Claim(place, demand(job.pb), asyncio.Event())


def check_quotas(config: EmulatorConfig) -> None:
    """Refuse limits of unknown metrics. Raises ConfigError naming the metric and similar known metrics."""
    for key, limit in config.quotas.items():
        try:
            check_metric(key.partition("@")[0])
        except ValueError as error:
            raise ConfigError(f"config.yaml: quotas: {error}") from error
        if limit < UNLIMITED:
            raise ConfigError(
                f"config.yaml: quotas: {key}: {limit} must be a limit: 0 or more, or -1 for unlimited"
            )


def describe_lack(
    lacking: Mapping[str, tuple[int, int]], region: str, reason: str = "The job waits for training quota"
) -> str:
    """Return the log message of a job that stays QUEUED, which names the exhausted quotas."""
    parts = [f"{SERVICE}/{m} (needs {need}, limit {limit})" for m, (need, limit) in lacking.items()]
    return f"{reason} in {region}: {', '.join(parts)}."
