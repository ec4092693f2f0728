"""A workload for tests: a tiny GPT on eight sequences with different numbers of targets, one without any."""

from __future__ import annotations

import torch

from trainer.config import Config
from trainer.data.loader import IGNORED
from trainer.models.gpt import GPT
from trainer.models.workload import Workload

SAMPLES = 8


class UnevenSamples:
    """The first sequence has no target, the second three, and so on."""

    def __init__(self, context: int) -> None:
        generator = torch.Generator().manual_seed(0)
        self._tokens = torch.randint(0, 250, (SAMPLES, context + 1), generator=generator)

    def __len__(self) -> int:
        return len(self._tokens)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        tokens, targets = self._tokens[index][:-1], self._tokens[index][1:].clone()
        targets[3 * index :] = IGNORED
        return tokens, targets


def uneven(config: Config) -> Workload:
    context = config.model.context
    memory = config.parallel.logits_memory
    model = GPT(2, 4, 32, context, config.model.dropout, logits_memory=memory)
    samples = UnevenSamples(context)
    return Workload(
        model, list(model.blocks), samples, tokens_per_sample=context, evaluation=samples,
        tensor_plan=model.tensor_plan,
        count_targets=lambda batch: int((batch[1] != IGNORED).sum()),
    )  # fmt: skip
