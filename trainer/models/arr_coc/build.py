"""The workload of `--model arr-coc`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import nn
from transformers.utils import is_flash_attn_2_available

from trainer.cloud_paths import local_path
from trainer.config import Config
from trainer.config_checks import selected_range
from trainer.data.chat import IMAGE, ChatML, load_template
from trainer.data.data_cache import DataProgress, cache_folder
from trainer.data.loader import Dataset
from trainer.data.split import HELD_OUT, Slice, hold_out
from trainer.data.tokenizer import is_bytes, load_tokenizer, tokenizer_of
from trainer.errors import UsageError
from trainer.models.arr_coc.answers import AnswerCheck
from trainer.models.arr_coc.backbone import Backbone, build_qwen, select_attention, token_side
from trainer.models.arr_coc.dataset import (
    GeneratedShapes,
    ImageLimits,
    QuestionFile,
    collate,
    count_targets,
    index_questions,
)
from trainer.models.arr_coc.model import ArrCoc
from trainer.models.arr_coc.prompts import BytesWithMarks, Prompts
from trainer.models.workload import Workload
from trainer.structured_log import emit
from trainer.weights.hugging_face import DeferredModel

GENERATED = 4096
"""Number of samples of generated shapes."""


@dataclass(frozen=True, slots=True)
class ModelParts:
    """The model, the objects that make its inputs, and the source of its weights on the meta device."""

    model: ArrCoc
    prompts: Prompts
    limits: ImageLimits
    deferred: DeferredModel


def arr_coc(config: Config) -> Workload:
    """Build the workload: questions about images, or generated shapes without a file. Raises UsageError for a
    wrong model or a tokenizer without its special tokens, and DataError for questions that can't be read."""
    parts = build_parts(config)
    model, prompts = parts.model, parts.prompts
    train, evaluation = _questions(config, prompts, parts.limits)
    layers: Any = model.backbone.model.model.language_model.layers
    blocks: Sequence[nn.Module] = list(layers)
    return Workload(
        model,
        blocks,
        train,
        tokens_per_sample=config.model.context,
        evaluation=evaluation,
        count_targets=count_targets,
        collate=collate,
        answers=_answer_check(config, evaluation, prompts),
        probe=partial(model.largest_pass, config.model.context),
        measured=model.measured,
        converts_inputs=True,
        weights=parts.deferred.source(model),
    )


def build_parts(config: Config) -> ModelParts:
    """Build the model without data. Raises UsageError as `arr_coc` does."""
    where, most = config.model.weights or "tiny", config.model.image_tokens
    if config.model.dropout:
        raise UsageError(f"--dropout {config.model.dropout:g}: arr-coc has no dropout; remove --dropout")
    # In bf16 the frozen weights need half the memory; the trained weights have full precision.
    on_gpu = config.parallel.device != "cpu" and torch.cuda.is_available()
    dtype = torch.bfloat16 if on_gpu and config.parallel.precision != "fp32" else torch.float32
    deferred = DeferredModel(config.seed)
    qwen = build_qwen(where, dtype, deferred)
    attention = select_attention(
        qwen,
        package=is_flash_attn_2_available(),
        capability=torch.cuda.get_device_capability() if on_gpu else None,
    )
    if os.environ.get("RANK", "0") == "0":
        emit("phase", f"attention by {attention}", phase="starting", attention=attention.partition(":")[0])
    fewest, most_selected = selected_range(config.model.selected_tokens)
    model = ArrCoc(
        Backbone(qwen),
        stage=config.model.stage,
        answer_tokens=config.answer_tokens,
        min_tokens=fewest,
        max_tokens=most_selected,
    )
    # A smaller image is enlarged to at least as many tokens as are selected.
    limits = ImageLimits(token_side(qwen), min(fewest, most), most)
    return ModelParts(model, _prompts(config, where, qwen.config), limits, deferred)


def _answer_check(config: Config, evaluation: Dataset | None, prompts: Prompts) -> AnswerCheck | None:
    """Return the check of answers, or None if there are no held-out samples, or with --answer-tokens 0."""
    if evaluation is None or not config.answer_tokens:
        return None
    whole, first = (evaluation.whole, evaluation.first) if isinstance(evaluation, Slice) else (evaluation, 0)
    assert isinstance(whole, QuestionFile | GeneratedShapes)
    return AnswerCheck(lambda sample: whole.references(first + sample), prompts.answer, config.answer_match)


def prepare_questions(config: Config, progress: DataProgress) -> str:
    """Check and index the lines and images of `--data`. Raises DataError as `arr_coc` does."""
    if config.data.data:
        index_questions(local_path(config.data.data), cache_folder(config), progress)
    return config.data.data


def _prompts(config: Config, where: str, qwen: Any) -> Prompts:
    """Return the prompts of a model: by its tokenizer and chat template, or as bytes for random weights."""
    spec, image_token = config.data.tokenizer, int(qwen.image_token_id)
    random_weights = where == "tiny" or where.endswith(".json")
    if is_bytes(spec) and not random_weights:
        spec = tokenizer_of(where)
        if not spec:
            raise UsageError(f"{where} has no tokenizer.json; set --tokenizer to the model's tokenizer")
    if is_bytes(spec):
        ids = (qwen.vision_start_token_id, image_token, qwen.vision_end_token_id)
        marks = [f"{mark}>" for mark in IMAGE.split(">")[:-1]]
        tokenizer, template = BytesWithMarks(dict(zip(marks, map(int, ids), strict=True))), ChatML()
    else:
        tokenizer, template = load_tokenizer(spec), load_template(spec)  # type: ignore[assignment]
    if tokenizer.vocabulary > qwen.text_config.vocab_size:
        raise UsageError(
            f"--tokenizer {spec} has {tokenizer.vocabulary} tokens, "
            f"but {where} has {qwen.text_config.vocab_size}"
        )
    return Prompts(
        tokenizer.encode,
        tokenizer.decode,
        template,
        image_token=image_token,
        length=config.model.context,
        identity=tokenizer.identity,
    )


def _questions(config: Config, prompts: Prompts, limits: ImageLimits) -> tuple[Dataset, Dataset | None]:
    data, seed = config.data.data, config.seed
    if not data:
        train = GeneratedShapes(GENERATED, prompts, limits, seed=seed)
        held_out = GeneratedShapes(GENERATED // HELD_OUT, prompts, limits, seed=seed + 1)
        return train, held_out if config.eval_every else None
    questions = QuestionFile(local_path(data), prompts, limits, cache=cache_folder(config))
    return hold_out(questions) if config.eval_every else (questions, None)
