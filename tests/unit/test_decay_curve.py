"""Prediction from curves whose ends are known."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tui.emulator.tuning.decay_curve import chance_to_exceed
from tui.emulator.tuning.measurements import LOW_CHANCE

Curve = list[tuple[float, float]]
Family = Callable[[float, float, float], Curve]
STEPS = 50


def power(level: float, gain: float, rate: float) -> Curve:
    return [(t, level - gain * t**-rate) for t in range(1, STEPS + 1)]


def exponential(level: float, gain: float, rate: float) -> Curve:
    return [(t, level - gain * math.exp(-rate * t / 6)) for t in range(1, STEPS + 1)]


def noisy(curve: Curve, deviation: float, seed: int) -> Curve:
    source = random.Random(seed)
    return [(at, value + source.gauss(0, deviation)) for at, value in curve]


def completed(family: Family, deviation: float) -> list[Curve]:
    made = family(0.9, 0.6, 0.7), family(0.85, 0.5, 0.75), family(0.8, 0.6, 0.6)
    return [noisy(each, deviation, seed) for seed, each in enumerate(made)]


def chances(curve: Curve, others: list[Curve]) -> list[float]:
    best = max(each[-1][1] for each in others)
    return [chance_to_exceed(curve[:count], others, best) for count in (10, 20, 35)]


@pytest.mark.parametrize("deviation", [0.0, 0.005, 0.02])
@pytest.mark.parametrize("family", [power, exponential])
def test_a_trial_that_ends_below_the_best_is_told_early_and_a_better_one_is_not(
    family: Family, deviation: float
) -> None:
    others = completed(family, deviation)
    worse = chances(noisy(family(0.68, 0.5, 0.7), deviation, 7), others)
    assert max(worse[1:]) < LOW_CHANCE, worse
    better = chances(noisy(family(1.0, 0.7, 0.7), deviation, 8), others)
    assert min(better) > LOW_CHANCE and better[-1] > 0.8, better
    # It begins below all others and overtakes them late: the median rule would stop it.
    slow = family(1.15, 1.05, 0.42)
    assert slow[2][1] < min(each[2][1] for each in completed(family, 0)) and slow[-1][1] > max(
        e[-1][1] for e in others
    )
    late = chances(noisy(slow, deviation, 9), others)
    assert min(late) > LOW_CHANCE, late


def test_losses_that_fall_are_curves_too() -> None:
    """Values are turned so that larger ones are better."""
    others = [[(t, -2 - 3 / t) for t in range(1, 30)], [(t, -1.8 - 3 / t) for t in range(1, 30)]]
    best = -1.8 - 3 / 29
    bad = [(t, -3 - 3 / t) for t in range(1, 12)]
    good = [(t, -1.2 - 3 / t) for t in range(1, 12)]
    assert chance_to_exceed(bad, others, best) < LOW_CHANCE < 0.5 < chance_to_exceed(good, others, best)


values = st.floats(-100, 100).map(lambda value: round(value, 3))
curves = st.lists(values, min_size=3, max_size=12).map(lambda found: list(enumerate(found, 1)))


@settings(max_examples=25)
@given(st.lists(curves, min_size=3, max_size=4), values, st.floats(0.5, 20), st.floats(-50, 50))
def test_it_is_a_probability_and_units_do_not_matter(
    found: list[Curve], best: float, factor: float, shift: float
) -> None:
    chance = chance_to_exceed(found[0], found[1:], best)
    assert 0 <= chance <= 1
    moved = [[(3 * at, factor * value + shift) for at, value in each] for each in found]
    # A number that is not quite the same may choose another kernel, where two fit alike.
    again = chance_to_exceed(moved[0], moved[1:], factor * best + shift)
    assert chance_to_exceed(found[0], found[1:], best + 1) <= chance + 1e-9
    assert math.isclose(chance, again, abs_tol=0.05)


def test_curves_that_are_flat_or_alike_are_no_error() -> None:
    flat = [(t, 1.0) for t in range(1, 9)]
    assert 0 <= chance_to_exceed(flat[:4], [flat, flat], 1.0) <= 1
    assert chance_to_exceed(flat[:4], [flat, flat], 2.0) < LOW_CHANCE
