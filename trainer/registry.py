"""Every strategy and model, by its name in the flags. A strategy is declared in its own module, a model in
this one.

This module imports no strategy or model: flags are checked before torch is imported, and a strategy or model
may need packages that others do not.
"""

from __future__ import annotations

import ast
import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class StrategyEntry:
    """A value of `--strategy`, declared in the constant `STRATEGIES` of a module in `trainer/strategy`.

    `target` is the `module:class` of a `strategy.base.Strategy`. `flags` are its own settings.
    An optional function `preload(config)` of the module does the imports of the class before the fork.
    `elastic` is the class for --elastic, where each node has the complete state; without it the flag is
    refused. `optimizers` are the optimizers that accept the strategy's tensors. `sharded` names the state
    that its ranks divide, for the estimate of `--micro-batch auto`: `none`, `optimizer`, `gradients` (and the
    optimizer), `all`, or `all by DeepSpeed`.
    """

    target: str
    flags: tuple[str, ...] = ()
    elastic: str = ""
    optimizers: tuple[str, ...] = ("adamw", "adam", "sgd")
    sharded: str = "none"


@dataclass(frozen=True, slots=True)
class ModelEntry:
    """A value of `--model`.

    `target` is `module:function`; the function has a Config as argument and returns a
    `models.workload.Workload`. `shape_flags` are the settings that change names, shapes or use of its
    weights. A model with `text` trains on text, by default on Python's own sources. `prepare` is a
    `module:function` too. One rank of each node calls the function with a Config and a
    `data.data_cache.DataProgress` before any rank builds the workload. All ranks use the result as `--data`.
    `preload` lists packages to import before the fork, `flags` the settings of only this model. `answerer` is
    the `module:class` that answers questions with a trained model for `trainer.serving`; a model without
    `answerer` can't be served.
    """

    target: str
    shape_flags: tuple[str, ...] = ()
    text: bool = True
    prepare: str = ""
    preload: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    answerer: str = ""


_ADAM_FLAGS = ("beta1", "beta2", "eps")
OPTIMIZERS: dict[str, tuple[str, ...]] = {
    "adamw": _ADAM_FLAGS, "adam": _ADAM_FLAGS, "sgd": ("momentum",), "adafactor": (),
    "muon": ("momentum", *_ADAM_FLAGS),
}  # fmt: skip
"""Every value of `--optimizer`, with those of the optimizer's settings that not all optimizers have."""


def declared_strategies(folder: Path) -> dict[str, StrategyEntry]:
    """Return the entries of `STRATEGIES` in each module of a folder. A module is not imported, because that
    would import torch."""
    entries: dict[str, StrategyEntry] = {}
    for path in folder.rglob("*.py"):
        text = path.read_text()
        if "\nSTRATEGIES = {" in text:
            for node in ast.parse(text).body:
                if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "STRATEGIES":
                    code = compile(ast.Expression(node.value), str(path), "eval")
                    entries |= eval(code, {"StrategyEntry": StrategyEntry})
    return dict(sorted(entries.items()))


STRATEGIES = declared_strategies(Path(__file__).with_name("strategy"))
MODELS: dict[str, ModelEntry] = {
    "gpt": ModelEntry(
        "trainer.models.language:gpt", ("preset", "context"), prepare="trainer.models.language:prepare_gpt"
    ),
    "causal-lm": ModelEntry(
        "trainer.models.language:causal_lm",
        ("lora_rank", "lora_targets"),
        prepare="trainer.models.language:prepare_causal_lm",
        preload=("transformers",),
        flags=("weights",),
    ),
    "arr-coc": ModelEntry(
        "trainer.models.arr_coc.build:arr_coc",
        ("stage", "selected_tokens"),
        text=False,
        prepare="trainer.models.arr_coc.build:prepare_questions",
        preload=("transformers",),
        flags=("weights", "stage", "image_tokens", "selected_tokens", "answer_tokens", "answer_match"),
        answerer="trainer.models.arr_coc.answering:Answerer",
    ),
}


def model_entry(name: str) -> ModelEntry | None:
    """Return the entry of a value of `--model`; `module:function` is a user's own model."""
    own = ModelEntry("trainer.models.own_model:build_own", ("model_args",), text=False)
    return MODELS.get(name) or (own if ":" in name else None)


def resolve(target: str) -> Any:
    """Import the object `module:name`. Raises ModuleNotFoundError if the module or one of its dependencies is
    missing."""
    module, _, name = target.partition(":")
    return getattr(importlib.import_module(module), name)
