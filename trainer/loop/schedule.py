"""The learning rate of each step."""

from __future__ import annotations

import math

from trainer.config import Config


def learning_rate(config: Config, step: int) -> float:
    """Linear warm-up, then a cosine down to a tenth of the peak."""
    peak, warmup = config.optimizer.learning_rate, config.optimizer.warmup
    if step < warmup:
        return peak * (step + 1) / warmup
    done = (step - warmup) / max(1, config.steps - warmup)
    return peak * (0.1 + 0.45 * (1 + math.cos(math.pi * min(1.0, done))))
