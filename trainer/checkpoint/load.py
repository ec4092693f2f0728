"""Load a checkpoint into the strategy, if it is compatible."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from trainer.checkpoint.finder import FoundCheckpoint
from trainer.checkpoint.manifest import EXTRA_STATE
from trainer.checkpoint.rng_state import set_rng_state
from trainer.distributed.process_group import ProcessGroup
from trainer.errors import UsageError
from trainer.registry import MODELS
from trainer.strategy.base import Strategy
from trainer.strategy.layout import layout_of


def check_compatible(found: FoundCheckpoint, strategy: Strategy, config: Mapping[str, Any]) -> None:
    """Refuse a checkpoint that the strategy can't load, or that is of another model.

    `config` are this run's settings, in the form of the manifest.

    Raises:
        UsageError: with the difference, and how to start with only the weights.
    """
    manifest, path = found.manifest, found.path
    remedy = f"start in another --checkpoint-dir with only its weights: --init-weights {path}"
    if layout_of(manifest.strategy).family != strategy.layout.family:
        raise UsageError(
            f"{path} was saved by {manifest.strategy}, whose files {strategy.name} can't load; continue with "
            f"--strategy {manifest.strategy}, or {remedy}"
        )
    before, now = manifest.config.get("model", {}), config["model"]
    entry = MODELS.get(now["model"])
    for name in ("model", *(entry.shape_flags if entry else ())):
        if before.get(name, now[name]) != now[name]:
            raise UsageError(
                f"{path} was saved with --{name} {before[name]}, this run has {now[name]}; continue with "
                f"--{name} {before[name]}, or {remedy}"
            )


def load(found: FoundCheckpoint, strategy: Strategy, group: ProcessGroup) -> None:
    """Load the state into the strategy, and restore this rank's random state if the world size is the same.

    Raises:
        CheckpointError: when it can't be read.
    """
    extra = torch.load(found.path / EXTRA_STATE, map_location="cpu", weights_only=True)
    strategy.load(found.path, found.manifest.world_size, group.checkpoint_group)
    strategy.load_extra_state(extra["common"])
    if len(extra["rng"]) == group.world_size:
        set_rng_state(extra["rng"][group.rank])
