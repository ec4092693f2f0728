"""`python -m trainer.export CHECKPOINT OUT`: export the weights of a checkpoint.

OUT is a file NAME.safetensors, or a folder for the libraries of Hugging Face. The folder has files of at most
--shard-size, the tokenizer, and for a causal-lm config.json and generation_config.json. A run with
--lora-rank is exported as an adapter in the format of peft, or with --merge as the complete model including
the updates. The checkpoint may be of any strategy and world size. The export runs in one process; for a
folder without --merge it has at most one file in memory. ZeRO's weights are read from its full-precision
copies.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from safetensors.torch import save_file

from trainer.checkpoint.manifest import Manifest, read
from trainer.checkpoint.weights import newest_good, open_weights
from trainer.cloud_paths import local_path
from trainer.config import names_in
from trainer.errors import CheckpointError, one_line
from trainer.models.adapter import CONFIG, WEIGHTS, adapter_config, adapter_weights
from trainer.models.lora import is_update, merged
from trainer.models.tokenizer_files import copy_tokenizer
from trainer.registry import MODELS, ModelEntry
from trainer.weights.hugging_face import INDEX
from trainer.weights.saved import LazyWeights, SavedWeights

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return 0, or 2 if the weights can't be exported."""
    parser = argparse.ArgumentParser(
        "python -m trainer.export", description="Export the weights of a checkpoint."
    )
    parser.add_argument(
        "checkpoint", help="a folder step-N, or its parent folder to use the newest good checkpoint"
    )
    parser.add_argument("out", help="NAME.safetensors, or a folder; gs:// only with mounted buckets")
    parser.add_argument("--dtype", choices=DTYPES, default="fp32", help="type of the weights")
    parser.add_argument("--shard-size", type=float, default=5.0, help="max size in GB of a file in a folder")
    parser.add_argument(
        "--merge",
        action="store_true",
        help="for a run with --lora-rank: export the complete model with its updates",
    )
    options = parser.parse_args(argv)
    out = local_path(options.out)
    try:
        path = newest_good(local_path(options.checkpoint), _warn)
        manifest = read(path)
        saved, model = open_weights(path, manifest), manifest.config.get("model", {})
        rank, alpha = model.get("lora_rank", 0), model.get("lora_alpha", 0.0)
        if options.merge and not rank:
            raise CheckpointError(f"--merge: {path} belongs to a run without --lora-rank")
        if options.merge:
            every = _Exported(saved, "", torch.float32)
            saved = LazyWeights(merged(every.read(every.names), alpha / rank))
        # In our wrapper `model` is Hugging Face's model.
        wrapper = "model." if _model_name(manifest) == "causal-lm" else ""
        weights = _Exported(saved, wrapper, DTYPES[options.dtype])
        count = weights.count
        if rank and not options.merge:
            count = _write_adapter(out, weights, manifest)
        elif out.suffix == ".safetensors":
            _write(out, weights.read(weights.names), manifest)
        else:
            _write_folder(out, weights, manifest, round(options.shard_size * 1e9))
    except CheckpointError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    sys.stdout.write(f"{out}: {count:,} parameters of step {manifest.step} ({manifest.strategy})\n")
    return 0


class _Exported:
    """The weights to export, by their names in the model's own library, converted to the target type."""

    def __init__(self, saved: SavedWeights, wrapper: str, dtype: torch.dtype) -> None:
        self._saved, self._dtype = saved, dtype
        self._saved_as = {name.removeprefix(wrapper): name for name in saved.shapes}
        self.names = list(self._saved_as)
        self.count = sum(shape.numel() for shape in saved.shapes.values())

    def bytes(self, name: str) -> int:
        return self._saved.shapes[self._saved_as[name]].numel() * self._type(name).itemsize

    def read(self, names: Sequence[str]) -> dict[str, torch.Tensor]:
        """Read these weights. Raises CheckpointError."""
        tensors = {n: torch.empty(self._saved.shapes[self._saved_as[n]], dtype=self._type(n)) for n in names}
        try:
            self._saved.fill({self._saved_as[name]: tensor for name, tensor in tensors.items()})
        except (OSError, RuntimeError, ValueError) as error:
            raise CheckpointError(f"the weights can't be read: {one_line(error)}") from error
        return tensors

    def _type(self, name: str) -> torch.dtype:
        saved = self._saved.dtypes[self._saved_as[name]]
        return self._dtype if saved.is_floating_point else saved


