"""The strategy that `--strategy` names."""

from __future__ import annotations

import torch

from trainer.config import Config
from trainer.distributed.batch_plan import BatchPlan
from trainer.errors import UsageError
from trainer.registry import STRATEGIES, resolve
from trainer.strategy.base import Strategy


def build_strategy(config: Config, plan: BatchPlan, device: torch.device) -> Strategy:
    """The strategy of `--strategy`, imported only here.

    Raises:
        UsageError: if its package is missing, or it does not support the flags on this device.
    """
    name = config.parallel.strategy
    try:
        strategy: Strategy = resolve(STRATEGIES[name].target)(config, plan, device)
    except ModuleNotFoundError as error:
        raise UsageError(
            f"--strategy {name} needs the package {error.name}: pip install 'vxtui[trainer]'"
        ) from error
    return strategy
