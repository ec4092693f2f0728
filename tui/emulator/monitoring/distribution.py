"""Distributions: values counted in exponential buckets.

Percentiles are interpolated linearly within a bucket; the service's method is not documented.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

FINITE, GROWTH, SCALE = 62, 1.25, 0.1
"""Number of finite buckets, growth factor, and lower bound: buckets from 0.1 to about 100,000, plus one below
and one above."""
_LOG = math.log(GROWTH)


@dataclass(frozen=True, slots=True)
class Distribution:
    """Number of values, their sum and sum of squares, and the count of each non-empty bucket."""

    count: int
    total: float
    squares: float
    buckets: Mapping[int, int]

    @classmethod
    def of(cls, values: Iterable[float]) -> Distribution:
        """Return the distribution of these values, none of which is negative."""
        known = list(values)
        buckets: dict[int, int] = {}
        for value in known:
            at = _bucket(value)
            buckets[at] = buckets.get(at, 0) + 1
        return cls(len(known), math.fsum(known), math.fsum(value * value for value in known), buckets)

    def __add__(self, other: Distribution) -> Distribution:
        buckets = dict(self.buckets)
        for at, count in other.buckets.items():
            buckets[at] = buckets.get(at, 0) + count
        return Distribution(
            self.count + other.count, self.total + other.total, self.squares + other.squares, buckets
        )

    def percentile(self, percent: float) -> float:
        """Return the value below which `percent` percent of the values lie, or 0 if there are no values."""
        rank = self.count * percent / 100
        passed = 0
        for at, count in sorted(self.buckets.items()):
            if passed + count >= rank:
                low, high = _edges(at)
                return low + (high - low) * max(0.0, rank - passed) / count
            passed += count
        return 0.0

    def fill(self, target: Any) -> None:
        """Write the distribution into a google.api.Distribution."""
        target.count = self.count
        target.mean = self.total / self.count if self.count else 0.0
        target.sum_of_squared_deviation = max(0.0, self.squares - self.count * target.mean**2)
        options = target.bucket_options.exponential_buckets
        options.num_finite_buckets, options.growth_factor, options.scale = FINITE, GROWTH, SCALE
        last = max(self.buckets, default=-1)
        target.bucket_counts.extend(self.buckets.get(at, 0) for at in range(last + 1))


NOTHING = Distribution(0, 0.0, 0.0, {})


def merged(distributions: Iterable[Distribution]) -> Distribution:
    """Return the sum of the distributions."""
    return sum(distributions, NOTHING)


def _bucket(value: float) -> int:
    """Return the index of a value's bucket: 0 below the first finite bucket, FINITE + 1 above the last."""
    if value < SCALE:
        return 0
    return min(FINITE + 1, int(math.log(value / SCALE) / _LOG + 1e-9) + 1)


def _edges(at: int) -> tuple[float, float]:
    """Return the lower and upper bound. The last bucket has no upper bound."""
    low = SCALE * GROWTH ** (at - 1) if at else 0.0
    return low, SCALE * GROWTH ** min(at, FINITE)
