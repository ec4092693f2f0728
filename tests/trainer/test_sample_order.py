"""The order of the samples: a permutation that is computed and never stored."""

from __future__ import annotations

import time
import tracemalloc
from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer.data.sampler import Sampler, permute
from trainer.distributed.batch_plan import BatchPlan

counts = st.one_of(st.integers(1, 10_000), st.integers(10_001, 300_000))
seeds = st.integers(0, 2**40)


def order(seed: int, epoch: int, count: int) -> list[int]:
    places = np.arange(count)
    return permute(seed, np.full(count, epoch), places, count).tolist()


@settings(max_examples=30, deadline=None)
@given(seeds, st.integers(0, 10**6), counts)
def test_each_sample_has_one_place(seed: int, epoch: int, count: int) -> None:
    assert sorted(order(seed, epoch, count)) == list(range(count))


def test_each_sample_has_one_place_for_every_small_number_of_samples() -> None:
    # All numbers at once, each as an epoch of its own, would need numbers of different sizes: one by one.
    for count in (*range(1, 520), 1023, 1024, 1025, 4095, 4096, 4097, 9999, 10_000):
        assert sorted(order(3, 7, count)) == list(range(count)), count


@settings(max_examples=20, deadline=None)
@given(seeds, st.integers(10**9, 2**55), st.integers(0, 2**31))
def test_places_of_more_samples_than_fit_in_memory_differ(seed: int, count: int, start: int) -> None:
    places = (start + np.arange(2000)) % count
    samples = permute(seed, np.zeros(2000, np.int64), places, count)
    assert len(np.unique(samples)) == 2000 and samples.min() >= 0 and samples.max() < count


def test_seed_and_epoch_each_give_another_order() -> None:
    orders = {tuple(order(seed, epoch, 50)) for seed in range(30) for epoch in range(30)}
    assert len(orders) == 900


def test_the_order_is_the_same_on_every_machine() -> None:
    # Written down once: a change here changes the data order of every run that resumes.
    assert order(0, 0, 10) == [2, 1, 5, 3, 4, 8, 9, 6, 0, 7]
    assert order(1, 2, 7) == [4, 3, 6, 2, 1, 0, 5]
    places = np.array([0, 1, 2, 19_999_999])
    assert permute(42, np.array([0, 0, 1, 3]), places, 20_000_000).tolist() == [
        18586327, 12094903, 12966807, 10063900,
    ]  # fmt: skip


@pytest.mark.parametrize("count", [2, 3, 5, 12, 16, 100])
def test_each_pair_of_places_has_each_pair_of_samples_equally_often(count: int) -> None:
    # Chi-square over the ordered pairs of samples at two places, in as many epochs as give each pair 40 on
    # average. Its mean is about its degrees of freedom k and its deviation sqrt(2 k): six are exceeded by
    # chance once in 1e8 (a chi-square with few degrees has a longer tail: k = 1 here gives 1e-3 for 3.3
    # deviations, hence 12 for it). The seeds are fixed, so the test always sees the same figures.
    pairs = count * (count - 1)
    epochs = np.arange(40 * pairs)
    for first, second in ((0, 1), (0, count - 1), (count // 2, (count // 2 + 1) % count)):
        if first == second:
            continue
        one = permute(11, epochs, np.full(len(epochs), first), count)
        two = permute(11, epochs, np.full(len(epochs), second), count)
        found = np.bincount(one * count + two, minlength=count * count).reshape(count, count)
        assert np.trace(found) == 0
        seen = found[~np.eye(count, dtype=bool)]
        statistic, freedom = float(((seen - 40) ** 2 / 40).sum()), pairs - 1
        assert abs(statistic - freedom) < (12 if freedom == 1 else 6) * (2 * freedom) ** 0.5


def test_neighbours_are_not_neighbours_afterwards() -> None:
    # Of n random places a step of d is as frequent as any other: about two of a million here.
    count = 1_000_000
    steps = np.diff(permute(5, np.zeros(count, np.int64), np.arange(count), count))
    _, frequency = np.unique(steps, return_counts=True)
    assert frequency.max() < 15
    assert abs(np.corrcoef(np.arange(count - 1), steps)[0, 1]) < 0.01


def test_an_order_of_twenty_million_samples_takes_no_memory_and_little_time() -> None:
    sampler = iter(Sampler(20_000_000, BatchPlan.of(256, 32, 8), seed=1, rank=3, position=123_456))
    next(sampler)
    tracemalloc.start()
    began = time.process_time()
    micro_batches = list(islice(sampler, 1))
    for _ in islice(sampler, 6000):
        pass
    spent, (_, peak) = time.process_time() - began, tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(micro_batches[0]) == 32 and peak < 1 << 20
    # 192,000 samples; a million a second without tracemalloc, which costs a factor.
    assert spent < 2


def test_batches_continue_at_any_position_across_epochs() -> None:
    plan = BatchPlan.of(4, 2, 2)
    whole = list(islice(Sampler(10, plan, seed=9, rank=1), 6000))
    assert list(islice(Sampler(10, plan, seed=9, rank=1, position=4 * 2500), 1000)) == whole[2500:3500]
