"""Images with questions: the lines of a JSONL file, or generated shapes."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset

from trainer.cloud_paths import local_path
from trainer.data.data_cache import Progress
from trainer.data.documents import check_text
from trainer.data.line_file import JsonLines
from trainer.errors import DataError
from trainer.models.loss import IGNORED

Encode = Callable[[str], Sequence[int]]
Sample = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
"""Image [3, S, S] float in 0..1, tokens [T] int64 (below 0: padding), targets [T] int64."""
PADDING = -1
_COLOURS = {"red": (220, 40, 40), "green": (40, 180, 70), "blue": (50, 80, 220), "yellow": (230, 210, 60)}
_SHAPES = ("disc", "square", "cross")


def to_tokens(encode: Encode, question: str, answer: str, length: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Tokens and targets [length]: only the answer has targets. A long question loses its first tokens."""
    prompt, reply = list(encode(question + "\n")), list(encode(answer))[: length - 1]
    prompt = prompt[-(length - len(reply)) :]
    rest = length - len(prompt) - len(reply)
    tokens = torch.tensor([*prompt, *reply, *[PADDING] * rest])
    targets = torch.tensor([*[IGNORED] * len(prompt), *reply, *[IGNORED] * rest])
    return tokens, targets


@dataclass(frozen=True, slots=True)
class _Example:
    image: Path
    question: str
    answer: str


class QuestionFile(Dataset[Sample]):
    """A JSONL file of `{"image": PATH, "question": TEXT, "answer": TEXT}`; paths are relative to the file,
    or gs:// where buckets are mounted. `cache` is the folder of its index.

    Raises:
        DataError: with the file and the line that can't be read.
    """

    def __init__(self, path: Path, encode: Encode, *, side: int, length: int, cache: Path) -> None:
        self._path, self._encode, self._side, self._length = path, encode, side, length
        self._lines = index_questions(path, cache)
        if not len(self._lines):
            raise DataError(f"{path} has no questions")

    def __len__(self) -> int:
        return len(self._lines)

    def __getitem__(self, index: int) -> Sample:
        example = _example(self._path, index + 1, self._lines[index])
        return _read_image(example.image, self._side), *to_tokens(
            self._encode, example.question, example.answer, self._length
        )

    def fingerprint(self) -> str:
        """What the samples depend on; images are known by their names only."""
        return f"questions {self._side} {self._length}: {self._lines.fingerprint()}"


def index_questions(path: Path, cache: Path, progress: Progress | None = None) -> JsonLines:
    """The lines of a file of questions, each checked; their index is kept in the folder `cache`.

    Raises:
        DataError: with the file and the line that can't be read.
    """
    return JsonLines(path, cache, partial(_example, path), progress)


def _example(path: Path, number: int, value: Any) -> _Example:
    """The example of a line.

    Raises:
        DataError: with the file and the line.
    """
    try:
        example = _Example(
            path.parent / local_path(str(value["image"])), str(value["question"]), str(value["answer"])
        )
    except (KeyError, TypeError) as error:
        raise DataError(
            f'{path}:{number}: it must be {{"image": …, "question": …, "answer": …}}: {error!r}'
        ) from error
    for text in (example.question, example.answer):
        check_text(path, number, text)
    return example


def _read_image(path: Path, side: int) -> torch.Tensor:
    """An image file, stretched to a square of `side` pixels: [3, side, side] in 0..1."""
    from PIL import Image, UnidentifiedImageError  # noqa: PLC0415 - generated shapes need no package

    try:
        with Image.open(path) as image:
            resized = image.convert("RGB").resize((side, side), Image.Resampling.BICUBIC)
            return torch.from_numpy(np.array(resized)).permute(2, 0, 1).float() / 255
    except (OSError, UnidentifiedImageError) as error:
        raise DataError(f"the image {path} can't be read: {error}") from error


class GeneratedShapes(Dataset[Sample]):
    """A coloured shape on noise and a question about its colour, each a function of seed and index."""

    def __init__(self, count: int, encode: Encode, *, side: int, length: int, seed: int = 0) -> None:
        self._count, self._encode, self._seed = count, encode, seed
        self._side, self._length = side, length

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> Sample:
        rng = random.Random(f"{self._seed} {index}")
        shape, colour = rng.choice(_SHAPES), rng.choice(list(_COLOURS))
        image = self._draw(rng, shape, _COLOURS[colour])
        return image, *to_tokens(self._encode, f"Which colour has the {shape}?", colour, self._length)

    def fingerprint(self) -> str:
        """What the samples depend on."""
        return f"{self._count} shapes {self._seed} {self._side} {self._length}"

    def _draw(self, rng: random.Random, shape: str, colour: tuple[int, int, int]) -> torch.Tensor:
        side = self._side
        noise = torch.Generator().manual_seed(rng.getrandbits(31))
        image = 0.4 + 0.1 * torch.rand(3, side, side, generator=noise)
        radius = side * rng.uniform(0.12, 0.25)
        centre = [rng.uniform(radius, side - radius) for _ in range(2)]
        y, x = torch.meshgrid(torch.arange(side), torch.arange(side), indexing="ij")
        down, across = (y - centre[0]).abs(), (x - centre[1]).abs()
        if shape == "disc":
            inside = down**2 + across**2 < radius**2
        elif shape == "square":
            inside = torch.maximum(down, across) < 0.8 * radius
        else:
            inside = (torch.minimum(down, across) < 0.25 * radius) & (torch.maximum(down, across) < radius)
        return torch.where(inside, torch.tensor(colour)[:, None, None] / 255, image)
