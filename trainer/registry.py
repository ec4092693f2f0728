"""Every strategy and model, by its name in the flags. To add one, write its module and its line here.

Nothing is imported here: flags are checked before torch is imported, and a strategy or model may need
packages that others do not.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class StrategyEntry:
    """A value of `--strategy`.

    `target` is the `module:class` of a `strategy.base.Strategy`. `flags` are settings of such strategies
    only. An optional function `preload(config)` of the module imports before the fork what the class needs.
    `elastic` is the class for --elastic, where each node has the whole state; without it --elastic is
    refused.
    """

    target: str
    flags: tuple[str, ...] = ()
    elastic: str = ""


@dataclass(frozen=True, slots=True)
class ModelEntry:
    """A value of `--model`.

    `target` is `module:function`; the function takes a Config and returns a `models.workload.Workload`.
    `shape_flags` are the settings that change names, shapes or use of its weights. A model with `text` trains
    on text, by default on Python's own sources. `prepare` is `module:function` too: one rank of each node
    calls it with a Config and a `data.data_cache.DataProgress` before any rank builds the workload, and all
    ranks use what it returns as `--data`. `preload` lists packages to import before the fork, `flags` the
    settings that only this model has. `answerer` is the `module:class` that answers questions with a trained
    model for `trainer.serving`; without it the model can't be served.
    """

    target: str
    shape_flags: tuple[str, ...] = ()
    text: bool = True
    prepare: str = ""
    preload: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    answerer: str = ""


@dataclass(frozen=True, slots=True)
class OptimizerEntry:
    """A value of `--optimizer`: settings of only some optimizers, and usable strategies (empty: all)."""

    flags: tuple[str, ...] = ()
    strategies: tuple[str, ...] = ()


_DEEPSPEED_FLAGS = ("offload", "deepspeed_config")

STRATEGIES: dict[str, StrategyEntry] = {
    "ddp": StrategyEntry("trainer.strategy.ddp:DDP", elastic="trainer.strategy.ddp:DDP"),
    "fsdp": StrategyEntry(
        "trainer.strategy.fsdp:FSDP",
        ("data_parallel_replicate", "tensor_parallel"),
        elastic="trainer.elastic.replica:ReplicaFSDP",
    ),
    "zero1": StrategyEntry("trainer.strategy.deepspeed.engine:ZeRO1", _DEEPSPEED_FLAGS),
    "zero2": StrategyEntry("trainer.strategy.deepspeed.engine:ZeRO2", _DEEPSPEED_FLAGS),
    "zero3": StrategyEntry("trainer.strategy.deepspeed.engine:ZeRO3", _DEEPSPEED_FLAGS),
}
_ADAM_FLAGS = ("beta1", "beta2", "eps")

OPTIMIZERS: dict[str, OptimizerEntry] = {
    "adamw": OptimizerEntry(_ADAM_FLAGS),
    "adam": OptimizerEntry(_ADAM_FLAGS),
    "sgd": OptimizerEntry(("momentum",)),
    # Adafactor needs whole rows and columns; DeepSpeed gives it flat tensors, FSDP parts of a matrix.
    "adafactor": OptimizerEntry((), ("ddp",)),
    # Muon needs whole matrices, which it gathers where FSDP shards them.
    "muon": OptimizerEntry(("momentum", *_ADAM_FLAGS), ("ddp", "fsdp")),
}
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
    """The entry of a value of `--model`; `module:function` is a user's own model."""
    own = ModelEntry("trainer.models.own_model:build_own", ("model_args",), text=False)
    return MODELS.get(name) or (own if ":" in name else None)


def resolve(target: str) -> Any:
    """Import the object `module:name`. Raises ModuleNotFoundError, also for a missing dependency."""
    module, _, name = target.partition(":")
    return getattr(importlib.import_module(module), name)
