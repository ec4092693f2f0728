"""Names of jobs: the placeholders of a profile's `displayName`, and a short suffix where names repeat.

`{profile}`, `{n}`, `{date}`, `{user}` and `{git}` are filled in at each launch; other braces stay.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tui.domain.job import Job

PLACEHOLDER = re.compile(r"\{(profile|n|date|user|git)\}")
MIN_SUFFIX = 3


@dataclass(frozen=True, slots=True)
class NameFacts:
    """What the placeholders stand for. `git` is a short commit, `date` like 20261121."""

    profile: str
    date: str
    user: str
    git: str

    def of(self, placeholder: str) -> str:
        """The text of a placeholder other than `n`."""
        return str(getattr(self, placeholder))


def expand(template: str, facts: NameFacts, taken: Iterable[str] = ()) -> str:
    """The name with its placeholders filled in; `{n}` is one more than the highest number in `taken`."""
    parts = PLACEHOLDER.split(template)
    # The odd parts are the placeholders.
    filled = [part if at % 2 == 0 or part == "n" else facts.of(part) for at, part in enumerate(parts)]
    counters = [at for at in range(1, len(parts), 2) if parts[at] == "n"]
    if counters:
        number = re.compile(
            "".join(r"(\d+)" if at == counters[0] else r"\d+" if at in counters else re.escape(part)
                    for at, part in enumerate(filled))
        )  # fmt: skip
        used = [int(match[1]) for name in taken if (match := number.fullmatch(name))]
        for at in counters:
            filled[at] = str(max(used, default=0) + 1)
    return "".join(filled)


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
