"""The weights of a checkpoint without its optimizer, to export them or to start another run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import nn

from trainer.checkpoint.manifest import Manifest, damage, read, step_folders
from trainer.cloud_paths import local_path
from trainer.errors import CheckpointError, UsageError
from trainer.strategy.layout import layout_of


def newest_good(given: Path, report: Callable[[str], object]) -> Path:
    """The checkpoint `given`, or the newest good one in the folder `given`; skipped ones are reported.

    Raises:
        CheckpointError: when there is none.
    """
    if not given.is_dir():
        raise CheckpointError(f"{given} is not a folder")
    try:
        folders = [given] if given.name.startswith("step-") else step_folders(given)
    except OSError as error:
        raise CheckpointError(f"{given} can't be listed: {error.strerror}") from error
    for path in folders:
        problem = damage(path)
        if problem is None:
            return path
        report(f"checkpoint {path} is skipped: {problem}")
    raise CheckpointError(f"{given} has no good checkpoint")


def read_weights(path: Path, manifest: Manifest) -> dict[str, torch.Tensor]:
    """Every weight by its name in the model, on the CPU; ZeRO's from its full-precision copies.

    Raises:
        CheckpointError: when some are on another node, or the strategy that saved it is unknown.
    """
    layout = layout_of(manifest.strategy)
    if not layout.replicated and not manifest.shared and manifest.nodes > 1:
        raise CheckpointError(
            f"{path} has only the shards of node {manifest.node}; take an uploaded checkpoint"
        )
    return layout.read_weights(path)


def init_weights(model: nn.Module, where: str, report: Callable[[str], object]) -> str:
    """Load the weights of a .safetensors file or of a checkpoint into the model; return the path.

    Every weight must exist. Low-rank updates that the file lacks keep their initial values.

    Raises:
        UsageError: when there are no such weights, or they are another model's.
    """
    given = local_path(where).expanduser()
    try:
        path = given if given.suffix == ".safetensors" else newest_good(given, report)
        weights = load_file(path) if path.suffix == ".safetensors" else read_weights(path, read(path))
        if weights.keys().isdisjoint(dict(model.named_parameters())):
            # A causal-lm is exported with the names of its own library, without our wrapper's.
            weights = {f"model.{name}": tensor for name, tensor in weights.items()}
        missing, unknown = model.load_state_dict(weights, strict=False)
    except (CheckpointError, SafetensorError, OSError) as error:
        raise UsageError(f"--init-weights {where}: {error}") from error
    except RuntimeError as error:
        # Its first line names only the class, the second one the first weight of another shape.
        reason = str(error).splitlines()[1:2] or [str(error)]
        raise UsageError(f"--init-weights {where}: they are another model's: {reason[0].strip()}") from error
    # Tied weights and buffers that are never saved are in the model already.
    missing = [name for name in dict(model.named_parameters()) if name in missing]
    for names, problem in ((missing, "they lack"), (unknown, "the model does not know")):
        if names:
            more = f" and {len(names) - 1} more" if len(names) > 1 else ""
            raise UsageError(f"--init-weights {where}: they are another model's: {problem} {names[0]}{more}")
    return str(path)
