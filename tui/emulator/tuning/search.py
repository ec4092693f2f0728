"""Values of the next trial: from a grid, at random, or estimated from earlier trials.

The default of Vertex is Vizier's Bayesian optimization. The emulator uses the tree-structured Parzen
estimator of optuna. No state is stored between two calls: the search starts from the stored trials, so it
continues after a restart of the emulator.
"""

from __future__ import annotations

import itertools
import random
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from google.cloud.aiplatform_v1.types import study as study_types

from tui.emulator.messages import Pb
from tui.emulator.tuning.space import SearchParameter, Value, choose

if TYPE_CHECKING:
    import optuna

_Spec = study_types.StudySpec
GRID, RANDOM = int(_Spec.Algorithm.GRID_SEARCH), int(_Spec.Algorithm.RANDOM_SEARCH)
MAXIMIZE = int(_Spec.MetricSpec.GoalType.MAXIMIZE)
STARTUP_SHARE, LONGEST_STARTUP, SHORTEST_STARTUP = 4, 10, 3
"""Divisor, and largest and smallest number, of the trials chosen at random before the estimator starts."""


@dataclass(frozen=True, slots=True)
class PastTrial:
    """An existing trial. `objective` is `None` while it runs and if it is infeasible."""

    parameters: dict[str, Value]
    objective: float | None
    running: bool


def suggest(study: Pb, past: Sequence[PastTrial], seed: int, trials: int) -> dict[str, Value] | None:
    """Return the values of the trial after `past` by parameter id, or `None` if a grid is exhausted.

    `seed` belongs to the study; `trials` is its number of trials. The call takes up to a second.
    """
    if study.algorithm == GRID:
        return _from_grid(study.parameters, len(past))
    if study.algorithm == RANDOM:
        return _at_random(study.parameters, random.Random(f"{seed}/{len(past)}"))
    return _by_estimate(study, past, seed, trials)


def _at_random(specs: Sequence[Pb], source: random.Random) -> dict[str, Value]:
    def pick(parameter: SearchParameter) -> float:
        if parameter.integer and not parameter.log:
            return source.randint(int(parameter.low), int(parameter.high))
        if not parameter.log:
            return source.uniform(parameter.low, parameter.high)
        ratio = parameter.high / parameter.low
        number = float(parameter.low * ratio ** source.random())
        return round(number) if parameter.integer else min(number, parameter.high)

    return choose(specs, pick)


def _from_grid(specs: Sequence[Pb], number: int) -> dict[str, Value] | None:
    """Return the grid point of this number, from 0. The last parameter changes fastest."""
    digits: list[int] = []
    for count in itertools.count():
        sizes: list[int] = []

        def pick(parameter: SearchParameter, sizes: list[int] = sizes) -> float:
            position = len(sizes)
            sizes.append(int(parameter.high - parameter.low) + 1)
            if position == len(digits):
                digits.append(0)
            return parameter.low + digits[position]

        values = choose(specs, pick)
        if count == number:
            return values
        while digits and digits[-1] + 1 == sizes[len(digits) - 1]:
            digits.pop()
        if not digits:
            return None
        digits[-1] += 1
    raise AssertionError


def _by_estimate(study: Pb, past: Sequence[PastTrial], seed: int, trials: int) -> dict[str, Value]:
    # The import takes a second and 60 MB, which an emulator without studies does not need.
    import optuna  # noqa: PLC0415

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    startup = min(max(trials // STARTUP_SHARE, SHORTEST_STARTUP), LONGEST_STARTUP)
    seed = (seed + len(past)) % 2**32
    with warnings.catch_warnings():
        # optuna marks both options as experimental.
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        sampler = optuna.samplers.TPESampler(
            n_startup_trials=startup, multivariate=True, group=True, constant_liar=True, seed=seed
        )
    directions = optuna.study.StudyDirection
    goal = directions.MAXIMIZE if study.metrics[0].goal == MAXIMIZE else directions.MINIMIZE
    known = optuna.create_study(direction=goal, sampler=sampler)
    known.add_trials([_frozen(study.parameters, trial) for trial in past])
    suggestion = known.ask()

    def pick(parameter: SearchParameter) -> float:
        if not parameter.ordered:
            return int(suggestion.suggest_categorical(parameter.id, range(len(parameter.values))))
        low, high = parameter.low, parameter.high
        if parameter.integer:
            return suggestion.suggest_int(parameter.id, int(low), int(high), log=parameter.log)
        return suggestion.suggest_float(parameter.id, low, high, log=parameter.log)

    return choose(study.parameters, pick)


def _frozen(specs: Sequence[Pb], trial: PastTrial) -> optuna.trial.FrozenTrial:
    import optuna  # noqa: PLC0415

    coordinates: dict[str, float] = {}
    kinds: dict[str, optuna.distributions.BaseDistribution] = {}

    def pick(parameter: SearchParameter) -> float:
        at = parameter.coordinate(trial.parameters[parameter.id])
        low, high = parameter.low, parameter.high
        if not parameter.ordered:
            kinds[parameter.id] = optuna.distributions.CategoricalDistribution(range(len(parameter.values)))
        elif parameter.integer:
            kinds[parameter.id] = optuna.distributions.IntDistribution(int(low), int(high), parameter.log)
        else:
            kinds[parameter.id] = optuna.distributions.FloatDistribution(low, high, parameter.log)
        coordinates[parameter.id] = int(at) if parameter.integer else at
        return at

    choose(specs, pick)
    states = optuna.trial.TrialState
    done = states.COMPLETE if trial.objective is not None else states.FAIL
    return optuna.trial.create_trial(
        state=states.RUNNING if trial.running else done,
        value=None if trial.running else trial.objective,
        params=coordinates,
        distributions=kinds,
    )
