"""How well generated answers match those of people.

`exact`: after normalisation the text equals the learned answer. `vqa`: punctuation, articles and number words
do not count either, and an answer of several people is right to the degree that at least three of them gave
it, as in the VQA data set (Antol et al., "VQA: Visual Question Answering", ICCV 2015, section 3, and its
evaluation code: each person is left out once, and the result is the mean).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from trainer.data.loader import IGNORED, Batch
from trainer.models.arr_coc.dataset import most_frequent
from trainer.models.arr_coc.prompts import PADDING

MATCHES = ("exact", "vqa")
_MIN_AGREEING = 3
"""People who must give an answer for full accuracy."""
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_PUNCTUATION = re.compile(r"[^\w\s.]|(?<!\d)\.|\.(?!\d)|_")
_NUMBERS = {
    word: str(number)
    for number, word in enumerate(
        ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
    )
} | {"none": "0"}


def normalised(text: str) -> str:
    """One spelling of each answer: compatible characters, lower case, single spaces, no full stop."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return " ".join(folded.split()).rstrip(".").strip()


def relaxed(text: str) -> str:
    """Normalised text without articles and punctuation (except in decimals); numbers up to ten as digits."""
    words = _ARTICLES.sub(" ", _PUNCTUATION.sub(" ", normalised(text))).split()
    return " ".join(_NUMBERS.get(word, word) for word in words)


def accuracy(answer: str, references: Sequence[str], match: str) -> float:
    """Accuracy of an answer, 0 to 1, by one of `MATCHES`."""
    if match == "exact":
        return float(normalised(answer) == normalised(most_frequent(references)))
    relaxed_answer = relaxed(answer)
    agree = [relaxed(reference) == relaxed_answer for reference in references]
    if len(agree) == 1:
        return float(agree[0])
    return sum(min(1.0, (sum(agree) - own) / _MIN_AGREEING) for own in agree) / len(agree)


@dataclass(frozen=True, slots=True)
class AnswerCheck:
    """Implements `models.workload.AnswerMetric`: `references` by sample, `text` of generated tokens."""

    references: Callable[[int], Sequence[str]]
    text: Callable[[Sequence[int]], str]
    match: str

    def prompts(self, batch: Batch) -> Batch:
        pixels, sides, tokens, spans, targets = batch
        return pixels, sides, tokens.masked_fill(targets != IGNORED, PADDING), spans

    def accuracies(self, samples: Sequence[int], answers: torch.Tensor) -> list[float]:
        return [
            accuracy(self.text(tokens), self.references(sample), self.match)
            for sample, tokens in zip(samples, answers.tolist(), strict=True)
        ]
