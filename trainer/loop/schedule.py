"""The learning rate of each step."""

from __future__ import annotations

import math

from trainer.config import Config


def learning_rate(config: Config, step: int) -> float:
    """Return the learning rate of `step`: a linear warm-up to the peak, then by `--schedule` down to
    `--final-share` of the peak.

    `step` counts from 0. The schedule wsd (warm-up, stable, decay) decreases in the last `--decay-share` of
    all steps: until then it does not depend on the number of steps.
    """
    settings, final = config.optimizer, config.optimizer.final_share
    if step < settings.warmup:
        return settings.learning_rate * (step + 1) / settings.warmup
    falls_from = settings.warmup
    if settings.schedule == "wsd":
        falls_from = max(falls_from, config.steps - round(settings.decay_share * config.steps))
    done = min(1.0, max(0, step - falls_from) / max(1, config.steps - falls_from))
    if settings.schedule == "constant":
        return settings.learning_rate
    fallen = 0.5 * (1 - math.cos(math.pi * done)) if settings.schedule == "cosine" else done
    return settings.learning_rate * (1 - (1 - final) * fallen)
