"""The fields of a quota, for the quotas' list, `vxtui quotas` and its `--json`."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from tui.domain.core.formatting import bar, rfc3339
from tui.domain.core.quota import UNLIMITED, Quota
from tui.domain.fields.cell import UNKNOWN, Cell, Tone, age_cell, muted
from tui.domain.fields.field import Field

PREFIX = "custom_model_training_"
NEARLY_USED = 0.8
"""Fraction of the limit at which the bar takes the warning colour."""


class QuotaRow(NamedTuple):
    """A row of the quotas list: a quota at a point in time."""

    quota: Quota
    now: datetime

    @property
    def share(self) -> float | None:
        """The used fraction of the limit."""
        quota = self.quota
        return quota.used / quota.limit if quota.used is not None and quota.limit else None

    @property
    def read_at(self) -> datetime | None:
        """Time at which the usage was read or, if it was not read, the limit."""
        return self.quota.used_at or self.quota.limit_read_at


def short_name(quota: Quota) -> str:
    """Return the distinctive part of the metric: `nvidia a100 gpus`."""
    if quota.named:
        return quota.display_name
    name = quota.metric.rpartition("/")[2]
    return name.removeprefix(f"{PREFIX}preemptible_").removeprefix(PREFIX).replace("_", " ")


def _name(row: QuotaRow) -> Cell:
    quota = row.quota
    return Cell(
        short_name(quota), long=quota.display_name if quota.named else quota.metric.removeprefix(PREFIX)
    )


def _limit(row: QuotaRow) -> Cell:
    limit = row.quota.limit
    return UNKNOWN if limit is None else Cell("unlimited" if limit == UNLIMITED else f"{limit:,}")


def _used(row: QuotaRow) -> Cell:
    used = row.quota.used
    return UNKNOWN if used is None else Cell(f"{'~' * row.quota.estimated}{used:,}")


def _free(row: QuotaRow) -> Cell:
    free = row.quota.free
    return UNKNOWN if free is None else Cell(f"{free:,}")


def _share(row: QuotaRow) -> Cell:
    share = row.share
    if share is None or share < 0:
        return UNKNOWN
    return Cell(
        bar(share, 10), Tone.BAD if share >= 1 else Tone.WARNING if share >= NEARLY_USED else Tone.GOOD
    )


QUOTA_FIELDS: tuple[Field[QuotaRow], ...] = (
    Field("metric", json=lambda row: row.quota.metric, help="Metric, or a key for a cluster's quota"),
    Field("region", "REGION", 12, max_width=20,
        cell=lambda row: muted(row.quota.region), sort=lambda row: row.quota.region,
        json=lambda row: row.quota.region, help="Region; for a cluster a namespace, or `cluster`"),
    Field("name", "QUOTA", 18, max_width=70, flex=True,
        cell=_name, sort=lambda row: short_name(row.quota),
        json=lambda row: row.quota.display_name, help="Display name"),
    Field("kind", "KIND", 8, max_width=8,
        cell=lambda row: muted("spot" if row.quota.preemptible else "standard"),
        sort=lambda row: row.quota.preemptible,
        json=lambda row: row.quota.preemptible, json_key="preemptible", help="Whether the quota is for Spot"),
    Field("limit", "LIMIT", 6, max_width=10, right=True,
        cell=_limit, largest_first=True,
        sort=lambda row: float("inf") if row.quota.limit == UNLIMITED else row.quota.limit,
        json=lambda row: row.quota.limit, help="Limit; -1 is unlimited"),
    Field("used", "USED", 6, max_width=10, right=True,
        cell=_used, sort=lambda row: row.quota.used, largest_first=True,
        json=lambda row: row.quota.used, help="Usage; CPUs in cores, a cluster's memory and storage in GiB"),
    Field("free", "FREE", 6, max_width=10, right=True,
        cell=_free, sort=lambda row: row.quota.free, largest_first=True,
        json=lambda row: row.quota.free, help="Unused quota; `null` without a limit"),
    Field("share", "", 10, max_width=10, rank=3, only="screen",
        cell=_share, sort=lambda row: row.share, largest_first=True),
    Field("age", "AGE", 5, max_width=6, rank=2, right=True,
        cell=lambda row: age_cell(row.read_at, row.now),
        sort=lambda row: -row.read_at.timestamp() if row.read_at else None,
        json=lambda row: rfc3339(row.quota.used_at), json_key="used_at", help="Time of the usage"),
    Field("limit_read_at", json=lambda row: rfc3339(row.quota.limit_read_at), help="Time of the limit"),
    Field("estimated", json=lambda row: row.quota.estimated,
        help="Whether `used` is the sum of the running jobs, which exceeds the service's value"),
)  # fmt: skip
