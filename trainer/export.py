"""`python -m trainer.export CHECKPOINT OUT`: the weights of a checkpoint, for others to read.

OUT is a file NAME.safetensors, or a folder, in which they lie as Hugging Face's libraries look for them: in
files of at most --shard-size, for a causal-lm with its config.json beside them. Any checkpoint will do, of
any strategy and world size; one process reads all of it. ZeRO's weights are taken from its full-precision
copies.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from safetensors.torch import save_file

from trainer.checkpoint.manifest import CheckpointError, Manifest, read
from trainer.checkpoint.weights import newest_good, weights
from trainer.paths import local_path

TYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


INDEX = "model.safetensors.index.json"
"""Says which file of a folder has which weight."""


def main(argv: Sequence[str] | None = None) -> int:
    """0 done, 2 when there is nothing to export."""
    parser = argparse.ArgumentParser("python -m trainer.export", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("checkpoint", help="a folder step-N, or the one above: then the newest good")
    parser.add_argument("out", help="NAME.safetensors, or a folder; gs:// where mounted, as above")
    parser.add_argument("--dtype", choices=TYPES, default="fp32", help="of the weights")
    parser.add_argument("--shard-size", type=float, default=5.0, help="GB that a file of a folder may have")
    given = parser.parse_args(argv)
    out = local_path(given.out)
    try:
        path = newest_good(local_path(given.checkpoint), lambda text: sys.stderr.write(f"{text}\n"))
        about = read(path)
        found = _as_exported(weights(path, about), about, TYPES[given.dtype])
        if out.suffix == ".safetensors":
            _write(out, found, about)
        else:
            _write_folder(out, found, about, round(given.shard_size * 1e9))
    except CheckpointError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    count = sum(tensor.numel() for tensor in found.values())
    sys.stdout.write(f"{out}: {count:,} parameters of step {about.step} ({about.strategy})\n")
    return 0


def _as_exported(
    found: dict[str, torch.Tensor], about: Manifest, dtype: torch.dtype
) -> dict[str, torch.Tensor]:
    """Each weight once, in `dtype`, by the name that the model's own library gives it."""
    kept: dict[int, str] = {}
    final = {}
    # A model of Hugging Face's is a part of ours, `model`.
    wrapper = "model." if _kind(about) == "causal-lm" else ""
    for name, tensor in found.items():
        # Weights that are tied are the same memory, which the format does not know; one name is enough.
        if kept.setdefault(tensor.data_ptr(), name) == name:
            cast = tensor.to(dtype) if tensor.is_floating_point() else tensor
            final[name.removeprefix(wrapper)] = cast.contiguous()
    return final


def _kind(about: Manifest) -> str:
    return str(about.config.get("model", {}).get("model", ""))


def _write_folder(out: Path, found: dict[str, torch.Tensor], about: Manifest, most: int) -> None:
    """As many files as it takes, and the index of them last."""
    there = sorted(out.glob("model*.safetensors*"))
    if there:
        raise CheckpointError(f"{out} has weights already ({there[0].name}); give another folder")
    shards = list(_shards(found, most))
    where: dict[str, str] = {}
    for number, names in enumerate(shards, 1):
        file = (
            f"model-{number:05}-of-{len(shards):05}.safetensors" if len(shards) > 1 else "model.safetensors"
        )
        _write(out / file, {name: found[name] for name in names}, about)
        where |= dict.fromkeys(names, file)
    if _kind(about) == "causal-lm":
        _write_config(out, about)
    if len(shards) > 1:
        size = sum(tensor.nbytes for tensor in found.values())
        index = {"metadata": {"total_size": size}, "weight_map": where}
        try:
            (out / INDEX).write_text(json.dumps(index, indent=1))
        except OSError as error:
            raise CheckpointError(f"{out / INDEX} can't be written: {error.strerror or error}") from error


def _shards(found: dict[str, torch.Tensor], most: int) -> Iterator[list[str]]:
    """Names of the weights of each file, in their order; one that is larger by itself has its own."""
    names: list[str] = []
    size = 0
    for name, tensor in found.items():
        if names and size + tensor.nbytes > most:
            yield names
            names, size = [], 0
        names.append(name)
        size += tensor.nbytes
    if names:
        yield names


def _write_config(out: Path, about: Manifest) -> None:
    """The model's settings beside its weights; without them nobody could load the folder."""
    where = str(about.config["model"].get("weights", ""))
    try:
        from trainer.models.causal_lm import config_of

        config_of(where).save_pretrained(out)
    except (ImportError, OSError, ValueError) as error:
        raise CheckpointError(f"no config.json for {out}: {where} can't be read here: {error}") from error


def _write(out: Path, found: dict[str, torch.Tensor], about: Manifest) -> None:
    """Under another name first, so that nobody takes half a file for the model."""
    new = out.with_name(out.name + ".new")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        save_file(found, new, {"step": str(about.step), "strategy": about.strategy, "format": "pt"})
        new.rename(out)
    except OSError as error:
        raise CheckpointError(f"{out} can't be written: {error.strerror or error}") from error


if __name__ == "__main__":
    sys.exit(main())
