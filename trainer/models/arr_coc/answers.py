"""Accuracy of generated answers, compared with people's answers.

With `exact`, the normalised text must equal the target answer. With `vqa`, punctuation, articles and number
words do not count either. The accuracy of an answer then depends on the number of people who gave the answer,
up to three, as in the VQA data set. The accuracy is the mean over all subsets that leave out one person
(Antol et al., "VQA: Visual Question Answering", ICCV 2015, section 3, and the evaluation code).
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
"""Number of people who must give an answer for full accuracy."""
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_PUNCTUATION = re.compile(r"[^\w\s.]|(?<!\d)\.|\.(?!\d)|_")
_NUMBERS = {
    word: str(number)
    for number, word in enumerate(
        ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
    )
} | {"none": "0"}


def normalised(text: str) -> str:
    """Return a canonical spelling of an answer: compatible characters, lower case, single spaces, no full
    stop."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return " ".join(folded.split()).rstrip(".").strip()


def relaxed(text: str) -> str:
    """Return the normalised text without articles and punctuation (except in decimals); numbers up to ten as
    digits."""
    words = _ARTICLES.sub(" ", _PUNCTUATION.sub(" ", normalised(text))).split()
    return " ".join(_NUMBERS.get(word, word) for word in words)


def accuracy(answer: str, references: Sequence[str], match: str) -> float:
    """Return the accuracy of an answer, 0 to 1, by a method of `MATCHES`."""
    if match == "exact":
        return float(normalised(answer) == normalised(most_frequent(references)))
    relaxed_answer = relaxed(answer)
    agree = [relaxed(reference) == relaxed_answer for reference in references]
    if len(agree) == 1:
        return float(agree[0])
    return sum(min(1.0, (sum(agree) - own) / _MIN_AGREEING) for own in agree) / len(agree)


@dataclass(frozen=True, slots=True)
class AnswerCheck:
    """A `models.workload.AnswerMetric`: `references` returns a sample's answers, `text` decodes generated
    tokens."""

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
