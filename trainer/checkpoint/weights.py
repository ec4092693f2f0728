"""Weights of a checkpoint without its optimizer, for an export or the start of another run."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from torch import nn

from trainer.checkpoint.manifest import Manifest, damage, read, step_folders
from trainer.cloud_paths import local_path
from trainer.errors import CheckpointError, UsageError, one_line
from trainer.strategy.layout import layout_of
from trainer.weights.saved import SafetensorsWeights, SavedWeights
from trainer.weights.source import OverlaidWeights, RenamedWeights, WeightSource


def newest_good(path: Path, report: Callable[[str], object]) -> Path:
    """Return the checkpoint at `path`, or the newest good checkpoint in the folder; report each skipped
    checkpoint. Raises CheckpointError if there is no good checkpoint."""
    if not path.is_dir():
        raise CheckpointError(f"{path} is not a folder")
    try:
        folders = [path] if path.name.startswith("step-") else step_folders(path)
    except OSError as error:
        raise CheckpointError(f"{path} can't be listed: {error.strerror}") from error
    for folder in folders:
        problem = damage(folder)
        if problem is None:
            return folder
        report(f"checkpoint {folder} is skipped: {problem}")
    raise CheckpointError(f"{path} has no good checkpoint")


def open_weights(path: Path, manifest: Manifest) -> SavedWeights:
    """Open every weight by its name in the model; for ZeRO, the full-precision copies. Raises CheckpointError
    if some weights are on another node, or the strategy that saved them is unknown."""
    layout = layout_of(manifest.strategy, manifest.layout)
    if not layout.replicated and not manifest.shared and manifest.nodes > 1:
        raise CheckpointError(
            f"{path} has only the shards of node {manifest.node}; use an uploaded checkpoint"
        )
    return layout.open_weights(path)


def init_weights(
    model: nn.Module, source: WeightSource | None, where: str, report: Callable[[str], object]
) -> tuple[str, WeightSource]:
    """Load the weights of a .safetensors file, of a folder of them, or of a checkpoint into the model.

    Every weight must exist, except low-rank updates, which may keep their initial values. Returns the path,
    and the new source of weights on the meta device, which replaces `source`.

    Raises:
        UsageError: if there are no weights, or they do not match the model.
    """
    location = local_path(where)
    try:
        path, saved = _open(location, report)
        names = _matched(model, saved.shapes)
        loaded = RenamedWeights(saved, names)
        state = model.state_dict()
        loaded.fill({name: state[name] for name in names if not state[name].is_meta})
    except UsageError as error:
        raise UsageError(f"--init-weights {where}: the weights do not match this model: {error}") from error
    except (CheckpointError, SafetensorError, OSError, RuntimeError) as error:
        raise UsageError(f"--init-weights {where}: {one_line(error)}") from error
    return str(path), OverlaidWeights(loaded, source)


def _open(location: Path, report: Callable[[str], object]) -> tuple[Path, SavedWeights]:
    if location.suffix == ".safetensors":
        return location, SafetensorsWeights([location])
    files = sorted(location.glob("model*.safetensors"))
    if files:
        return location, SafetensorsWeights(files)
    path = newest_good(location, report)
    return path, open_weights(path, read(path))


def _matched(model: nn.Module, shapes: Mapping[str, torch.Size]) -> dict[str, str]:
    """Return the name in the file of each weight and buffer of the model.

    The model's own `load_state_dict` matches the names, with tensors that have no memory: modules with
    low-rank updates have several names for a weight.

    Raises:
        UsageError: if a name or shape does not match; the message names the first such name.
    """
    own = dict(model.named_parameters())
    # An exported causal-lm has its library's names, without our wrapper's prefix.
    wrapper = "model." if shapes.keys().isdisjoint(own) else ""
    stand_ins = {
        f"{wrapper}{name}": nn.Parameter(torch.empty(shape, device="meta"), requires_grad=False)
        for name, shape in shapes.items()
    }
    saved_as = {id(weight): name.removeprefix(wrapper) for name, weight in stand_ins.items()}
    tensors = [*model.parameters(), *model.buffers()]
    probe = copy.deepcopy(model, {id(tensor): _without_memory(tensor) for tensor in tensors})
    try:
        missing, unknown = probe.load_state_dict(stand_ins, strict=False, assign=True)
    except RuntimeError as error:
        # The first line names only the class; the second line names the first weight with another shape.
        reason = str(error).splitlines()[1:2] or [str(error)]
        raise UsageError(reason[0].strip()) from error
    # Tied weights and buffers that are never saved are already in the model.
    for names, problem in (
        ([n for n in own if n in missing], "missing"),
        (unknown, "unknown to the model"),
    ):
        if names:
            more = f" and {len(names) - 1} more" if len(names) > 1 else ""
            verb = "are" if more else "is"
            raise UsageError(f"{names[0]}{more} {verb} {problem}")
    loaded = {**dict(probe.named_parameters(remove_duplicate=False)), **dict(probe.named_buffers())}
    known = [*own, *(name for name, _ in model.named_buffers())]
    return {name: saved_as[id(loaded[name])] for name in known if id(loaded[name]) in saved_as}


def _without_memory(tensor: torch.Tensor) -> torch.Tensor:
    empty = torch.empty_like(tensor, device="meta")
    return nn.Parameter(empty, tensor.requires_grad) if isinstance(tensor, nn.Parameter) else empty
