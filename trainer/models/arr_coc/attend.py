"""Which visual tokens the language model gets: the most relevant ones, as many as the image is worth."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.nn import functional as F

LEAST, MOST = 64, 400
"""Tokens of one image (the workload's budget)."""
ENOUGH = 0.5
"""A place with this much relevance is worth a token."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """Tokens of each image in the order of reading.

    `index` [B, K] int64 into the grid's raster, `there` [B, K] whether it is one at all (images have budgets
    of their own), `gate` [B, K] exactly 1 with the gradient of the relevance.
    """

    index: torch.Tensor
    there: torch.Tensor
    gate: torch.Tensor


def choose(relevance: torch.Tensor, grid: tuple[int, int], *, least: int = LEAST, most: int = MOST) -> Chosen:
    """Choose tokens of a grid of (rows, columns) by relevance [B, 32, 32].

    The number differs from image to image: all places with enough relevance, within the bounds. A choice has
    no gradient; the gate gives the scorers theirs.
    """
    score = F.interpolate(relevance[:, None], grid, mode="bilinear", align_corners=False).flatten(1)
    count = score.shape[1]
    budget = (score > ENOUGH).sum(1).clamp(min(least, count), min(most, count))
    width = int(budget.max())
    top = score.topk(width, 1).indices
    there = torch.arange(width, device=score.device)[None] < budget[:, None]
    # What is no token sorts behind all that are.
    index, order = top.masked_fill(~there, count).sort(1)
    there = there.gather(1, order)
    index = index.masked_fill(~there, 0)
    taken = score.gather(1, index)
    return Chosen(index, there, 1 + taken - taken.detach())


def at(values: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    """Rows of values [B, N, D] at index [B, K]: [B, K, D]."""
    return values.gather(1, index[:, :, None].expand(-1, -1, values.shape[2]))


def scores_at(maps: torch.Tensor, grid: tuple[int, int], index: torch.Tensor) -> torch.Tensor:
    """The maps [B, C, 32, 32] at the chosen tokens of a grid: [B, K, C]."""
    small = F.interpolate(maps, grid, mode="bilinear", align_corners=False)
    return at(small.flatten(2).transpose(1, 2), index)
