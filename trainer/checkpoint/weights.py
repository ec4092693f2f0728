"""The weights of a checkpoint without its optimizer, to export them or to start another run."""

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


def open_weights(path: Path, manifest: Manifest) -> SavedWeights:
    """Every weight by its name in the model; ZeRO's are its full-precision copies.

    Raises:
        CheckpointError: when some are on another node, or the strategy that saved it is unknown.
    """
    layout = layout_of(manifest.strategy, manifest.layout)
    if not layout.replicated and not manifest.shared and manifest.nodes > 1:
        raise CheckpointError(
            f"{path} has only the shards of node {manifest.node}; take an uploaded checkpoint"
        )
    return layout.open_weights(path)


def init_weights(
    model: nn.Module, source: WeightSource | None, where: str, report: Callable[[str], object]
) -> tuple[str, WeightSource]:
    """Load the weights of a .safetensors file, of a folder of them, or of a checkpoint into the model.

    Every weight must exist. Low-rank updates that the file lacks keep their initial values. Returns the path,
    and the source of those on the meta device, of which `source` has been the former one.

    Raises:
        UsageError: when there are no such weights, or they are another model's.
    """
    given = local_path(where)
    try:
        path, saved = _open(given, report)
        names = _matched(model, saved.shapes)
        loaded = RenamedWeights(saved, names)
        state = model.state_dict()
        loaded.fill({name: state[name] for name in names if not state[name].is_meta})
    except UsageError as error:
        raise UsageError(f"--init-weights {where}: they are another model's: {error}") from error
    except (CheckpointError, SafetensorError, OSError, RuntimeError) as error:
        raise UsageError(f"--init-weights {where}: {one_line(error)}") from error
    return str(path), OverlaidWeights(loaded, source)


def _open(given: Path, report: Callable[[str], object]) -> tuple[Path, SavedWeights]:
    if given.suffix == ".safetensors":
        return given, SafetensorsWeights([given])
    files = sorted(given.glob("model*.safetensors"))
    if files:
        return given, SafetensorsWeights(files)
    path = newest_good(given, report)
    return path, open_weights(path, read(path))


def _matched(model: nn.Module, shapes: Mapping[str, torch.Size]) -> dict[str, str]:
    """The name in the file of each weight and buffer that it has.

    The model's own `load_state_dict` matches them, with tensors that have no memory: modules with low-rank
    updates know more than one name of a weight.

    Raises:
        UsageError: with the first name or shape that does not match.
    """
    own = dict(model.named_parameters())
    # A causal-lm is exported with the names of its own library, without our wrapper's.
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
        # Its first line names only the class, the second one the first weight of another shape.
        reason = str(error).splitlines()[1:2] or [str(error)]
        raise UsageError(reason[0].strip()) from error
    # Tied weights and buffers that are never saved are in the model already.
    for names, problem in (
        ([n for n in own if n in missing], "they lack"),
        (unknown, "the model does not know"),
    ):
        if names:
            more = f" and {len(names) - 1} more" if len(names) > 1 else ""
            raise UsageError(f"{problem} {names[0]}{more}")
    loaded = {**dict(probe.named_parameters(remove_duplicate=False)), **dict(probe.named_buffers())}
    known = [*own, *(name for name, _ in model.named_buffers())]
    return {name: saved_as[id(loaded[name])] for name in known if id(loaded[name]) in saved_as}


def _without_memory(tensor: torch.Tensor) -> torch.Tensor:
    empty = torch.empty_like(tensor, device="meta")
    return nn.Parameter(empty, tensor.requires_grad) if isinstance(tensor, nn.Parameter) else empty
