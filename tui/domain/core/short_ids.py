"""Short ids that distinguish jobs with the same display name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tui.domain.core.job import Job

MIN_SUFFIX = 3


def short_ids(jobs: Iterable[Job]) -> Mapping[str, str]:
    """Return the shortest unique end of the id of each job whose display name repeats, by resource name."""
    by_name: dict[str, list[Job]] = {}
    for job in jobs:
        by_name.setdefault(job.display_name, []).append(job)
    endings: dict[str, str] = {}
    for same in by_name.values():
        if len(same) > 1:
            length = _length([job.id for job in same])
            endings |= {job.name: job.id[-length:] for job in same}
    return endings


def _length(ids: list[str]) -> int:
    """Return the shortest length at which all endings differ, or the length of the longest id."""
    longest = max(map(len, ids))
    for length in range(MIN_SUFFIX, longest):
        if len({id[-length:] for id in ids}) == len(ids):
            return length
    return max(longest, 1)
