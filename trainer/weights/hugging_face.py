"""Hugging Face models on the meta device, with random weights of transformers, or a folder's weights."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from trainer.errors import UsageError
from trainer.weights.saved import SafetensorsWeights
from trainer.weights.source import RenamedWeights, WeightSource, copy_part, seed_of, weights_on_meta

INDEX = "model.safetensors.index.json"
"""Maps each weight to its file in a folder."""


class DeferredModel:
    """A Hugging Face model on the meta device, with the source of its weights."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._names: dict[nn.Parameter, str] = {}
        self._source: WeightSource | None = None

    def build(self, make: Callable[[], Any], folder: str = "") -> Any | None:
        """Return the model that `make` creates; with the weights of `folder` (a folder or name), or random
        weights if `folder` is empty.

        The result is `None` if the weights can't be read part by part: the folder has no safetensors files,
        is quantised, or has other names than the model.
        """
        with weights_on_meta():
            model = make()
        names = {name: param for name, param in model.named_parameters() if param.is_meta}
        if folder:
            self._source = folder_source(model, names, folder)
            if self._source is None:
                return None
        else:
            self._source = RandomWeights(model, self._seed)
        self._names = {param: name for name, param in names.items()}
        return model

    def source(self, root: nn.Module) -> WeightSource | None:
        """Return the source of these weights by their names in `root`, of which the model is a part. Call it
        before a strategy replaces the parameters. `None` if the weights were loaded with the model."""
        names = {name: self._names[param] for name, param in root.named_parameters() if param in self._names}
        return RenamedWeights(self._source, names) if self._source is not None else None


class RandomWeights:
    """A `WeightSource` that calls a model's own `_init_weights`, in units with a seed each.

    A unit is an element of a list of modules (a layer), or any other module with weights. Memory holds at
    most one complete unit. Settings of a model's outermost class for all of its layers are left out.
    """

    def __init__(self, model: Any, seed: int) -> None:
        """`model` is on the meta device."""
        # A strategy changes the modules of the model itself, so keep a copy.
        self._model, self._seed = copy.deepcopy(model), seed
        self._units = {name: unit for unit, names in _units(self._model).items() for name in names}

    @torch.no_grad()
    def fill(self, weights: Mapping[str, torch.Tensor]) -> None:
        by_unit: dict[_Unit, dict[str, torch.Tensor]] = {}
        for name, weight in weights.items():
            by_unit.setdefault(self._units[name], {})[name] = weight
        for unit, unit_weights in by_unit.items():
            whole = self._random(unit)
            for name, weight in unit_weights.items():
                if whole[name].isnan().any():
                    raise UsageError(
                        f"--weights: {type(self._model).__name__} has no initial value for {name}; "
                        "use a folder with weights"
                    )
                copy_part(whole[name], weight)

    def _random(self, unit: _Unit) -> dict[str, torch.Tensor]:
        """Return the random weights of a unit, by their names in the model."""
        own = copy.deepcopy(self._model.get_submodule(unit.path))
        for module in own.modules() if unit.whole else (own,):
            for name, param in list(module.named_parameters(recurse=False, remove_duplicate=False)):
                unset = torch.full(param.shape, torch.nan, dtype=param.dtype)
                setattr(module, name, nn.Parameter(unset, requires_grad=False))
        owner = _owner(self._model, unit.path)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed_of(unit.path, self._seed))
            _initialize(own, owner) if unit.whole else owner._init_weights(own)
        prefix = f"{unit.path}." if unit.path else ""
        return {f"{prefix}{name}": param.detach() for name, param in own.named_parameters()}


@dataclass(frozen=True, slots=True)
class _Unit:
    """A module by its path. With `whole` its submodules are included, otherwise only its own weights."""

    path: str
    whole: bool


def _initialize(module: nn.Module, owner: Any) -> None:
    """Initialize a module as transformers' `initialize_weights` does: children first, each by its model."""
    from transformers import PreTrainedModel  # noqa: PLC0415 - imports for seconds

    for child in module.children():
        _initialize(child, child if isinstance(child, PreTrainedModel) else owner)
    owner._init_weights(module)


def _owner(model: Any, unit: str) -> Any:
    """Return the innermost Hugging Face model around a unit, or the unit itself if it is a model."""
    from transformers import PreTrainedModel  # noqa: PLC0415

    owner, module = model, model
    for part in filter(None, unit.split(".")):
        module = getattr(module, part)
        if isinstance(module, PreTrainedModel):
            owner = module
    return owner


def _units(model: nn.Module) -> dict[_Unit, list[str]]:
    """Return the names of the weights in each unit; a tied weight belongs to the first unit."""
    seen: set[nn.Parameter] = set()
    units: dict[_Unit, list[str]] = {}

    def visit(module: nn.Module, path: str, layer: _Unit | None) -> None:
        prefix = f"{path}." if path else ""
        for name, param in module.named_parameters(recurse=False):
            if param not in seen:
                seen.add(param)
                units.setdefault(layer or _Unit(path, False), []).append(f"{prefix}{name}")
        for name, child in module.named_children():
            inside = _Unit(f"{prefix}{name}", True) if isinstance(module, nn.ModuleList) else None
            visit(child, f"{prefix}{name}", layer or inside)

    visit(model, "", None)
    return units


def folder_source(model: Any, weights: Mapping[str, Any], where: str) -> WeightSource | None:
    """Return the source of the weights of a folder or name, or None unless each weight exists once and
    unquantised."""
    files = safetensors_files(where)
    if not files or getattr(model.config, "quantization_config", None) is not None:
        return None
    saved = SafetensorsWeights(files)
    prefix = f"{model.base_model_prefix}."
    names = {name: next((n for n in _names(name, prefix) if n in saved.shapes), "") for name in weights}
    if any(saved.shapes.get(names[name]) != weight.shape for name, weight in weights.items()):
        return None
    return RenamedWeights(saved, names)


def _names(name: str, prefix: str) -> Iterator[str]:
    """Yield possible names of a weight in a file, which may be a file of the model without its head."""
    yield name
    yield name.removeprefix(prefix)


def safetensors_files(where: str) -> list[Path]:
    """Return the weight files of a folder, or of a name in the cache or on the hub; possibly none. Raises
    OSError as transformers does."""
    from transformers.utils import cached_file  # noqa: PLC0415

    def find(name: str) -> Path | None:
        file = cached_file(where, name, _raise_exceptions_for_missing_entries=False)
        return Path(file) if file else None

    index = find(INDEX)
    names = set(json.loads(index.read_text())["weight_map"].values()) if index else {"model.safetensors"}
    files = [find(name) for name in sorted(names)]
    return [file for file in files if file is not None] if all(files) else []
