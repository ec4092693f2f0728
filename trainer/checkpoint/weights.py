"""The weights of a checkpoint by themselves: to export them, or to start another run with."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed.checkpoint as dcp
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import nn
from torch.distributed.checkpoint.metadata import TensorStorageMetadata

from trainer.checkpoint.manifest import CheckpointError, Manifest, damage, numbered, read
from trainer.config import UsageError
from trainer.paths import local_path
from trainer.strategy.base import WHOLE, ZERO


def newest_good(given: Path, report: Callable[[str], object]) -> Path:
    """The checkpoint `given`, or the newest good one of the folder `given`; what is passed over is reported.

    Raises:
        CheckpointError: when there is none.
    """
    if not given.is_dir():
        raise CheckpointError(f"{given} is no folder")
    for path in [given] if given.name.startswith("step-") else numbered(given):
        problem = damage(path)
        if problem is None:
            return path
        report(f"checkpoint {path} is passed over: {problem}")
    raise CheckpointError(f"{given} has no good checkpoint")


def weights(path: Path, about: Manifest) -> dict[str, torch.Tensor]:
    """Every weight by its name in the model, on the CPU; ZeRO's from its full-precision copies.

    Raises:
        CheckpointError: when parts of them are elsewhere.
    """
    if about.layout == ZERO:
        return _zero_weights(path)
    if about.layout != WHOLE and not about.shared and about.nodes > 1:
        raise CheckpointError(f"{path} has the part of node {about.node} only; take an uploaded checkpoint")
    reader = dcp.FileSystemReader(path)
    state = {
        name: torch.empty(item.size, dtype=item.properties.dtype)
        for name, item in reader.read_metadata().state_dict_metadata.items()
        if name.startswith("model.") and isinstance(item, TensorStorageMetadata)
    }
    dcp.load(state, storage_reader=reader, no_dist=True)
    return {name.removeprefix("model."): tensor for name, tensor in state.items()}


def _zero_weights(path: Path) -> dict[str, torch.Tensor]:
    from trainer.strategy.deepspeed import TAG, load_deepspeed

    # A strategy that has loaded it already did so for its own device.
    if "deepspeed" not in sys.modules:
        load_deepspeed(torch.device("cpu"))
    from deepspeed.utils.zero_to_fp32 import get_fp32_state_dict_from_zero_checkpoint

    found: dict[str, torch.Tensor] = get_fp32_state_dict_from_zero_checkpoint(str(path), tag=TAG)
    return found


def start_with(model: nn.Module, where: str, report: Callable[[str], object]) -> str:
    """Give the model the weights of a .safetensors file or of a checkpoint; the path they were taken from.

    Every weight must be there. What low-rank updates add to a layer is left as it is, if they are new.

    Raises:
        UsageError: when there are no such weights, or they are another model's.
    """
    given = local_path(where).expanduser()
    try:
        path = given if given.suffix == ".safetensors" else newest_good(given, report)
        found = load_file(path) if path.suffix == ".safetensors" else weights(path, read(path))
        if found.keys().isdisjoint(dict(model.named_parameters())):
            # A causal-lm is exported by the names of its own library, without our wrapper's.
            found = {f"model.{name}": tensor for name, tensor in found.items()}
        missing, unknown = model.load_state_dict(found, strict=False)
    except (CheckpointError, SafetensorError, OSError) as error:
        raise UsageError(f"--init-weights {where}: {error}") from error
    except RuntimeError as error:
        # Its first line names the class only, the second the first weight of another shape.
        reason = str(error).splitlines()[1:2] or [str(error)]
        raise UsageError(f"--init-weights {where}: they are another model's: {reason[0].strip()}") from error
    # Of tied weights, and of what was never saved, the model has them already.
    missing = [name for name in dict(model.named_parameters()) if name in missing]
    for names, said in ((missing, "they lack"), (unknown, "the model does not know")):
        if names:
            more = f" and {len(names) - 1} more" if len(names) > 1 else ""
            raise UsageError(f"--init-weights {where}: they are another model's: {said} {names[0]}{more}")
    return str(path)
