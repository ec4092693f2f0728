"""Workloads of language models: a model and its text."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch

from trainer.cloud_paths import local_path
from trainer.config import PRESETS, Config
from trainer.data.documents import documents, files_of
from trainer.data.loader import Dataset
from trainer.data.split import hold_out
from trainer.data.text import MAX_BYTES, Windows, read_bytes
from trainer.data.token_file import TokenFile
from trainer.data.tokenizer import load_tokenizer, tokenizer_of
from trainer.errors import DataError, UsageError
from trainer.models.causal_lm import load_model
from trainer.models.gpt import GPT, VOCABULARY
from trainer.models.workload import Workload
from trainer.structured_log import emit


@dataclass(frozen=True, slots=True)
class TextData:
    """Windows of tokens for training and evaluation, and the size of the vocabulary."""

    train: Dataset
    evaluation: Dataset | None
    vocabulary: int


def load_text(config: Config, tokenizer: str) -> TextData:
    """The windows of the text of `--data`.

    Raises:
        DataError: if it can't be read or is too short.
    """
    windows, vocabulary = _windows(config, tokenizer)
    if not config.eval_every:
        return TextData(windows, None, vocabulary)
    train, evaluation = hold_out(windows)
    if not len(train):
        raise DataError(f"--data {config.data.data}: one window of text is too few for --eval-every")
    return TextData(train, evaluation, vocabulary)


def _windows(config: Config, tokenizer: str) -> tuple[Dataset, int]:
    spec, context = config.data.data, config.model.context
    if spec.endswith(".bin"):
        mapped = TokenFile(local_path(spec), context)
        return mapped, mapped.info.vocabulary
    paths = [local_path(path.strip()) for path in spec.split(",")]
    if tokenizer in {"", "bytes"} and not any(map(_has_jsonl, paths)):
        data = read_bytes(spec)
        if len(data) == MAX_BYTES:
            # A token file is not read into the memory of every process.
            _warn(
                f"only the first {MAX_BYTES >> 20} MiB of --data {spec} are read: python -m trainer.prepare "
                "writes all of it to a token file"
            )
        return Windows(data, context), VOCABULARY
    encoder = load_tokenizer(tokenizer)
    files = files_of(paths)
    tokens: list[int] = []
    for document in documents(files, config.data.field):
        tokens += [*encoder.encode(document), encoder.end]
    if len(tokens) <= context:
        raise DataError(f"--data {spec} has {len(tokens)} tokens; one window has {context + 1}")
    ids = torch.from_numpy(np.asarray(tokens, np.int32))
    return Windows(ids, context), encoder.vocabulary


def _has_jsonl(path: Path) -> bool:
    """Whether it is a .jsonl file, or a folder with one."""
    return path.suffix == ".jsonl" or (path.is_dir() and next(path.glob("*.jsonl"), None) is not None)


def _warn(text: str) -> None:
    if os.environ.get("RANK", "0") == "0":
        emit("phase", text, severity="WARNING", phase="starting")


def gpt(config: Config) -> Workload:
    """The GPT, in the size of `--preset`."""
    preset, context = PRESETS[config.model.preset], config.model.context
    data = load_text(config, config.data.tokenizer)
    sizes = preset["layers"], preset["heads"], preset["width"], context
    with torch.device("meta"):
        model = GPT(*sizes, config.model.dropout, vocabulary=data.vocabulary)
    weights = sum(p.numel() for p in model.parameters())
    attention = 12 * preset["layers"] * preset["width"] * context
    return Workload(
        model,
        list(model.blocks),
        data.train,
        tokens_per_sample=context,
        evaluation=data.evaluation,
        flops_per_token=6.0 * weights + attention,
        init_weight=partial(model.init_weight, seed=config.seed),
    )


def causal_lm(config: Config) -> Workload:
    """A model of Hugging Face, with the tokenizer in its folder unless `--tokenizer` names another.

    Raises:
        UsageError: if the model does not fit the text.
    """
    where = config.model.weights
    if not where:
        raise UsageError("--model causal-lm needs --weights: a folder or name of a model, or a config.json")
    model = load_model(where, torch.float32, config.model.dropout)
    tokenizer = config.data.tokenizer
    if tokenizer == "bytes":
        tokenizer = tokenizer_of(where) or tokenizer
        if tokenizer == "bytes" and not (where.endswith(".json") or config.data.data.endswith(".bin")):
            _warn(
                f"{where} has no tokenizer.json: text is read as bytes, which its weights were not trained on"
            )
    context = config.model.context
    if model.context is not None and context > model.context:
        raise UsageError(f"--context {context} is more than the {model.context} tokens that {where} accepts")
    data = load_text(config, tokenizer)
    if data.vocabulary > model.vocabulary:
        raise UsageError(
            f"--tokenizer {tokenizer} has {data.vocabulary} tokens, {where} has {model.vocabulary}"
        )
    weights = sum(p.numel() for p in model.parameters())
    return Workload(
        model,
        model.blocks(),
        data.train,
        tokens_per_sample=context,
        evaluation=data.evaluation,
        flops_per_token=6.0 * weights,
    )
