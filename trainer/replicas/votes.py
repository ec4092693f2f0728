"""Find the ranks whose state is wrong from the hashes of replicas. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

Votes = Mapping[int, int]
"""The hash of each rank's replica of one part of the state."""


_OUTLIER_FACTOR = 4.0
"""Factor by which a wrong rank's values are farther than those of all others."""


@dataclass(frozen=True, slots=True)
class Mismatch:
    """Replicas that differ. `ranks` are those outside the majority; all ranks without a majority."""

    ranks: tuple[int, ...]
    has_majority: bool


def mismatch(parts: Sequence[Votes]) -> Mismatch | None:
    """The ranks that differ in any part; None if all replicas agree."""
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
    """What a repetition of the same steps from the same checkpoint shows."""

    OTHER_RESULT = "other result"
    """One rank had another result the first time, the others about the same."""
    SAME_RESULTS = "same results"
    """Every rank repeats its result, and they differ again: the fault is permanent."""
    UNDECIDED = "undecided"
    """All are about equally far from their first results, or too little is known."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """`ranks` were wrong the first time: by `most`, the others by `rest`."""

    repeat: Repeat
    ranks: tuple[int, ...] = ()
    most: float = 0.0
    rest: float = 0.0


def verdict(same: bool, distances: Sequence[float]) -> Verdict:
    """Compare with the first time: whether all hashes are the `same`, and how far each rank's values are.

    The other ranks are not exactly at their first values either, as the faulty rank changed their gradients.
    """
    if same:
        return Verdict(Repeat.SAME_RESULTS)
    ordered = sorted((distance, rank) for rank, distance in enumerate(distances) if not math.isnan(distance))
    if len(ordered) < len(distances) or len(ordered) < 2:
        return Verdict(Repeat.UNDECIDED)
    (rest, _), (most, rank) = ordered[-2:]
    if most <= _OUTLIER_FACTOR * rest:
        return Verdict(Repeat.UNDECIDED)
    return Verdict(Repeat.OTHER_RESULT, (rank,), most, rest)
