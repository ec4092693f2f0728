"""The strategy that `--strategy` names."""

from __future__ import annotations

import torch

from trainer.config import Config
from trainer.distributed.batch_plan import BatchPlan
from trainer.errors import UsageError
from trainer.registry import STRATEGIES, resolve
from trainer.strategy.base import Strategy


def build_strategy(
    config: Config, plan: BatchPlan, device: torch.device, *, elastic: bool = False
) -> Strategy:
    """Build the strategy of `--strategy`, or with `elastic` a strategy whose ranks can change.

    The function imports only the module of this strategy, because packages of other strategies may be
    missing.

    Raises:
        UsageError: if its package is missing, or it does not support the flags on this device.
    """
    name = config.parallel.strategy
    try:
        entry = STRATEGIES[name]
        strategy: Strategy = resolve(entry.elastic if elastic else entry.target)(config, plan, device)
    except ModuleNotFoundError as error:
        raise UsageError(
            f"--strategy {name} needs the package {error.name}: pip install 'vxtui[trainer]'"
        ) from error
    return strategy
