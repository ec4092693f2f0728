"""Language models and the text that they are trained on."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from trainer.config import PRESETS, Config, DataError, UsageError
from trainer.data.documents import documents, files_of
from trainer.data.loader import Dataset
from trainer.data.text import LIMIT, Windows, read_bytes
from trainer.data.token_file import TokenFile
from trainer.data.tokenizer import load_tokenizer, tokenizer_of
from trainer.lines import emit
from trainer.model import GPT, VOCABULARY
from trainer.models.causal_lm import load
from trainer.paths import local_path
from trainer.workload import Workload

HELD = 16
"""One of so many windows is kept for the evaluation, the last ones."""


@dataclass(frozen=True, slots=True)
class Part:
    """Samples `first` to `end` of a dataset."""

    whole: Dataset
    first: int
    end: int

    def __len__(self) -> int:
        return self.end - self.first

    def __getitem__(self, index: int) -> object:
        return self.whole[self.first + index]


@dataclass(frozen=True, slots=True)
class Text:
    """Windows of tokens for training and for the evaluation, and the number of tokens that there can be."""

    train: Dataset
    evaluation: Dataset | None
    vocabulary: int


def text(config: Config, tokenizer: str) -> Text:
    """The text of `--data`.

    Raises:
        DataError: when it can't be read or is too short.
    """
    found, vocabulary = _windows(config, tokenizer)
    if not config.eval_every:
        return Text(found, None, vocabulary)
    held = max(1, len(found) // HELD)
    if len(found) <= held:
        raise DataError(f"--data {config.data.data}: one window of text leaves none for --eval-every")
    edge = len(found) - held
    return Text(Part(found, 0, edge), Part(found, edge, len(found)), vocabulary)


def _windows(config: Config, tokenizer: str) -> tuple[Dataset, int]:
    spec, context = config.data.data, config.model.context
    if spec.endswith(".bin"):
        mapped = TokenFile(local_path(spec), context)
        return mapped, mapped.about.vocabulary
    paths = [local_path(one.strip()) for one in spec.split(",")]
    if tokenizer in {"", "bytes"} and not any(map(_has_jsonl, paths)):
        found = read_bytes(spec)
        if len(found) == LIMIT:
            # A whole corpus in memory, in every process, is what token files are for.
            _warn(
                f"only the first {LIMIT >> 20} MiB of --data {spec} are read: python -m trainer.prepare "
                "makes a token file of all of it"
            )
        return Windows(found, context), VOCABULARY
    known = load_tokenizer(tokenizer)
    files = files_of(paths)
    tokens: list[int] = []
    for document in documents(files, config.data.field):
        tokens += [*known.encode(document), known.end]
    if len(tokens) <= context:
        raise DataError(f"--data {spec} has {len(tokens)} tokens; one window takes {context + 1}")
    ids = torch.from_numpy(np.asarray(tokens, np.int32))
    return Windows(ids, context), known.vocabulary


def _has_jsonl(path: Path) -> bool:
    """Whether it is lines of JSON, or a folder with such files in it."""
    return path.suffix == ".jsonl" or (path.is_dir() and next(path.glob("*.jsonl"), None) is not None)


def _warn(text: str) -> None:
    if os.environ.get("RANK", "0") == "0":
        emit("phase", text, severity="WARNING", phase="starting")


def gpt(config: Config) -> Workload:
    """A GPT of our own, in the sizes of `--preset`."""
    preset, context = PRESETS[config.model.preset], config.model.context
    found = text(config, config.data.tokenizer)
    sizes = preset["layers"], preset["heads"], preset["width"], context
    model = GPT(*sizes, config.model.dropout, vocabulary=found.vocabulary)
    weights = sum(p.numel() for p in model.parameters())
    attention = 12 * preset["layers"] * preset["width"] * context
    return Workload(
        model,
        list(model.blocks),
        found.train,
        tokens_per_sample=context,
        evaluation=found.evaluation,
        flops_per_token=6.0 * weights + attention,
    )


def causal_lm(config: Config) -> Workload:
    """A model of Hugging Face's, with the tokenizer that lies beside it unless another is given.

    Raises:
        UsageError: when the model and the text don't fit each other.
    """
    where = config.model.weights
    if not where:
        raise UsageError("--model causal-lm needs --weights: a folder or name of a model, or a config.json")
    model = load(where, torch.float32)
    tokenizer = config.data.tokenizer
    if tokenizer == "bytes":
        tokenizer = tokenizer_of(where) or tokenizer
        if tokenizer == "bytes" and not (where.endswith(".json") or config.data.data.endswith(".bin")):
            _warn(f"{where} has no tokenizer.json: text is taken as bytes, which these weights hardly know")
    context = config.model.context
    if model.context is not None and context > model.context:
        raise UsageError(f"--context {context} is more than the {model.context} tokens that {where} can take")
    found = text(config, tokenizer)
    if found.vocabulary > model.vocabulary:
        raise UsageError(
            f"--tokenizer {tokenizer} has {found.vocabulary} tokens, {where} knows {model.vocabulary}"
        )
    weights = sum(p.numel() for p in model.parameters())
    return Workload(
        model,
        model.blocks(),
        found.train,
        tokens_per_sample=context,
        evaluation=found.evaluation,
        flops_per_token=6.0 * weights,
    )
