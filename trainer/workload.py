"""What is trained on what: a model, the parts of it that are shared out, and its samples.

A workload is a function of the settings, found by the name that `--model` gives. It is imported only when
it is asked for: a vision-language model needs packages that a GPT does not.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass

from torch import nn

from trainer.config import Config, UsageError
from trainer.data.loader import Dataset

WORKLOADS = {
    "gpt": "trainer.models.language:gpt",
    "causal-lm": "trainer.models.language:causal_lm",
    "arr-coc": "trainer.models.arr_coc.workload:arr_coc",
}
"""`--model` to `module:function`; the function takes a Config and returns a Workload."""


@dataclass(frozen=True, slots=True)
class Workload:
    """All that the training loop has to know.

    `model(*batch)` gives the mean loss of a micro-batch, a scalar. `blocks` are the repeated parts: FSDP
    shards each of them, activation checkpointing and torch.compile take them one by one. `flops_per_token` is
    of a forward and backward pass; `None` has the first one counted.
    """

    model: nn.Module
    blocks: Sequence[nn.Module]
    train: Dataset
    tokens_per_sample: int
    evaluation: Dataset | None = None
    flops_per_token: float | None = None


def build(config: Config) -> Workload:
    """The workload of `--model`. Raises UsageError for a name that nobody knows, DataError for its data."""
    found = WORKLOADS.get(config.model.model)
    if found is None:
        raise UsageError(
            f"--model {config.model.model} is not known; choose from {', '.join(sorted(WORKLOADS))}"
        )
    module, _, function = found.partition(":")
    try:
        workload: Workload = getattr(importlib.import_module(module), function)(config)
    except ModuleNotFoundError as error:
        raise UsageError(f"--model {config.model.model} needs the package {error.name}") from error
    if len(workload.train) < config.data.batch:
        raise UsageError(
            f"--batch {config.data.batch} is more than the {len(workload.train)} samples that the data has"
        )
    return workload
