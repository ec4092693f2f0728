"""The workload of `--model arr-coc`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from trainer.cloud_paths import local_path
from trainer.config import Config
from trainer.data.data_cache import Progress, cache_folder
from trainer.data.loader import Dataset
from trainer.data.split import HELD_OUT, hold_out
from trainer.data.tokenizer import load_tokenizer, tokenizer_of
from trainer.errors import UsageError
from trainer.models.arr_coc.backbone import Backbone, build_qwen, token_side
from trainer.models.arr_coc.dataset import Encode, GeneratedShapes, QuestionFile, index_questions
from trainer.models.arr_coc.model import ArrCoc, count_targets
from trainer.models.arr_coc.token_selection import MAX_TOKENS, MIN_TOKENS
from trainer.models.workload import Workload

GENERATED = 4096
"""Number of samples of generated shapes."""
MAX_TEXT = 128
"""Tokens of a question with its answer."""


def arr_coc(config: Config) -> Workload:
    """Questions about images; generated shapes without a file.

    Raises:
        UsageError: for a wrong model or image size.
        DataError: for questions that can't be read.
    """
    where, side = config.model.weights or "tiny", config.model.image_side
    if config.model.dropout:
        raise UsageError(f"--dropout {config.model.dropout:g}: arr-coc has no dropout; remove --dropout")
    # In bf16 the frozen weights use half the memory; the trained ones keep full precision.
    on_gpu = config.parallel.device != "cpu" and torch.cuda.is_available()
    dtype = torch.bfloat16 if on_gpu and config.parallel.precision != "fp32" else torch.float32
    qwen = build_qwen(where, dtype)
    cell = token_side(qwen)
    if side % cell:
        near = max(cell, round(side / cell) * cell)
        raise UsageError(f"--image-side {side} is not a multiple of {cell}, the side of a token; use {near}")
    backbone = Backbone(qwen)
    tokens = (side // cell) ** 2
    model = ArrCoc(
        backbone,
        stage=config.model.stage,
        min_tokens=min(MIN_TOKENS, tokens),
        max_tokens=min(MAX_TOKENS, tokens),
    )
    length = min(config.model.context, MAX_TEXT)
    train, evaluation = _questions(config, _encode(config, where), side, length)
    layers: Any = qwen.model.language_model.layers
    blocks: Sequence[nn.Module] = list(layers)
    return Workload(
        model,
        blocks,
        train,
        tokens_per_sample=length,
        evaluation=evaluation,
        count_targets=count_targets,
        converts_inputs=True,
    )


def prepare_questions(config: Config, progress: Progress) -> str:
    """`--data`, whose lines are checked and indexed now. Raises DataError as `arr_coc` does."""
    if config.data.data:
        index_questions(local_path(config.data.data), cache_folder(config), progress)
    return config.data.data


def _encode(config: Config, where: str) -> Encode:
    spec = config.data.tokenizer
    if spec == "bytes" and where != "tiny":
        spec = tokenizer_of(where) or spec
    return load_tokenizer(spec).encode


def _questions(config: Config, encode: Encode, side: int, length: int) -> tuple[Dataset, Dataset | None]:
    data, seed = config.data.data, config.seed
    if not data:
        train = GeneratedShapes(GENERATED, encode, side=side, length=length, seed=seed)
        held_out = GeneratedShapes(GENERATED // HELD_OUT, encode, side=side, length=length, seed=seed + 1)
        return train, held_out if config.eval_every else None
    path, cache = local_path(data), cache_folder(config)
    questions = QuestionFile(path, encode, side=side, length=length, cache=cache)
    return hold_out(questions) if config.eval_every else (questions, None)
