"""Load a checkpoint into the strategy if the model is the same and the training curve continues."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import torch

from trainer.checkpoint.finder import FoundCheckpoint
from trainer.checkpoint.manifest import EXTRA_STATE, Manifest
from trainer.checkpoint.rng_state import set_rng_state
from trainer.config import OptimizerConfig
from trainer.distributed.process_group import ProcessGroup
from trainer.errors import CheckpointError, UsageError, one_line
from trainer.registry import model_entry
from trainer.strategy.base import Strategy
from trainer.strategy.layout import layout_of

_CURVE = (
    ("seed", ""), ("batch", "data"), ("dropout", "model"), ("lora_alpha", "model"), ("lora_dropout", "model"),
    *((item.name, "optimizer") for item in fields(OptimizerConfig)),
)  # fmt: skip
"""Settings that change the training curve, with their sections."""
_REPORTED = (
    ("steps", ""), ("strategy", "parallel"), ("compile", "parallel"), ("logits_memory", "parallel"),
    ("micro_batch", "data"),
    ("data_parallel_replicate", "parallel"), ("tensor_parallel", "parallel"),
    ("guard", "guard"), ("guard_patience", "guard"), ("spike", "guard"),
)  # fmt: skip
"""Settings whose changes are only logged, with their sections."""


@dataclass(frozen=True, slots=True)
class ChangedSetting:
    """A setting, or `data` or `precision`, whose value differs from the checkpoint's value."""

    name: str
    before: object
    now: object
    changes_curve: bool

    def __str__(self) -> str:
        return f"{self.name} {self.before} → {self.now}"


def check_compatible(checkpoint: FoundCheckpoint, strategy: Strategy, config: Mapping[str, Any]) -> None:
    """Refuse a checkpoint of another model, or a checkpoint that the strategy can't load.

    `config` are this run's settings, in the format of the manifest.

    Raises:
        UsageError: if they differ; the message names the difference and a flag to load only the weights.
    """
    manifest, path = checkpoint.manifest, checkpoint.path
    remedy = f"start in another --checkpoint-dir with only its weights: --init-weights {path}"
    if layout_of(manifest.strategy, manifest.layout).family != strategy.layout.family:
        raise UsageError(
            f"{path} was saved by {manifest.strategy}, whose files {strategy.name} can't load; continue with "
            f"--strategy {manifest.strategy}, or {remedy}"
        )
    before, now = manifest.config.get("model", {}), config["model"]
    entry = model_entry(now["model"])
    for name in ("model", *(entry.shape_flags if entry else ())):
        if before.get(name, now[name]) != now[name]:
            flag, saved = f"--{name.replace('_', '-')}", before[name]
            raise UsageError(
                f"{path} was saved with {flag} {saved}, but this run has {now[name]}; continue with "
                f"{flag} {saved}, or {remedy}"
            )


def changes(
    saved: Manifest, config: Mapping[str, Any], data: Mapping[str, Any], precision: str
) -> list[ChangedSetting]:
    """Return the differences between the checkpoint and this run. Settings that only the checkpoint or only
    this run has are left out."""
    return list(_changes(saved, config, data, precision))


def _changes(
    saved: Manifest, config: Mapping[str, Any], data: Mapping[str, Any], precision: str
) -> Iterator[ChangedSetting]:
    for names, curve in ((_CURVE, True), (_REPORTED, False)):
        for name, section in names:
            before = (saved.config.get(section, {}) if section else saved.config).get(name)
            now = (config[section] if section else config)[name]
            if before is not None and before != now:
                yield ChangedSetting(name.replace("_", "-"), before, now, curve)
    if saved.data and saved.data != data:
        # An evaluation holds out samples, which a run without evaluations trains on.
        before, now = (bool(every) for every in (saved.config.get("eval_every", 0), config["eval_every"]))
        why = " by --eval-every, which holds out samples" if before != now else ""
        yield ChangedSetting("data", _data(saved.data), _data(data) + why, True)
    if saved.precision and saved.precision != precision:
        yield ChangedSetting("precision", saved.precision, precision, True)


def _data(fingerprint: Mapping[str, Any]) -> str:
    return f"{fingerprint['samples']:,} samples ({str(fingerprint['hash'])[:8] or 'of unknown content'})"


def check_changes(
    checkpoint: FoundCheckpoint, changed: Sequence[ChangedSetting], allowed: Sequence[str]
) -> None:
    """Refuse changes of the training curve that `allowed` does not name. Raises UsageError naming all refused
    changes and the flag that allows them."""
    manifest = checkpoint.manifest
    family = layout_of(manifest.strategy, manifest.layout).family
    for change in changed:
        if change.name == "optimizer" and family != "dcp":
            raise UsageError(
                f"{checkpoint.path} was saved with --optimizer {change.before}, and DeepSpeed can't load its "
                f"state into {change.now}: continue with --optimizer {change.before}, or start in another "
                f"--checkpoint-dir with only its weights: --init-weights {checkpoint.path}"
            )
    refused = [change for change in changed if change.changes_curve and change.name not in allowed]
    if refused:
        names = ",".join(dict.fromkeys([*allowed, *(change.name for change in refused)]))
        raise UsageError(
            f"{checkpoint.path} was saved with other settings: {', '.join(map(str, refused))}. The "
            "run would not be the same: continue with the saved settings, allow the change with "
            f"--allow-change {names}, or begin a new run in another --checkpoint-dir"
        )


def load(checkpoint: FoundCheckpoint, strategy: Strategy, group: ProcessGroup) -> None:
    """Load the state into the strategy, and restore this rank's random state if the world size is unchanged.

    Raises:
        CheckpointError: if the checkpoint can't be read.
    """
    file = checkpoint.path / EXTRA_STATE
    try:
        extra = torch.load(file, map_location="cpu", weights_only=True)
    # torch's reader raises errors of many types for a damaged file.
    except Exception as error:
        raise CheckpointError(f"{file} can't be read: {one_line(error)}") from error
    strategy.load(checkpoint.path, checkpoint.manifest.world_size, group.checkpoint_group)
    strategy.load_extra_state(extra["common"])
    # Ranks of a tensor-parallel group draw the same numbers; with other groups their states would differ.
    before = checkpoint.manifest.config.get("parallel", {}).get("tensor_parallel", 1)
    if len(extra["rng"]) == group.world_size and before == strategy.describe().get("tensor_parallel", 1):
        set_rng_state(extra["rng"][group.rank])
