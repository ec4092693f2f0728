"""How well generated answers match those of people.

`exact`: the text after normalisation is the learned answer's. `vqa`: also punctuation, articles and words for
numbers do not count, and an answer of several people is right as far as at least three of them gave it, as
the VQA data set has it (Antol et al., "VQA: Visual Question Answering", ICCV 2015, section 3, and its
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
_AGREEING = 3
"""People who make an answer wholly right."""
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_PUNCTUATION = re.compile(r"[^\w\s.]|(?<!\d)\.|\.(?!\d)|_")
_NUMBERS = {
    word: str(number)
    for number, word in enumerate(
        ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
    )
} | {"none": "0"}


def normalised(text: str) -> str:
    """One spelling of each answer: compatible characters, small letters, single spaces, no full stop."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    return " ".join(folded.split()).rstrip(".").strip()


def relaxed(text: str) -> str:
    """Also without punctuation (but of decimals) and articles, with numbers up to ten as digits."""
    words = _ARTICLES.sub(" ", _PUNCTUATION.sub(" ", normalised(text))).split()
    return " ".join(_NUMBERS.get(word, word) for word in words)


def accuracy(answer: str, references: Sequence[str], match: str) -> float:
    """How right an answer is, 0 to 1, by one of `MATCHES`."""
    if match == "exact":
        return float(normalised(answer) == normalised(most_frequent(references)))
    said = relaxed(answer)
    agree = [relaxed(reference) == said for reference in references]
    if len(agree) == 1:
        return float(agree[0])
    return sum(min(1.0, (sum(agree) - own) / _AGREEING) for own in agree) / len(agree)


@dataclass(frozen=True, slots=True)
class AnswerCheck:
    """Implements `models.workload.AnswerMetric`. `references` has people's answers by sample, `text` is the
    text of generated tokens."""

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
