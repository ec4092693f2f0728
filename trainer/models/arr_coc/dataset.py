"""Images with questions: the lines of a JSONL file, or generated shapes."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch.utils.data import Dataset

from trainer.cloud_paths import local_path
from trainer.data.data_cache import DataProgress
from trainer.data.documents import check_text
from trainer.data.line_file import JsonLines
from trainer.data.loader import IGNORED, Batch
from trainer.errors import DataError
from trainer.models.arr_coc.image_sizes import ImageSizes, image_sizes
from trainer.models.arr_coc.images import Grid, grid_of, read_image
from trainer.models.arr_coc.prompts import PADDING, Prompts

Sample = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]
"""Image uint8 [3, H, W], then tokens [T], span [2] and targets [T] of a `Prompt`."""
_COLOURS = {"red": (220, 40, 40), "green": (40, 180, 70), "blue": (50, 80, 220), "yellow": (230, 210, 60)}
_SHAPES = ("disc", "square", "cross")
_FRAMES = ((1024, 1024), (800, 600), (600, 800), (960, 540), (320, 240))
"""Width and height of generated images, before rounding to whole tokens."""


@dataclass(frozen=True, slots=True)
class ImageLimits:
    """Limits of an image: from `least` to `most` visual tokens, which are squares of `cell` pixels."""

    cell: int
    least: int
    most: int

    def grid(self, width: int, height: int) -> Grid:
        return grid_of(width, height, cell=self.cell, least=self.least, most=self.most)

    def read(self, path: Path, size: int | None = None) -> torch.Tensor:
        return read_image(path, cell=self.cell, least=self.least, most=self.most, size=size)


def collate(samples: Sequence[Sample]) -> Batch:
    """Make a micro-batch of B samples, whose images may differ in size.

    The result has the pixels uint8 [P] of all images one after another, and their sides int64 [B, 2], height
    and width in pixels. The result also has tokens int64 [B, T], without columns that are padding in all
    samples, spans int64 [B, 2] and targets [B, T].
    """
    images, tokens, spans, targets = zip(*samples, strict=True)
    every = torch.stack(tokens)
    length = max(1, int((every != PADDING).sum(1).max()))
    return (
        torch.cat([image.reshape(-1) for image in images]),
        torch.tensor([image.shape[1:] for image in images]),
        every[:, :length],
        torch.stack(spans),
        torch.stack(targets)[:, :length],
    )


def images_of(pixels: torch.Tensor, sides: torch.Tensor) -> list[torch.Tensor]:
    """Return the images uint8 [3, H, W] of a micro-batch."""
    sizes: list[list[int]] = sides.tolist()
    parts = pixels.split([3 * height * width for height, width in sizes])
    return [part.view(3, *size) for part, size in zip(parts, sizes, strict=True)]


def count_targets(batch: Batch) -> int:
    """Return the number of targets of a micro-batch; the first token is never a target."""
    return int((batch[4][:, 1:] != IGNORED).sum())


class Example(NamedTuple):
    """A line of a file: the image's name in it and its path, the question, and people's answers."""

    name: str
    image: Path
    question: str
    answers: tuple[str, ...]


class QuestionFile(Dataset[Sample]):
    """A JSONL file of `{"image": PATH, "question": TEXT, "answer": TEXT}`.

    Paths are relative to the file, or gs:// if buckets are mounted. `"answers": [TEXT, …]` are the answers of
    several people: the most frequent one is the target. `cache` is the folder of the index.

    Raises:
        DataError: if a line or its image can't be read; the message names the file and the line.
    """

    def __init__(self, path: Path, prompts: Prompts, limits: ImageLimits, *, cache: Path) -> None:
        self._path, self._prompts, self._limits = path, prompts, limits
        self._lines, self._sizes = index_questions(path, cache)

    def __len__(self) -> int:
        return len(self._lines)

    def __getitem__(self, index: int) -> Sample:
        example = self._example(index)
        try:
            image = self._limits.read(example.image, self._sizes[index])
            prompt = self._prompts.sample(example.question, most_frequent(example.answers))
        except DataError as error:
            raise DataError(f"{self._path}:{self._lines.number_in_file(index)}: {error}") from error
        return image, *prompt

    def references(self, index: int) -> tuple[str, ...]:
        """Return the answers that people gave."""
        return self._example(index).answers

    def _example(self, index: int) -> Example:
        return _example(self._path, index + 1, self._lines[index])

    def fingerprint(self) -> str:
        """Return the hash of the file, and of the name and size of each image."""
        files = f"{self._lines.fingerprint()} {self._sizes.fingerprint()}"
        return f"questions {self._limits} {self._prompts.identity}: {files}"


def index_questions(
    path: Path, cache: Path, progress: DataProgress | None = None
) -> tuple[JsonLines, ImageSizes]:
    """Return the checked lines of a file of questions, and the sizes of their images.

    The folder `cache` has an index of both.

    Raises:
        DataError: if a line can't be read or its image is missing; the message names the file and the line.
    """
    progress = progress or DataProgress()
    lines = JsonLines(path, cache, partial(_example, path), progress)
    if not len(lines):
        raise DataError(f"{path} has no questions")

    def find(number: int) -> tuple[str, Path, str]:
        example = _example(path, number + 1, lines[number])
        return example.name, example.image, f"{path}:{lines.number_in_file(number)}"

    return lines, image_sizes(lines.beside(".images"), len(lines), find, progress)


def _example(path: Path, number: int, value: Any) -> Example:
    """Parse an example from a line.

    Raises:
        DataError: if the text is invalid; the message names the file and the line.
    """
    try:
        if not isinstance(value, dict):
            raise TypeError("the value is not an object")
        name = str(value["image"])
        answers = value["answers"] if "answers" in value else [value["answer"]]
        if not isinstance(answers, list) or not answers:
            raise TypeError('"answers" must be a list of texts')
        example = Example(
            name, path.parent / local_path(name), str(value["question"]), tuple(map(str, answers))
        )
    except (KeyError, TypeError) as error:
        reason = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise DataError(
            f'{path}:{number}: the line must be {{"image": PATH, "question": TEXT, "answer": TEXT}}: {reason}'
        ) from error
    for text in (example.question, *example.answers):
        check_text(path, number, text)
    return example


def most_frequent(answers: Sequence[str]) -> str:
    """Return the most frequent answer; in a tie, the first of these answers."""
    return max(answers, key=answers.count)


class GeneratedShapes(Dataset[Sample]):
    """A coloured shape on noise and a question about its colour, each a function of seed and index."""

    def __init__(self, count: int, prompts: Prompts, limits: ImageLimits, *, seed: int = 0) -> None:
        self._count, self._prompts, self._limits, self._seed = count, prompts, limits, seed

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> Sample:
        rng, shape, colour = self._kind(index)
        rows, columns = self._limits.grid(*rng.choice(_FRAMES))
        image = _draw(rng, shape, _COLOURS[colour], rows * self._limits.cell, columns * self._limits.cell)
        return image, *self._prompts.sample(f"Which colour has the {shape}?", colour)

    def references(self, index: int) -> tuple[str, ...]:
        """Return the correct colour."""
        return (self._kind(index)[2],)

    def _kind(self, index: int) -> tuple[random.Random, str, str]:
        rng = random.Random(f"{self._seed} {index}")
        return rng, rng.choice(_SHAPES), rng.choice(list(_COLOURS))

    def fingerprint(self) -> str:
        """Return the hash of the seed and the limits that determine the samples."""
        return f"{self._count} shapes {self._seed} {self._limits} {self._prompts.identity}"


def _draw(
    rng: random.Random, shape: str, colour: tuple[int, int, int], height: int, width: int
) -> torch.Tensor:
    """Draw a shape on noise: uint8 [3, height, width]."""
    noise = torch.Generator().manual_seed(rng.getrandbits(31))
    image = torch.randint(102, 128, (3, height, width), generator=noise, dtype=torch.uint8)
    side = min(height, width)
    radius = side * rng.uniform(0.12, 0.25)
    centre = [rng.uniform(radius, extent - radius) for extent in (height, width)]
    y, x = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    down, across = (y - centre[0]).abs(), (x - centre[1]).abs()
    if shape == "disc":
        inside = down**2 + across**2 < radius**2
    elif shape == "square":
        inside = torch.maximum(down, across) < 0.8 * radius
    else:
        inside = (torch.minimum(down, across) < 0.25 * radius) & (torch.maximum(down, across) < radius)
    return torch.where(inside, torch.tensor(colour, dtype=torch.uint8)[:, None, None], image)
