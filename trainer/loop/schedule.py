"""The learning rate of each step."""

from __future__ import annotations

import math

from trainer.config import Config


def learning_rate(config: Config, step: int) -> float:
    """A linear warm-up to the peak, then as `--schedule` says down to `--final-share` of it.

    `step` counts from 0. The schedule wsd (warm-up, stable, decay) falls in the last `--decay-share` of all
    steps: until then it does not depend on how many steps follow.
    """
    given, final = config.optimizer, config.optimizer.final_share
    if step < given.warmup:
        return given.learning_rate * (step + 1) / given.warmup
    falls_from = given.warmup
    if given.schedule == "wsd":
        falls_from = max(falls_from, config.steps - round(given.decay_share * config.steps))
    done = min(1.0, max(0, step - falls_from) / max(1, config.steps - falls_from))
    if given.schedule == "constant":
        return given.learning_rate
    fallen = 0.5 * (1 - math.cos(math.pi * done)) if given.schedule == "cosine" else done
    return given.learning_rate * (1 - (1 - final) * fallen)
