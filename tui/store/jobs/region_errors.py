"""Regions that can't be read now, grouped by error."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from tui.backends.errors import BackendError
from tui.store.jobs.table import RegionStatus

NAMED = 2
"""Number of regions named per error; other regions are counted."""


@dataclass(frozen=True, slots=True)
class RegionErrors:
    """Regions (`context/region` in a group) with the same error, since the first failure."""

    regions: tuple[str, ...]
    error: BackendError
    failing_since: datetime | None
    read_at: datetime | None
    """The newest read time of these regions."""

    @property
    def names(self) -> str:
        """`a, b and 4 more`."""
        named, rest = self.regions[:NAMED], len(self.regions) - NAMED
        return ", ".join(named) + (f" and {rest} more" if rest > 0 else "")


def region_errors(statuses: Iterable[RegionStatus]) -> list[RegionErrors]:
    """Return the errors of these regions in order. Errors that differ only in the region are grouped."""
    alike: dict[tuple[str, str], list[RegionStatus]] = {}
    for status in statuses:
        error = status.error
        if error is not None:
            alike.setdefault((error.code, _without_place(error.message, status.region)), []).append(status)
    return [_together(group) for group in alike.values()]


def _together(statuses: list[RegionStatus]) -> RegionErrors:
    error = statuses[0].error
    if error is None:
        raise ValueError(f"{statuses[0].region} has no error")
    since = [status.failing_since for status in statuses if status.failing_since is not None]
    read = [status.read_at for status in statuses if status.read_at is not None]
    regions = tuple(status.region for status in statuses)
    return RegionErrors(regions, error, min(since, default=None), max(read, default=None))


def _without_place(message: str, where: str) -> str:
    """Return the message without the names of its context and region."""
    for name in filter(None, (where, *where.split("/"))):
        message = re.sub(rf"\b{re.escape(name)}\b", "", message)
    return message