def _write_adapter(out: Path, weights: _Exported, manifest: Manifest) -> int:
    """Write the updates as an adapter for the model of --weights; return the number of parameters."""
    if out.suffix == ".safetensors":
        raise CheckpointError(
            f"{out} must be a folder for an adapter; use a folder, or --merge for the complete model"
        )
    if (out / WEIGHTS).exists():
        raise CheckpointError(f"{out} already has an adapter; use another folder")
    names = [name for name in weights.names if is_update(name)]
    model, adapter = manifest.config["model"], adapter_weights(weights.read(names))
    if model["init_weights"] or model["weights"].endswith(".json"):
        _warn(
            f"the adapter belongs to a model with other weights than {model['weights']}: only --merge "
            "exports those weights too"
        )
    description = adapter_config(
        model["weights"],
        adapter,
        targets=names_in(model["lora_targets"]),
        alpha=model["lora_alpha"],
        dropout=model["lora_dropout"],
    )
    _write(out / WEIGHTS, adapter, manifest)
    try:
        (out / CONFIG).write_text(json.dumps(description, indent=2))
    except OSError as error:
        raise CheckpointError(f"{out / CONFIG} can't be written: {error.strerror or error}") from error
    _write_tokenizer(out, manifest)
    return sum(tensor.numel() for tensor in adapter.values())


def _write_tokenizer(out: Path, manifest: Manifest) -> None:
    """Copy the tokenizer's files; without a tokenizer the weights are still usable."""
    if not MODELS.get(_model_name(manifest), ModelEntry("")).text:
        return
    try:
        problem = copy_tokenizer(out, manifest.config)
    except OSError as error:
        problem = f"{error.filename}: {error.strerror or error}"
    if problem:
        _warn(f"no tokenizer in {out}: {problem}")


def _warn(text: str) -> None:
    """Write a warning with its level: a platform labels each line on stderr an error."""
    sys.stderr.write(f"WARNING: {text}\n")


def _model_name(manifest: Manifest) -> str:
    return str(manifest.config.get("model", {}).get("model", ""))


def _write_folder(out: Path, weights: _Exported, manifest: Manifest, max_bytes: int) -> None:
    """Write the files one by one, and the index last; only one file is in memory."""
    existing = sorted(out.glob("model*.safetensors*"))
    if existing:
        raise CheckpointError(f"{out} already has weights ({existing[0].name}); use another folder")
    shards = list(_shards(weights, max_bytes))
    weight_map: dict[str, str] = {}
    for number, names in enumerate(shards, 1):
        file = (
            f"model-{number:05}-of-{len(shards):05}.safetensors" if len(shards) > 1 else "model.safetensors"
        )
        _write(out / file, weights.read(names), manifest)
        weight_map |= dict.fromkeys(names, file)
    if _model_name(manifest) == "causal-lm":
        _write_config(out, manifest)
    _write_tokenizer(out, manifest)
    if len(shards) > 1:
        size = sum(map(weights.bytes, weights.names))
        index = {"metadata": {"total_size": size}, "weight_map": weight_map}
        try:
            (out / INDEX).write_text(json.dumps(index, indent=1))
        except OSError as error:
            raise CheckpointError(f"{out / INDEX} can't be written: {error.strerror or error}") from error


def _shards(weights: _Exported, max_bytes: int) -> Iterator[list[str]]:
    """Yield the names of the weights of each file, in order; a weight above the limit gets its own file."""
    names: list[str] = []
    size = 0
    for name in weights.names:
        if names and size + weights.bytes(name) > max_bytes:
            yield names
            names, size = [], 0
        names.append(name)
        size += weights.bytes(name)
    if names:
        yield names


def _write_config(out: Path, manifest: Manifest) -> None:
    """Write the model's config.json, which loading the folder requires."""
    where = str(manifest.config["model"].get("weights", ""))
    try:
        from trainer.models.causal_lm import GENERATION, generation_file, load_config

        load_config(where).save_pretrained(out)
        # transformers loads some of these files, but refuses to write them.
        if file := generation_file(where):
            shutil.copyfile(file, out / GENERATION)
    except (ImportError, OSError, ValueError) as error:
        raise CheckpointError(f"no config.json for {out}: {where} can't be read here: {error}") from error


def _write(out: Path, weights: dict[str, torch.Tensor], manifest: Manifest) -> None:
    """Write under a temporary name first: no reader sees an incomplete file."""
    new = out.with_name(out.name + ".new")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        save_file(weights, new, {"step": str(manifest.step), "strategy": manifest.strategy, "format": "pt"})
        new.rename(out)
    except OSError as error:
        raise CheckpointError(f"{out} can't be written: {error.strerror or error}") from error


if __name__ == "__main__":
    sys.exit(main())
