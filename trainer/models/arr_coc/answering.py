"""Answers to questions about images by a trained model, for `trainer.serving`."""

from __future__ import annotations

import base64
import binascii
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from trainer.checkpoint.weights import init_weights
from trainer.config import Config
from trainer.data.loader import to_device
from trainer.distributed.device import select_device
from trainer.errors import DataError
from trainer.models.arr_coc.answers import AnswerCheck
from trainer.models.arr_coc.build import build_parts
from trainer.models.arr_coc.dataset import Sample, collate
from trainer.models.arr_coc.images import decode_image
from trainer.weights.source import materialize


class Answerer:
    """A `serving.answerer.ServedModel` for images with questions.

    An instance is `{"image": BASE64, "question": TEXT}`, with an image file that Pillow reads. Its prediction
    is `{"answer": TEXT, "tokens": [ID, …]}`, with the tokens of the answer.
    """

    def __init__(self, config: Config, checkpoint: Path) -> None:
        """Build the model and load the weights of `checkpoint`. Raises UsageError for a model that can't be
        built, or for weights that do not match the model."""
        parts = build_parts(config)
        model, self._device = parts.model, select_device(config.parallel.device)
        _, source = init_weights(model, parts.deferred.source(model), str(checkpoint), lambda _: None)
        materialize(model, source, self._device)
        self._model = model.eval().to(self._device)
        self._prompts, self._limits = parts.prompts, parts.limits
        self._check = AnswerCheck(lambda _: (), parts.prompts.answer, "exact")

    def answer(self, instances: Sequence[Any]) -> list[dict[str, Any]]:
        """Return the predictions. Raises DataError for an invalid instance."""
        if not instances:
            return []
        batch = collate([self._sample(number, instance) for number, instance in enumerate(instances)])
        with torch.inference_mode():
            answers = self._model(*to_device(self._check.prompts(batch), self._device)).tolist()
        return [{"answer": self._prompts.answer(tokens), "tokens": tokens} for tokens in answers]

    def _sample(self, number: int, instance: Any) -> Sample:
        where = f"instances[{number}]"
        if not isinstance(instance, Mapping) or not all(
            isinstance(instance.get(name), str) for name in ("image", "question")
        ):
            raise DataError(
                f'{where} must be an object with two strings: {{"image": BASE64, "question": TEXT}}'
            )
        try:
            data = io.BytesIO(base64.b64decode(instance["image"], validate=True))
        except binascii.Error as error:
            raise DataError(f"{where}.image must be base64: {error}") from error
        limits = self._limits
        image = decode_image(data, f"{where}.image", cell=limits.cell, least=limits.least, most=limits.most)
        return image, *self._prompts.sample(instance["question"], "")
