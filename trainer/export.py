"""`python -m trainer.export CHECKPOINT OUT.safetensors`: the weights of a checkpoint in one file.

Any checkpoint will do, of any strategy and world size; one process reads all of it. ZeRO's weights are
taken from its full-precision copies.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import torch
import torch.distributed.checkpoint as dcp
from safetensors.torch import save_file
from torch.distributed.checkpoint.metadata import TensorStorageMetadata

from trainer.checkpoint.manifest import CheckpointError, Manifest, damage, numbered, read
from trainer.strategy.base import WHOLE, ZERO

TYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def main(argv: Sequence[str] | None = None) -> int:
    """0 done, 2 when there is nothing to export."""
    parser = argparse.ArgumentParser("python -m trainer.export", description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "checkpoint", type=Path, help="a folder step-N, or the one above: then the newest good"
    )
    parser.add_argument("out", type=Path, help="the file to write")
    parser.add_argument("--dtype", choices=TYPES, default="fp32", help="of the weights")
    given = parser.parse_args(argv)
    try:
        path = _pick(given.checkpoint)
        about = read(path)
        found = weights(path, about)
        _write(given.out, found, TYPES[given.dtype], about)
    except CheckpointError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    count = sum(tensor.numel() for tensor in found.values())
    sys.stdout.write(f"{given.out}: {count:,} parameters of step {about.step} ({about.strategy})\n")
    return 0


def weights(path: Path, about: Manifest) -> dict[str, torch.Tensor]:
    """Every weight by its name in the model, on the CPU.

    Raises:
        CheckpointError: when parts of them are elsewhere.
    """
    if about.layout == ZERO:
        return _zero_weights(path)
    if about.layout != WHOLE and not about.shared and about.nodes > 1:
        raise CheckpointError(f"{path} has the part of node {about.node} only; export an uploaded checkpoint")
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

    load_deepspeed(torch.device("cpu"))
    from deepspeed.utils.zero_to_fp32 import get_fp32_state_dict_from_zero_checkpoint

    found: dict[str, torch.Tensor] = get_fp32_state_dict_from_zero_checkpoint(str(path), tag=TAG)
    return found


def _pick(given: Path) -> Path:
    if not given.is_dir():
        raise CheckpointError(f"{given} is no folder")
    for path in [given] if given.name.startswith("step-") else numbered(given):
        problem = damage(path)
        if problem is None:
            return path
        sys.stderr.write(f"checkpoint {path} is passed over: {problem}\n")
    raise CheckpointError(f"{given} has no good checkpoint")


def _write(out: Path, found: dict[str, torch.Tensor], dtype: torch.dtype, about: Manifest) -> None:
    """Under another name first, so that nobody takes half a file for the model."""
    kept: dict[int, str] = {}
    final = {}
    for name, tensor in found.items():
        # Weights that are tied are the same memory, which the format does not know; one name is enough.
        if kept.setdefault(tensor.data_ptr(), name) == name:
            final[name] = tensor.to(dtype).contiguous() if tensor.is_floating_point() else tensor.contiguous()
    new = out.with_name(out.name + ".new")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        save_file(final, new, {"step": str(about.step), "strategy": about.strategy, "format": "pt"})
        new.rename(out)
    except OSError as error:
        raise CheckpointError(f"{out} can't be written: {error.strerror or error}") from error


if __name__ == "__main__":
    sys.exit(main())
