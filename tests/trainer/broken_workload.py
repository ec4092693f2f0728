"""A workload for tests: a tiny GPT with a sample that one rank can't read."""

from __future__ import annotations

import os
from itertools import chain, islice

import torch

from trainer.config import Config
from trainer.data.sampler import Sampler
from trainer.data.text import Windows
from trainer.data.token_cache import token_file_of
from trainer.data.token_file import TokenFile
from trainer.distributed.batch_plan import BatchPlan
from trainer.errors import DataError
from trainer.models.gpt import GPT
from trainer.models.workload import Workload

BROKEN = "BROKEN"
"""Variable with a rank, the number of its broken sample in its order (from 0), and `bug`, `data` or
`kill`."""
REGISTER = (
    "from trainer import registry\n"
    "registry.MODELS['broken'] = registry.ModelEntry('tests.trainer.broken_workload:build')\n"
)
"""A sitecustomize.py that registers the model."""


class Samples:
    """Windows of text; the variable decides what happens at the broken one."""

    def __init__(self, config: Config) -> None:
        self._windows = Windows(TokenFile(token_file_of(config, "bytes")), config.model.context)
        rank, number, self._kind = os.environ[BROKEN].split()
        plan = BatchPlan.of(config.data.batch, config.data.micro_batch, int(os.environ["WORLD_SIZE"]))
        order = chain.from_iterable(Sampler(len(self), plan, seed=config.seed, rank=int(rank)))
        broken = next(islice(order, int(number), None))
        self._broken = broken if rank == os.environ["RANK"] else -1

    def __len__(self) -> int:
        return len(self._windows)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, ...]:
        if index != self._broken:
            return self._windows[index]
        if self._kind == "data":
            raise DataError(f"the image {index}.png can't be read")
        if self._kind == "kill":
            os.kill(os.getpid(), 9)
        raise ValueError(f"sample {index} is broken")


def build(config: Config) -> Workload:
    model = GPT(2, 4, 32, config.model.context, 0.0)
    return Workload(model, list(model.blocks), Samples(config), config.model.context)
