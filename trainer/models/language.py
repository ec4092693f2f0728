"""Workloads of language models: a model and its text."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch

from trainer.config import PRESETS, Config, names_in
from trainer.data.data_cache import DataProgress, cache_folder
from trainer.data.loader import IGNORED, Batch, Dataset
from trainer.data.packing import packs_of
from trainer.data.split import hold_out
from trainer.data.text import Conversations, Windows
from trainer.data.token_cache import token_files_of
from trainer.data.token_file import TokenFile, TokenFileInfo, TokenShards, open_tokens
from trainer.data.tokenizer import BYTES, is_bytes, tokenizer_of
from trainer.errors import DataError, UsageError
from trainer.models.causal_lm import CausalLM, load_model
from trainer.models.gpt import GPT
from trainer.models.lora import ALL_LINEAR, add_low_rank, linear_layers
from trainer.models.tensor_plan import plan_of
from trainer.models.workload import Workload
from trainer.structured_log import emit
from trainer.weights.hugging_face import DeferredModel
from trainer.weights.source import ComputedWeights


@dataclass(frozen=True, slots=True)
class TextData:
    """Samples for training and evaluation, and the description of their tokens."""

    train: Dataset
    evaluation: Dataset | None
    info: TokenFileInfo


def load_text(config: Config, tokenizer: str) -> TextData:
    """Return the samples of the text or the conversations of `--data`. Raises DataError if the data can't be
    read or is too short."""
    tokens, packs = _prepare(config, tokenizer, None)
    masked, context = config.data.document_masks == "on", config.model.context
    samples: Dataset = (
        Conversations(tokens, context, packs)
        if isinstance(tokens, TokenFile) and tokens.info.marked
        else Windows(tokens, context, tokens.info.end if masked else None)
    )
    if not config.eval_every:
        return TextData(samples, None, tokens.info)
    train, evaluation = hold_out(samples)
    if not len(train):
        raise DataError(f"--data {config.data.data}: one sample is too few for --eval-every")
    return TextData(train, evaluation, tokens.info)


def _prepare(
    config: Config, tokenizer: str, progress: DataProgress | None
) -> tuple[TokenFile | TokenShards, Path | None]:
    """Return the tokens, and the index of conversations that share a sample. Create either file if it does
    not exist."""
    spec, context, masked = config.data.data, config.model.context, config.data.document_masks == "on"
    tokens = open_tokens(token_files_of(config, tokenizer, progress))
    info = tokens.info
    if info.marked != (config.data.format == "chat"):
        raise DataError(f"--data {spec} was written with --format {'chat' if info.marked else 'text'}")
    if isinstance(tokens, TokenFile) and info.marked:
        packs = packs_of(tokens, context, cache_folder(config), progress) if masked else None
        if progress is not None:
            _check_targets(Conversations(tokens, context, packs), config)
            _check_truncation(tokens, config)
        return tokens, packs
    if masked and info.tokenizer == "bytes" and info.end < BYTES:
        raise DataError(
            f"--data {spec} has bytes separated by newlines: --document-masks can't tell documents apart"
        )
    if info.tokens <= context:
        raise DataError(f"--data {spec} has {info.tokens} tokens, but one window needs {context + 1}")
    return tokens, None


def _check_truncation(tokens: TokenFile, config: Config) -> None:
    """Report the conversations that --context cuts. Raises DataError if they lose more than --max-truncated
    of all tokens."""
    count, lost = tokens.beyond(config.model.context + 1)
    if not count:
        return
    share = lost / tokens.info.tokens
    text = (
        f"--data {config.data.data}: {count:,} of {tokens.info.documents:,} conversations are longer than "
        f"--context {config.model.context}, and {share:.1%} of all tokens are lost"
    )
    if share > config.data.max_truncated:
        raise DataError(
            f"{text}, more than --max-truncated {config.data.max_truncated:g}: use a larger --context, or "
            "raise --max-truncated"
        )
    emit("phase", text, severity="WARNING", phase="starting", truncated=count, lost_share=share)


def _check_targets(samples: Conversations, config: Config) -> None:
    """Warn about samples that end before the first answer. Raises DataError if all do: the loss would be
    0."""
    empty, looked_at = samples.without_targets()
    where = f"--data {config.data.data}: {empty} of {looked_at} samples have no answer in their first "
    where += f"{config.model.context} tokens (--context)"
    if empty == looked_at:
        raise DataError(f"{where}: there is nothing to learn; use a larger --context")
    if empty:
        text = f"{where}: nothing is learned from them; a larger --context includes more answers"
        emit("phase", text, severity="WARNING", phase="starting")


def prepare_gpt(config: Config, progress: DataProgress) -> str:
    """Prepare the token file of `gpt`. Raises DataError as `load_text` does."""
    return _prepare(config, config.data.tokenizer, progress)[0].where


def prepare_causal_lm(config: Config, progress: DataProgress) -> str:
    """Prepare the token file of `causal_lm`. Raises DataError as `load_text` does."""
    return _prepare(config, _tokenizer(config), progress)[0].where


def count_targets(batch: Batch) -> int:
    """Return the number of targets of a micro-batch of conversations."""
    return int((batch[1] != IGNORED).sum())


def gpt(config: Config) -> Workload:
    """Return the workload of the GPT, in the size of `--preset`."""
    preset, context = PRESETS[config.model.preset], config.model.context
    data = load_text(config, config.data.tokenizer)
    sizes = preset["layers"], preset["heads"], preset["width"], context
    with torch.device("meta"):
        model = GPT(
            *sizes,
            config.model.dropout,
            vocabulary=data.info.vocabulary,
            logits_memory=config.parallel.logits_memory,
        )
    weights = sum(p.numel() for p in model.parameters())
    attention = 12 * preset["layers"] * preset["width"] * context
    return Workload(
        model,
        list(model.blocks),
        data.train,
        tokens_per_sample=context,
        evaluation=data.evaluation,
        count_targets=count_targets if data.info.marked else None,
        flops_per_token=6.0 * weights + attention,
        weights=ComputedWeights(partial(model.init_weight, seed=config.seed)),
        tensor_plan=model.tensor_plan,
    )


def causal_lm(config: Config) -> Workload:
    """Return the workload of a Hugging Face model, with its own tokenizer or the tokenizer of `--tokenizer`.
    Raises UsageError if the model does not fit the text."""
    where = config.model.weights
    if not where:
        raise UsageError("--model causal-lm needs --weights: a folder or name of a model, or a config.json")
    deferred = DeferredModel(config.seed)
    model = load_model(where, torch.float32, config.model.dropout, config.parallel.logits_memory, deferred)
    if config.model.lora_rank:
        _add_lora(model, config)
    context = config.model.context
    if model.context is not None and context > model.context:
        raise UsageError(f"--context {context} exceeds the {model.context} tokens that {where} accepts")
    data = load_text(config, _tokenizer(config))
    if data.info.vocabulary > model.vocabulary:
        raise UsageError(
            f"--tokenizer {data.info.tokenizer} has {data.info.vocabulary} tokens, but {where} has "
            f"{model.vocabulary}"
        )
    return Workload(
        model,
        model.blocks(),
        data.train,
        tokens_per_sample=context,
        evaluation=data.evaluation,
        count_targets=count_targets if data.info.marked else None,
        flops_per_token=model.flops_per_token(context),
        weights=deferred.source(model),
        tensor_plan=plan_of(model.model, "model."),
    )


def _add_lora(model: CausalLM, config: Config) -> None:
    """Freeze the model, and add the updates of the `--lora` flags. Raises UsageError if no layer matches."""
    settings = config.model
    model.requires_grad_(False)
    names = names_in(settings.lora_targets)
    scale, dropout = settings.lora_alpha / settings.lora_rank, settings.lora_dropout
    if not add_low_rank(model.model, rank=settings.lora_rank, targets=names, scale=scale, dropout=dropout):
        there = sorted({name.rpartition(".")[2] for name in linear_layers(model.model, [ALL_LINEAR])})
        raise UsageError(
            f"--lora-targets {settings.lora_targets}: no linear layer of {settings.weights} has this name; "
            f"the model has {', '.join(there) or 'none'}"
        )


def _tokenizer(config: Config) -> str:
    """Return the tokenizer of a Hugging Face model; a token file needs none."""
    tokenizer, where = config.data.tokenizer, config.model.weights
    if not is_bytes(tokenizer) or not where or config.data.data.endswith(".bin"):
        return tokenizer
    own_tokenizer = tokenizer_of(where)
    if not own_tokenizer and not where.endswith(".json") and os.environ.get("RANK", "0") == "0":
        emit(
            "phase",
            f"{where} has no tokenizer.json: the text is read as bytes, unlike in its pretraining",
            severity="WARNING",
            phase="starting",
        )
    return own_tokenizer or tokenizer
