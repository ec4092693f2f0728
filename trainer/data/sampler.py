"""The order of the samples: a pure function of seed and position, for any world size.

The order is a permutation of any number of samples, computed per index without a list. A Feistel network
permutes the integers below the next power of two. A result that is not a sample is permuted again until it is
a sample (cycle walking): the inverse follows the same steps backwards, so the result is a bijection too. The
network uses only operations on 64-bit integers, so the result is equal on every machine and with every
version of NumPy.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from trainer.distributed.batch_plan import BatchPlan

_BLOCK = 4096
"""Samples whose order is computed together: one call per micro-batch would take ten times as long."""
_ROUNDS = 8
_MIN_BITS = 4
"""Minimum number of bits. Halves of one bit would have too few round functions for a random-looking
permutation."""
_GOLDEN, _MASK = 0x9E3779B97F4A7C15, (1 << 64) - 1

Words = npt.NDArray[np.uint64]
Indices = npt.NDArray[np.int64]


class Sampler:
    """Endless iterator over the micro-batches of one rank, as sample indices, from a global position.

    The position counts samples over all ranks and epochs. A global batch is the next `plan.batch` positions
    at any world size. Rank r has every world_size-th position of the batch, from the r-th on. As
    `batch_sampler` of a DataLoader the sampler yields the same batches with any number of workers. `position`
    must be the first position of a step.
    """

    def __init__(self, count: int, plan: BatchPlan, *, seed: int, rank: int, position: int = 0) -> None:
        self._count, self._plan, self._seed, self._rank = count, plan, seed, rank
        self._position = position

    def __iter__(self) -> Iterator[list[int]]:
        sizes = self._plan.micro_batches
        steps = max(1, _BLOCK // sum(sizes))
        first = self._plan.batch * np.arange(steps, dtype=np.int64)
        within = self._rank + self._plan.world_size * np.arange(sum(sizes), dtype=np.int64)
        ahead = (first[:, None] + within).ravel()
        position = self._position
        while True:
            epochs, places = np.divmod(position + ahead, self._count)
            samples = permute(self._seed, epochs, places, self._count).tolist()
            start = 0
            for size in sizes * steps:
                yield samples[start : start + size]
                start += size
            position += self._plan.batch * steps


def permute(seed: int, epochs: Indices, places: Indices, count: int) -> Indices:
    """Return the sample at each position of its epoch, all int64 [N]; positions and samples are below
    `count`. For each pair of seed and epoch the result is a permutation."""
    bits = max(_MIN_BITS, (count - 1).bit_length())
    keys = _keys(seed, epochs)
    samples = _feistel(places.astype(np.uint64), keys, bits)
    outside = np.flatnonzero(samples >= count)
    while outside.size:
        again = _feistel(samples[outside], keys[outside], bits)
        samples[outside] = again
        outside = outside[again >= count]
    return samples.astype(np.int64)


def _keys(seed: int, epochs: Indices) -> Words:
    """Return a key of 64 bits for each epoch; all keys of a seed differ."""
    of_seed = _mix(np.array([(seed + _GOLDEN) & _MASK], np.uint64))
    return _mix(of_seed + epochs.astype(np.uint64))


def _feistel(values: Words, keys: Words, bits: int) -> Words:
    """Return a permutation of the integers below 2**bits for each key, both [N].

    A round moves the low half into the high half, and combines the high half with a function of the low half.
    If `bits` is odd, the halves differ by one bit.
    """
    low, high = bits // 2, bits - bits // 2
    for number in range(_ROUNDS):
        kept = values & np.uint64((1 << low) - 1)
        mixed = _mix(keys + (kept + np.uint64(number * _GOLDEN & _MASK)))
        mixed >>= np.uint64(64 - high)
        mixed ^= values >> np.uint64(low)
        kept <<= np.uint64(high)
        values = kept | mixed
        low, high = high, low
    return values


def _mix(words: Words) -> Words:
    """Return the output function of SplitMix64, in place: a bijection; each input bit changes half of the
    output bits.

    Steele, Lea and Flood, Fast Splittable Pseudorandom Number Generators, OOPSLA 2014.
    """
    words ^= words >> np.uint64(30)
    words *= np.uint64(0xBF58476D1CE4E5B9)
    words ^= words >> np.uint64(27)
    words *= np.uint64(0x94D049BB133111EB)
    words ^= words >> np.uint64(31)
    return words
