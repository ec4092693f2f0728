"""Prediction of a trial's final value from its curve, for `decay_curve_stopping_spec`.

The model is a Gaussian process, as in the documentation of Vizier, whose kernel is not documented. A curve
here is a final level, a sum of exponential decays towards it, and noise (the kernel of Swersky, Snoek and
Adams, 'Freeze-Thaw Bayesian Optimization', 2014). The prior of the level has the mean and spread of the
completed trials' curves; the prediction is averaged over rates, size and noise, each weighted by its
likelihood for all curves.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Curve = Sequence[tuple[float, float]]
"""Pairs of a step (or time) and a value, in order of the steps; larger values are better."""
Array = NDArray[np.float64]

MOST_POINTS = 20
"""Maximum number of points of a curve that are used, spread over the curve and including the last."""
MOST_CURVES = 10
"""Maximum number of completed curves used to learn rates and noise."""
_SHAPES = (0.5, 1.0, 2.0)
_BETAS = (0.02, 0.1, 0.5, 2.0)
_SIZES = (0.1, 1.0, 10.0, 100.0)
_NOISES = (1e-4, 1e-3, 1e-2, 1e-1, 0.5)
"""Grid of the kernel: exponents, rates as fractions of a curve, and variances relative to that of the
level."""


@dataclass(frozen=True, slots=True)
class Kernels:
    """Kernels of all grid points: arrays of equal length."""

    shape: Array
    beta: Array
    size: Array
    noise: Array

    def between(self, left: Array, right: Array) -> Array:
        """Return the covariances of two sets of times, including the level and without noise; kernels are
        axis 0."""
        spread = left[:, None] + right[None, :]
        shape, beta, size = (parameter[:, None, None] for parameter in (self.shape, self.beta, self.size))
        return 1.0 + size * (beta / (spread + beta)) ** shape

    def factors(self, times: Array) -> Array:
        """Return the Cholesky factors of the covariances with noise."""
        covariance: Array = self.between(times, times) + self.noise[:, None, None] * np.eye(len(times))
        return np.linalg.cholesky(covariance).astype(np.float64)


def chance_to_exceed(curve: Curve, completed: Sequence[Curve], best: float) -> float:
    """Return the probability that the trial's value at the end of a curve is above `best`.

    `completed` are the curves of two or more completed trials. The longest curve defines where a curve ends.
    """
    end = max(at for past in (*completed, curve) for at, _ in past)
    lasts = np.array([past[-1][1] for past in completed])
    middle = float(lasts.mean())
    values = np.array([value for past in (*completed, curve) for _, value in past])
    # With few or similar trials, the spread of the trials would be overconfident.
    scale = max(float(lasts.std(ddof=1)), 0.1 * float(values.std()), 1e-12 * max(1.0, abs(middle)))
    chosen = [_scaled(past, end, middle, scale) for past in completed[-MOST_CURVES:]]
    mine = _scaled(curve, end, middle, scale)
    kernels, target = _grid(), (best - middle) / scale
    likelihoods = np.sum([_likelihoods(kernels, *scaled) for scaled in (*chosen, mine)], axis=0)
    weights = np.exp(likelihoods - likelihoods.max())
    means, variances = _at_end(kernels, *mine)
    away = (target - means) / np.sqrt(2.0 * (variances + kernels.noise))
    chances = [0.5 * math.erfc(distance) for distance in away]
    return float(np.average(chances, weights=weights))


def _scaled(curve: Curve, end: float, middle: float, scale: float) -> tuple[Array, Array]:
    """Return times as fractions of a complete curve, and values in spreads from the middle."""
    which = np.unique(np.linspace(0, len(curve) - 1, min(len(curve), MOST_POINTS)).round().astype(int))
    points = np.array([curve[number] for number in which], dtype=np.float64)
    return points[:, 0] / max(end, 1e-300), (points[:, 1] - middle) / scale


@lru_cache(maxsize=1)
def _grid() -> Kernels:
    points = np.array(list(itertools.product(_SHAPES, _BETAS, _SIZES, _NOISES)))
    return Kernels(*points.T)


def _likelihoods(kernels: Kernels, times: Array, values: Array) -> Array:
    """Return the logarithm of each kernel's likelihood, up to a constant."""
    lower = kernels.factors(times)
    white = np.linalg.solve(lower, values[:, None])[..., 0]
    diagonal = np.diagonal(lower, axis1=1, axis2=2)
    likelihoods: Array = -0.5 * (white**2).sum(axis=1) - np.log(diagonal).sum(axis=1)
    return likelihoods


def _at_end(kernels: Kernels, times: Array, values: Array) -> tuple[Array, Array]:
    """Return mean and variance at the end of the curve, without noise, for each kernel."""
    end, lower = np.ones(1), kernels.factors(times)
    white = np.linalg.solve(lower, kernels.between(times, end))[..., 0]
    means = (white * np.linalg.solve(lower, values[:, None])[..., 0]).sum(axis=1)
    variances = kernels.between(end, end)[:, 0, 0] - (white**2).sum(axis=1)
    return means, np.maximum(variances, 0.0)
