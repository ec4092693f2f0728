"""Find the ranks with a wrong state from the hashes of replicas. The module does no I/O."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

Votes = Mapping[int, int]
"""The hash of each rank's replica of one part of the state."""


_OUTLIER_FACTOR = 4.0
"""Factor by which a wrong rank's distance must exceed the distances of all other ranks."""


@dataclass(frozen=True, slots=True)
class Mismatch:
    """Replicas that differ. `ranks` are the ranks outside the majority; all ranks without a majority."""

    ranks: tuple[int, ...]
    has_majority: bool


def mismatch(parts: Sequence[Votes]) -> Mismatch | None:
    """Return the ranks that differ in any part, or None if all replicas agree."""
    wrong: set[int] = set()
    undecided: set[int] = set()
    for votes in parts:
        counts = Counter(votes.values())
        if len(counts) < 2:
            continue
        value, most = counts.most_common(1)[0]
        if 2 * most > len(votes):
            wrong |= {rank for rank, vote in votes.items() if vote != value}
        else:
            undecided |= set(votes)
    if not wrong and not undecided:
        return None
    return Mismatch(tuple(sorted(wrong | undecided)), has_majority=not undecided)


class Repeat(StrEnum):
    """Result of repeating the same steps from the same checkpoint."""

    OTHER_RESULT = "other result"
    """One rank had another result the first time, and the other ranks about the same result."""
    SAME_RESULTS = "same results"
    """Every rank repeats its result, and the results differ again, so the fault is permanent."""
    UNDECIDED = "undecided"
    """All ranks are about equally far from their first results, or the distances are unknown."""


@dataclass(frozen=True, slots=True)
class RepeatVerdict:
    """The verdict on a repetition: the first results of `ranks` were wrong by at most `most`, those of the
    other ranks by `rest`."""

    repeat: Repeat
    ranks: tuple[int, ...] = ()
    most: float = 0.0
    rest: float = 0.0


def verdict(same: bool, distances: Sequence[float]) -> RepeatVerdict:
    """Judge a repetition: whether all hashes are the `same`, and the distance of each rank's values. The
    distances of the other ranks are not exactly 0, because the faulty rank changed their gradients."""
    if same:
        return RepeatVerdict(Repeat.SAME_RESULTS)
    ordered = sorted((distance, rank) for rank, distance in enumerate(distances) if not math.isnan(distance))
    if len(ordered) < len(distances) or len(ordered) < 2:
        return RepeatVerdict(Repeat.UNDECIDED)
    (rest, _), (most, rank) = ordered[-2:]
    if most <= _OUTLIER_FACTOR * rest:
        return RepeatVerdict(Repeat.UNDECIDED)
    return RepeatVerdict(Repeat.OTHER_RESULT, (rank,), most, rest)
