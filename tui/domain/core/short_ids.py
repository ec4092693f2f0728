"""Short ids that tell jobs of one display name apart."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tui.domain.core.job import Job

MIN_SUFFIX = 3


def short_ids(jobs: Iterable[Job]) -> Mapping[str, str]:
    """By resource name of each job whose display name repeats: the shortest end of its id that differs."""
    by_name: dict[str, list[Job]] = {}
    for job in jobs:
        by_name.setdefault(job.display_name, []).append(job)
    found: dict[str, str] = {}
    for same in by_name.values():
        if len(same) > 1:
            length = _length([job.id for job in same])
            found |= {job.name: job.id[-length:] for job in same}
    return found


def _length(ids: list[str]) -> int:
    """The shortest length of endings that are all different, or of a whole id."""
    longest = max(map(len, ids))
    for length in range(MIN_SUFFIX, longest):
        if len({each[-length:] for each in ids}) == len(ids):
            return length
    return max(longest, 1)
