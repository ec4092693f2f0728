"""arr-coc as the training loop takes it: `--model arr-coc`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.utils.data import Subset

from trainer.config import Config, UsageError
from trainer.data.loader import Dataset
from trainer.data.text import local_path
from trainer.data.tokenizer import load_tokenizer, tokenizer_of
from trainer.models.arr_coc.attend import LEAST, MOST
from trainer.models.arr_coc.model import ArrCoc
from trainer.models.arr_coc.questions import Encode, QuestionFile, Shapes
from trainer.models.arr_coc.qwen import Backbone, build, cell_side
from trainer.workload import Workload

DRAWN = 4096
"""Samples where shapes are drawn."""
HELD = 16
TEXT = 128
"""Tokens of a question with its answer."""


def arr_coc(config: Config) -> Workload:
    """Questions about images; drawn shapes where no file is given.

    Raises:
        UsageError: for a model or an image size that can't be used.
        DataError: for questions that can't be read.
    """
    where, side = config.model.weights or "tiny", config.model.image_side
    # The frozen weights take half the memory in bf16; what learns stays in full precision.
    whole = torch.bfloat16 if config.parallel.device != "cpu" and torch.cuda.is_available() else torch.float32
    qwen = build(where, whole)
    cell = cell_side(qwen)
    if side % cell:
        near = max(cell, round(side / cell) * cell)
        raise UsageError(f"--image-side {side} is no multiple of {cell}, the side of a token; use {near}")
    backbone = Backbone(qwen)
    cells = (side // cell) ** 2
    model = ArrCoc(backbone, stage=config.model.stage, least=min(LEAST, cells), most=min(MOST, cells))
    length = min(config.model.context, TEXT)
    train, evaluation = _questions(config, _encode(config, where), side, length)
    layers: Any = qwen.model.language_model.layers
    blocks: Sequence[nn.Module] = list(layers)
    return Workload(model, blocks, train, tokens_per_sample=length, evaluation=evaluation)


def _encode(config: Config, where: str) -> Encode:
    spec = config.data.tokenizer
    if spec == "bytes" and where != "tiny":
        spec = tokenizer_of(where) or spec
    return load_tokenizer(spec).encode


def _questions(config: Config, encode: Encode, side: int, length: int) -> tuple[Dataset, Dataset | None]:
    data, seed = config.data.data, config.seed
    if not data:
        held = Shapes(DRAWN // HELD, encode, side=side, length=length, seed=seed + 1)
        train = Shapes(DRAWN, encode, side=side, length=length, seed=seed)
        return train, held if config.eval_every else None
    found = QuestionFile(local_path(data), encode, side=side, length=length)
    if not config.eval_every:
        return found, None
    edge = len(found) - max(1, len(found) // HELD)
    return Subset(found, range(edge)), Subset(found, range(edge, len(found)))
